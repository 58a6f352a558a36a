/**
 * The line of an attempt, with the names of the contract.
 *
 * @module
 */

import assert from "node:assert/strict";
import { parseLadder } from "../../src/config.ts";
import type { Answer } from "../../src/consumer/outcome.ts";
import type { Settlement } from "../../src/consumer/ports.ts";
import { attemptLine, dueAt } from "../../src/consumer/report.ts";
import type { Task } from "../../src/task.ts";
import { aTask } from "../support/tasks.ts";

const ladder = parseLadder("2x0s,5x3s");
const rules = {
  ladder,
  queues: { prefix: "tasks", type: "quorum", singleActiveConsumer: true },
} as const;

const REFUSED: Answer = { kind: "failure", outcome: "refused", error: "connection refused" };
const FAILURE = { reason: "attempts_exhausted", failedAt: 1 } as const;

function line(
  { task = aTask(), answer = REFUSED, settlement, settled = true }: {
    readonly task?: Task;
    readonly answer?: Answer;
    readonly settlement: Settlement;
    readonly settled?: boolean;
  },
): Record<string, unknown> {
  const attempt = { beganAt: task.enqueuedAt + 1_500.4, durationMs: 12.34, answer };
  return attemptLine({ task, attempt, limiterWaitMs: 99.9, settlement, settled }, rules);
}

Deno.test("attempt line: everything that the contract names, and nothing of the payload", () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const task = aTask({ idempotencyKey: "order-1", traceparent });
  const delivered = line({
    task,
    answer: { kind: "status", status: 201, text: "made" },
    settlement: { to: "done" },
  });
  assert.deepEqual(delivered, {
    task_id: task.id,
    idempotency_key: "order-1",
    trace_id: "0af7651916cd43dd8448eb211c80319c",
    attempt: 1,
    max_attempts: 7,
    queue_age_ms: 1_500,
    limiter_wait_ms: 100,
    status: 201,
    duration_ms: 12,
    outcome: "ok",
    error: undefined,
    retry_after_ms: undefined,
    disposition: "delivered",
    next_queue: undefined,
  });
});

const DISPOSITIONS: readonly [Settlement, disposition: string, next: string | undefined][] = [
  [{ to: "rung", task: aTask(), delayMs: 0 }, "retried", "tasks.main"],
  [{ to: "rung", task: aTask(), delayMs: 3_000 }, "retried", "tasks.retry.3s"],
  [{ to: "rung", task: aTask(), delayMs: 500 }, "retried", "tasks.retry.0.5s"],
  [{ to: "delay", task: aTask(), delayMs: 4_500 }, "retried", "tasks.delay.4s"],
  [{ to: "failed", task: aTask(), failure: FAILURE }, "failed", "tasks.failed"],
];

for (const [settlement, disposition, next] of DISPOSITIONS) {
  Deno.test(`attempt line: a task that went to ${next} is ${disposition}`, () => {
    const told = line({ settlement });
    assert.deepEqual([told.disposition, told.next_queue], [disposition, next]);
    assert.deepEqual([told.outcome, told.error], ["refused", "connection refused"]);
    assert.equal(told.status, undefined);
  });
}

Deno.test("attempt line: the delivery was lost before it could be settled → says so, names no queue", () => {
  const told = line({ settlement: { to: "rung", task: aTask(), delayMs: 0 }, settled: false });
  assert.deepEqual([told.disposition, told.next_queue], ["unsettled", undefined]);
});

Deno.test("queue age: from the moment at which the attempt was due, never negative", () => {
  const first = aTask();
  assert.equal(dueAt(first, ladder), first.enqueuedAt);
  const history = [{ time: 10_000, outcome: "status", ms: 200, status: 500 }] as const;
  assert.equal(dueAt(aTask({ attempt: 2, history }), ladder), 10_200);
  assert.equal(dueAt(aTask({ attempt: 3, history }), ladder), 13_200);
  const early = aTask({ attempt: 3, history: [{ ...history[0], time: first.enqueuedAt + 9_000 }] });
  assert.equal(line({ task: early, settlement: { to: "done" } }).queue_age_ms, 0);
});
