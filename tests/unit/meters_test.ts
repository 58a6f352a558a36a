/**
 * What is counted of attempts and deliveries.
 *
 * @module
 */

import assert from "node:assert/strict";
import { parseLadder } from "../../src/config.ts";
import { Meters } from "../../src/consumer/meters.ts";
import type { Answer } from "../../src/consumer/outcome.ts";
import type { Settlement } from "../../src/consumer/ports.ts";
import { exposition } from "../../src/ops/tally.ts";
import type { Task } from "../../src/task.ts";
import { valueIn } from "../support/metrics.ts";
import { aTask } from "../support/tasks.ts";

const OK: Answer = { kind: "status", status: 201, text: "" };
const BROKEN: Answer = { kind: "status", status: 500, text: "" };
const REFUSED: Answer = { kind: "failure", outcome: "refused", error: "nobody listens" };

/** Counts attempts that began 1.5 s after their task was enqueued and took 70 ms. */
class MetersBench {
  readonly meters = new Meters(parseLadder("1x0s,1x3s"));

  attempt(
    answer: Answer,
    settlement: Settlement,
    { task = aTask(), settled = true }: { readonly task?: Task; readonly settled?: boolean } = {},
  ): void {
    const attempt = { beganAt: task.enqueuedAt + 1_500, durationMs: 70, answer };
    this.meters.attempt({ task, attempt, limiterWaitMs: 250, settlement, settled });
  }

  async values(...series: readonly string[]): Promise<(number | undefined)[]> {
    const text = await exposition(await this.meters.report());
    return series.map((each) => valueIn(text, each));
  }
}

const disposition = (name: string): string => `dispositions_total{disposition="${name}"}`;
const failed: Settlement = {
  to: "failed",
  task: aTask(),
  failure: { reason: "attempts_exhausted", failedAt: 1 },
};
const retried: Settlement = { to: "rung", task: aTask(), delayMs: 3_000 };

Deno.test("before anything happened → every disposition is 0, so that the first one is a rise", async () => {
  const bench = new MetersBench();
  const names = ["delivered", "retried", "failed", "duplicate", "cancelled"].map(disposition);
  assert.deepEqual(await bench.values(...names), [0, 0, 0, 0, 0]);
});

Deno.test("attempts → by outcome and status, how long they took and waited, what became of them", async () => {
  const bench = new MetersBench();
  bench.attempt(OK, { to: "done" });
  bench.attempt(BROKEN, retried);
  bench.attempt(REFUSED, failed, { task: aTask({ attempt: 2 }) });
  assert.deepEqual(
    await bench.values(
      'attempts_total{outcome="ok",status="201"}',
      'attempts_total{outcome="status",status="500"}',
      'attempts_total{outcome="refused",status=""}',
      disposition("delivered"),
      disposition("retried"),
      disposition("failed"),
    ),
    [1, 1, 1, 1, 1, 1],
  );
  assert.deepEqual(
    await bench.values(
      'attempt_duration_seconds_bucket{le="0.06"}',
      'attempt_duration_seconds_bucket{le="0.08"}',
      'attempt_duration_seconds_bucket{le="+Inf"}',
      "attempt_duration_seconds_count",
      'limiter_wait_seconds_bucket{le="0.1"}',
      'limiter_wait_seconds_bucket{le="0.5"}',
    ),
    [0, 3, 3, 3, 0, 3],
  );
});

Deno.test("task attempts → of tasks that are delivered or failed, not of those that are tried again", async () => {
  const bench = new MetersBench();
  bench.attempt(BROKEN, retried);
  bench.attempt(OK, { to: "done" }, { task: aTask({ attempt: 2 }) });
  assert.deepEqual(
    await bench.values('task_attempts_bucket{le="1"}', 'task_attempts_bucket{le="2"}'),
    [0, 1],
  );
});

Deno.test("queue age → of first attempts, not of a task that was sent again long after", async () => {
  const bench = new MetersBench();
  bench.attempt(OK, { to: "done" }, { task: aTask({ attempt: 2 }) });
  bench.attempt(OK, { to: "done" }, { task: aTask({ redriven: 1 }) });
  assert.deepEqual(await bench.values("queue_age_seconds_count"), [0]);
  bench.attempt(OK, { to: "done" });
  assert.deepEqual(await bench.values("queue_age_seconds_count", "queue_age_seconds_sum"), [
    1,
    1.5,
  ]);
});

Deno.test("the delivery was lost before it was settled → the attempt counts, no disposition", async () => {
  const bench = new MetersBench();
  bench.attempt(OK, { to: "done" }, { settled: false });
  assert.deepEqual(
    await bench.values('attempts_total{outcome="ok",status="201"}', disposition("delivered")),
    [1, 0],
  );
});

Deno.test("no label has an id", async () => {
  const bench = new MetersBench();
  const task = aTask({ idempotencyKey: "order-1" });
  bench.attempt(OK, { to: "done" }, { task });
  const text = await exposition(await bench.meters.report());
  assert.doesNotMatch(text, new RegExp(`${task.id}|order-1`));
});
