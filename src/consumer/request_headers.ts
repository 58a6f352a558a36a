/**
 * The header fields that the backend gets with a task. Pure.
 *
 * @module
 */

import type { Task } from "../task.ts";
import { childOf } from "../trace_context.ts";
import type { Sign } from "./signature.ts";

/** What is the same for all tasks. */
export interface HeaderRules {
  readonly maxAttempts: number;
  readonly authorization?: string;
  /** Absent: requests are not signed. */
  readonly sign?: Sign;
}

/** What is this attempt's own. */
export interface AttemptIdentity {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** 16 hexadecimal digits, for the trace that the task belongs to. */
  readonly parentId: string;
}

/** The request's header fields as a flat list of names and values. */
export function requestHeaders(
  task: Task,
  { maxAttempts, authorization, sign }: HeaderRules,
  { now, parentId }: AttemptIdentity,
): string[] {
  const headers = [
    "Content-Type",
    task.contentType,
    "Task-Id",
    task.id,
    "Task-Attempt",
    String(task.attempt),
    "Task-Max-Attempts",
    String(maxAttempts),
    "Task-Enqueued-At",
    new Date(task.enqueuedAt).toISOString(),
    "Idempotency-Key",
    task.idempotencyKey ?? task.id,
  ];
  const { traceparent, tracestate } = childOf(task, parentId);
  if (traceparent !== undefined) headers.push("traceparent", traceparent);
  if (tracestate !== undefined) headers.push("tracestate", tracestate);
  if (authorization !== undefined) headers.push("Authorization", authorization);
  if (sign !== undefined) {
    const seconds = Math.floor(now / 1000);
    headers.push("webhook-id", task.id, "webhook-timestamp", String(seconds));
    headers.push("webhook-signature", sign(task.id, seconds, task.body));
  }
  return headers;
}
