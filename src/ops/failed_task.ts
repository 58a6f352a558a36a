/**
 * A message of the failed queue as an operator sees it, and which of them are meant. Pure.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { HEADER, readHistory, readMessage } from "../task.ts";
import type { AttemptRecord, RawMessage, Task } from "../task.ts";

/** Why it lies there; `unknown` when somebody else laid it there. */
export const REASONS = [
  "attempts_exhausted",
  "permanent_status",
  "invalid_message",
  "delivery_limit",
  "unknown",
] as const;
export type Reason = typeof REASONS[number];

/** One line of the list. */
export interface FailedTask {
  readonly id: string;
  readonly reason: Reason;
  readonly lastStatus: number | null;
  readonly lastError: string | null;
  /** Attempts that were made since it was accepted, or last sent again. */
  readonly attempts: number;
  readonly enqueuedAt: string | null;
  readonly failedAt: string | null;
  /** How often it was sent again. */
  readonly redriven: number;
  readonly bytes: number;
}

/** All that is known of one. */
export interface FailedTaskDetail extends FailedTask {
  readonly contentType: string | null;
  readonly idempotencyKey: string | null;
  readonly history: readonly AttemptRecord[];
  /** The bytes as text, or as base64 when they are no UTF-8. */
  readonly payload: string;
  readonly payloadEncoding: "utf-8" | "base64";
}

/** Which failed tasks are meant. */
export interface Filter {
  readonly reason?: Reason | undefined;
  /** The backend's last status. */
  readonly status?: number | undefined;
}

/** Reads a message of the failed queue. */
export function readFailed({ id, body, headers }: RawMessage): FailedTask {
  const next = numberIn(headers[HEADER.attempt]) ?? 1;
  return {
    // One that came without an id gets a name of its content, so that it can be spoken of.
    id: textIn(id) ?? `unnamed-${createHash("sha256").update(body).digest("hex").slice(0, 16)}`,
    reason: reasonOf(headers),
    lastStatus: numberIn(headers[HEADER.lastStatus]) ?? null,
    lastError: textIn(headers[HEADER.lastError]) ?? null,
    attempts: Math.max(0, next - 1),
    enqueuedAt: timeOf(numberIn(headers[HEADER.enqueuedAt])),
    failedAt: timeOf(numberIn(headers[HEADER.failedAt]) ?? deathTime(headers)),
    redriven: numberIn(headers[HEADER.redriven]) ?? 0,
    bytes: body.length,
  };
}

/** Reads all of a message of the failed queue. */
export function readFailedDetail(message: RawMessage): FailedTaskDetail {
  const { contentType, headers, body } = message;
  return {
    ...readFailed(message),
    contentType: textIn(contentType) ?? null,
    idempotencyKey: textIn(headers[HEADER.idempotencyKey]) ?? null,
    history: readHistory(headers[HEADER.attempts]),
    ...readPayload(body),
  };
}

/** Whether `task` is meant. */
export function matches({ reason, status }: Filter, task: FailedTask): boolean {
  return (reason === undefined || reason === task.reason) &&
    (status === undefined || status === task.lastStatus);
}

/**
 * The task that a message of the failed queue becomes when it is sent again, but for how often it
 * was; undefined when it can't be understood, for it would only come back.
 */
export function redrivable(message: RawMessage, now: number): Task | undefined {
  const content = readMessage(message, now);
  if (content.kind === "invalid") return undefined;
  const { notBefore: _, redriven: __, ...task } = content.task;
  return { ...task, attempt: 1, history: [] };
}

/** Whether no attempt of this message was concluded as failed: the broker laid it here, or somebody. */
export function isDeadLettered(reason: Reason): boolean {
  return reason === "delivery_limit" || reason === "unknown";
}

function reasonOf(headers: RawMessage["headers"]): Reason {
  const given = headers[HEADER.reason];
  const known = REASONS.find((reason) => reason === given);
  return known ?? (Array.isArray(headers["x-death"]) ? "delivery_limit" : "unknown");
}

/** When the broker dead-lettered it: AMQP's timestamps are seconds. */
function deathTime(headers: RawMessage["headers"]): number | undefined {
  const deaths: unknown = headers["x-death"];
  const last: unknown = Array.isArray(deaths) ? deaths[0] : undefined;
  if (typeof last !== "object" || last === null || !("time" in last)) return undefined;
  const { time } = last;
  const seconds = typeof time === "object" && time !== null && "value" in time
    ? numberIn(time.value)
    : undefined;
  return seconds === undefined ? undefined : seconds * 1000;
}

function readPayload(body: Uint8Array): Pick<FailedTaskDetail, "payload" | "payloadEncoding"> {
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return { payload: decoder.decode(body), payloadEncoding: "utf-8" };
  } catch {
    return { payload: new Uint8Array(body).toBase64(), payloadEncoding: "base64" };
  }
}

function textIn(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function numberIn(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** RFC 3339 in UTC; null for what is no moment. */
function timeOf(ms: number | undefined): string | null {
  return ms === undefined || Number.isNaN(new Date(ms).getTime())
    ? null
    : new Date(ms).toISOString();
}
