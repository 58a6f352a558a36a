/**
 * The task: what travels from a client through RabbitMQ to the backend.
 *
 * The payload is bytes and stays bytes: nothing in the relay serialises it again, so that
 * `{"id":12345678901234567890}` reaches the backend as the client wrote it.
 *
 * @module
 */

import { checkPayload } from "./payload.ts";
import { MOST_ATTEMPTS } from "./rungs.ts";

/** The name for how an attempt ended, the same in logs, metrics and the history of a task. */
export type OutcomeName =
  | "ok"
  | "status"
  | "timeout"
  | "refused"
  | "reset"
  | "dns"
  | "tls"
  | "protocol";

/** One attempt as the history (`relay-attempts`) keeps it. */
export interface AttemptRecord {
  /** When the request began, milliseconds since the epoch. */
  readonly time: number;
  readonly outcome: OutcomeName;
  /** The backend's HTTP status; absent when no answer was read. */
  readonly status?: number;
  /** Duration of the exchange in milliseconds. */
  readonly ms: number;
  /** Why it failed, cut to 200 characters; absent when it did not. */
  readonly error?: string;
}

/** A task together with where it stands on the ladder. */
export interface Task {
  readonly id: string;
  readonly body: Uint8Array;
  /** The client's Content-Type, sent to the backend unchanged. */
  readonly contentType: string;
  /** Number of the attempt to be made next, from 1. */
  readonly attempt: number;
  /** The client's key; without one the backend is sent the id. */
  readonly idempotencyKey?: string;
  /** When the task was accepted, milliseconds since the epoch. */
  readonly enqueuedAt: number;
  /** The next attempt is not made before, milliseconds since the epoch; absent: when it comes. */
  readonly notBefore?: number;
  readonly traceparent?: string;
  readonly tracestate?: string;
  /** How often an operator sent it again after it had failed; absent: never. */
  readonly redriven?: number;
  /** The attempts made so far, oldest first, at most the last 30. */
  readonly history: readonly AttemptRecord[];
}

/** Why a task lies in the failed queue (`relay-reason`). */
export type FailureReason = "attempts_exhausted" | "permanent_status" | "invalid_message";

/** How many attempts the history keeps. */
const HISTORY_LENGTH = 30;

/** The task after an attempt that did not deliver it: one further, with the attempt on record. */
export function withAttempt(task: Task, attempt: AttemptRecord): Task {
  const history = [...task.history, attempt].slice(-HISTORY_LENGTH);
  return { ...task, attempt: task.attempt + 1, history };
}

/** A message as any broker hands it over: bytes and loosely typed properties. */
export interface RawMessage {
  readonly body: Uint8Array;
  readonly id: unknown;
  readonly contentType: unknown;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** What a message holds: a task, or something that can't be understood and why. */
export type Content =
  | { readonly kind: "task"; readonly task: Task }
  | { readonly kind: "invalid"; readonly id: string; readonly problem: string };

/** Names of the headers that a task travels with. */
export const HEADER = {
  attempt: "relay-attempt",
  attempts: "relay-attempts",
  enqueuedAt: "relay-enqueued-at",
  notBefore: "relay-not-before",
  idempotencyKey: "idempotency-key",
  traceparent: "traceparent",
  tracestate: "tracestate",
  reason: "relay-reason",
  lastStatus: "relay-last-status",
  lastError: "relay-last-error",
  failedAt: "relay-failed-at",
  redriven: "relay-redriven",
} as const;

/**
 * Reads a message: the relay's own, or another producer's with none of the headers, which is a
 * first attempt. Never throws: what can't be sent on safely is `invalid`.
 *
 * @param now milliseconds since the epoch, for a message that doesn't say when it was enqueued.
 */
export function readMessage(message: RawMessage, now: number): Content {
  const id = readText(message.id) ?? crypto.randomUUID();
  const problem = problemOf(message);
  if (problem !== undefined) return { kind: "invalid", id, problem };
  const { headers } = message;
  return {
    kind: "task",
    task: {
      id,
      body: message.body,
      contentType: readText(message.contentType) ?? "application/json",
      attempt: readNumber(headers[HEADER.attempt]) ?? 1,
      enqueuedAt: readNumber(headers[HEADER.enqueuedAt]) ?? now,
      history: readHistory(headers[HEADER.attempts]),
      ...optionalNumber("notBefore", headers[HEADER.notBefore]),
      ...optionalNumber("redriven", headers[HEADER.redriven]),
      ...optionalText("idempotencyKey", headers[HEADER.idempotencyKey]),
      ...optionalText("traceparent", headers[HEADER.traceparent]),
      ...optionalText("tracestate", headers[HEADER.tracestate]),
    },
  };
}

/** The headers that carry `task`; {@link readMessage} is the way back. */
export function taskHeaders(task: Task): Record<string, string | number> {
  return {
    [HEADER.attempt]: task.attempt,
    [HEADER.enqueuedAt]: task.enqueuedAt,
    ...optionalNumber(HEADER.notBefore, task.notBefore),
    ...optionalNumber(HEADER.redriven, task.redriven),
    ...optionalText(HEADER.idempotencyKey, task.idempotencyKey),
    ...optionalText(HEADER.traceparent, task.traceparent),
    ...optionalText(HEADER.tracestate, task.tracestate),
    ...(task.history.length > 0 && { [HEADER.attempts]: JSON.stringify(task.history) }),
  };
}

/** What goes into a request's header must be ASCII on one line, or it could smuggle another header. */
const HEADER_SAFE = /^[\t\x20-\x7e]+$/;

function problemOf({ body, id, contentType, headers }: RawMessage): string | undefined {
  if (!isAbsentOrText(id, 255)) return "messageId must be 1 to 255 characters of visible ASCII";
  if (!isAbsentOrText(contentType, 255)) return "content type must be visible ASCII";
  for (const name of [HEADER.idempotencyKey, HEADER.traceparent, HEADER.tracestate]) {
    if (!isAbsentOrText(headers[name], 8192)) return `${name} must be visible ASCII`;
  }
  const attempt = headers[HEADER.attempt];
  if (attempt !== undefined && !isCount(attempt, MOST_ATTEMPTS)) {
    return `${HEADER.attempt} must be a whole number from 1 to ${MOST_ATTEMPTS}`;
  }
  const redriven = headers[HEADER.redriven];
  if (redriven !== undefined && !isCount(redriven, Number.MAX_SAFE_INTEGER)) {
    return `${HEADER.redriven} must be a whole number from 1`;
  }
  for (const name of [HEADER.enqueuedAt, HEADER.notBefore]) {
    if (headers[name] === undefined || isCount(headers[name], LATEST_DATE_MS)) continue;
    return `${name} must be milliseconds since the epoch`;
  }
  return headers[HEADER.enqueuedAt] === undefined ? payloadProblem(body) : undefined;
}

/** Ingest has checked the payload of a message of its own; that of another producer it has not. */
function payloadProblem(body: Uint8Array): string | undefined {
  const check = checkPayload(body);
  return check.ok ? undefined : check.detail;
}

/** The latest moment that a Date can hold (ECMA-262, 21.4.1.1). */
const LATEST_DATE_MS = 8.64e15;

function isCount(value: unknown, max: number): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= max;
}

function isAbsentOrText(value: unknown, longest: number): boolean {
  if (value === undefined) return true;
  return typeof value === "string" && value.length <= longest && HEADER_SAFE.test(value);
}

function readText(value: unknown): string | undefined {
  return typeof value === "string" && HEADER_SAFE.test(value) ? value : undefined;
}

function readNumber(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function optionalText<Name extends string>(
  name: Name,
  value: unknown,
): Partial<Record<Name, string>> {
  const text: Partial<Record<Name, string>> = {};
  if (typeof value === "string") text[name] = value;
  return text;
}

function optionalNumber<Name extends string>(
  name: Name,
  value: unknown,
): Partial<Record<Name, number>> {
  const number: Partial<Record<Name, number>> = {};
  if (typeof value === "number") number[name] = value;
  return number;
}

/** The longest `relay-attempts` that is read, in characters: about twice what a relay writes. */
const LONGEST_HISTORY = 20_000;

/** A history that can't be read is no reason to refuse a task: it starts anew. */
export function readHistory(value: unknown): AttemptRecord[] {
  if (typeof value !== "string" || value.length > LONGEST_HISTORY) return [];
  try {
    const parsed: unknown = JSON.parse(value);
    return Array.isArray(parsed) ? parsed.filter(isAttemptRecord) : [];
  } catch {
    return [];
  }
}

function isAttemptRecord(value: unknown): value is AttemptRecord {
  return typeof value === "object" && value !== null &&
    "time" in value && typeof value.time === "number" &&
    "ms" in value && typeof value.ms === "number" &&
    "outcome" in value && typeof value.outcome === "string" &&
    (!("status" in value) || typeof value.status === "number") &&
    (!("error" in value) || typeof value.error === "string");
}
