/**
 * Tasks for tests that need one and care about a few of its properties only.
 *
 * @module
 */

import fc from "fast-check";
import type { AttemptRecord, Task } from "../../src/task.ts";

/** A task as ingest makes it, changed by `changes`. */
export function aTask(changes: Partial<Task> = {}): Task {
  return {
    id: "0190b5c2-task",
    body: new TextEncoder().encode('{"a":1}'),
    contentType: "application/json",
    attempt: 1,
    enqueuedAt: Date.UTC(2026, 10, 30, 12),
    history: [],
    ...changes,
  };
}

/** Text that may stand in a request's header. */
export const headerText: fc.Arbitrary<string> = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 60,
});

const anyAttempt: fc.Arbitrary<AttemptRecord> = fc.record({
  time: fc.nat(2 ** 31 - 1),
  outcome: fc.constantFrom("ok", "status", "timeout", "refused", "reset", "dns", "tls", "protocol"),
  ms: fc.nat(60_000),
  status: fc.integer({ min: 100, max: 999 }),
  error: fc.string({ unit: "binary", maxLength: 60 }),
}, { requiredKeys: ["time", "outcome", "ms"], noNullPrototype: true });

/** Any task that can be under way. */
export const anyTask: fc.Arbitrary<Task> = fc.record({
  id: headerText,
  body: fc.json().map((text) => new TextEncoder().encode(text)),
  contentType: headerText,
  attempt: fc.integer({ min: 1, max: 10_000 }),
  enqueuedAt: fc.integer({ min: 1, max: 8.64e15 }),
  history: fc.array(anyAttempt, { maxLength: 30 }),
  idempotencyKey: headerText,
  traceparent: headerText,
  tracestate: headerText,
}, {
  requiredKeys: ["id", "body", "contentType", "attempt", "enqueuedAt", "history"],
  noNullPrototype: true,
});
