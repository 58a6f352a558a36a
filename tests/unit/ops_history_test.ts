/**
 * The history: differences of counts, percentiles out of buckets, and the rate of the last minutes.
 *
 * @module
 */

import assert from "node:assert/strict";
import { type Counts, countsOf, differenceOf, quantileOf } from "../../src/ops/counts.ts";
import { History, type Reading } from "../../src/ops/history.ts";
import { aMetric } from "../support/metrics.ts";

const START = Date.UTC(2026, 10, 30);

const NOTHING: Counts = {
  accepted: 0,
  rejected: 0,
  delivered: 0,
  retried: 0,
  failed: 0,
  duplicate: 0,
  cancelled: 0,
  statuses: new Map(),
  durations: [],
};

function reading(step: number, counts: Partial<Counts> = {}, hasBacklog = true): Reading {
  return { at: START + step * 5_000, counts: { ...NOTHING, ...counts }, waiting: 7, hasBacklog };
}

Deno.test("counts: read from the metrics of both threads; what isn't there is 0", () => {
  const counts = countsOf([
    aMetric("tasks_accepted_total", [[5, {}]]),
    aMetric("tasks_rejected_total", [[1, { status: 400 }], [2, { status: 503 }]]),
    aMetric("dispositions_total", [[3, { disposition: "delivered" }], [1, {
      disposition: "failed",
    }]]),
    aMetric("attempts_total", [
      [3, { outcome: "ok", status: "200" }],
      [2, { outcome: "timeout", status: "" }],
    ]),
    aMetric("attempt_duration_seconds", [
      [1, { le: 0.1 }, "_bucket"],
      [5, { le: "+Inf" }, "_bucket"],
      [9.5, {}, "_sum"],
      [5, {}, "_count"],
    ]),
  ]);
  assert.deepEqual(counts, {
    ...NOTHING,
    accepted: 5,
    rejected: 3,
    delivered: 3,
    failed: 1,
    statuses: new Map([["200", 3], ["timeout", 2]]),
    durations: [{ le: 0.1, count: 1 }, { le: Infinity, count: 5 }],
  });
  assert.deepEqual(countsOf([]), NOTHING);
});

Deno.test("difference: what came since; a status that did not come is left out", () => {
  const before = { ...NOTHING, delivered: 3, statuses: new Map([["200", 3], ["500", 1]]) };
  const after = {
    ...NOTHING,
    delivered: 5,
    statuses: new Map([["200", 5], ["500", 1], ["timeout", 1]]),
    durations: [{ le: 1, count: 2 }, { le: Infinity, count: 2 }],
  };
  const { delivered, statuses, durations } = differenceOf(before, after);
  assert.equal(delivered, 2);
  assert.deepEqual(statuses, new Map([["200", 2], ["timeout", 1]]));
  assert.deepEqual(durations, after.durations, "nothing had been observed before");
  assert.deepEqual(differenceOf(after, after).durations.map(({ count }) => count), [0, 0]);
});

const BUCKETS = [
  { le: 0.1, count: 10 },
  { le: 0.2, count: 20 },
  { le: 0.4, count: 20 },
  { le: Infinity, count: 20 },
];

Deno.test("quantile: evenly spread within a bucket", () => {
  assert.equal(quantileOf(BUCKETS, 0.5), 0.1);
  assert.equal(quantileOf(BUCKETS, 0.25), 0.05);
  assert.ok(Math.abs((quantileOf(BUCKETS, 0.95) ?? 0) - 0.19) < 1e-9);
  assert.equal(quantileOf(BUCKETS, 1), 0.2);
});

Deno.test("quantile: beyond the last border → that border; without observations → null", () => {
  assert.equal(quantileOf([{ le: 60, count: 1 }, { le: Infinity, count: 10 }], 0.5), 60);
  assert.equal(quantileOf([{ le: 60, count: 0 }, { le: Infinity, count: 0 }], 0.5), null);
  assert.equal(quantileOf([], 0.5), null);
});

Deno.test("a step → what happened in it, and what waits at its end", () => {
  const history = new History(reading(0, { accepted: 100, delivered: 90 }));
  const sample = history.add(reading(1, {
    accepted: 110,
    delivered: 95,
    retried: 1,
    statuses: new Map([["200", 5], ["500", 1]]),
    durations: [{ le: 0.0123, count: 6 }, { le: Infinity, count: 6 }],
  }));
  assert.deepEqual(sample, {
    at: "2026-11-30T00:00:05.000Z",
    accepted: 10,
    delivered: 5,
    retried: 1,
    failed: 0,
    p50Ms: 6.2,
    p95Ms: 11.7,
    waiting: 7,
    statuses: { "200": 5, "500": 1 },
  });
  assert.deepEqual(history.samples, [sample]);
});

Deno.test("more than 15 minutes → the oldest steps are forgotten", () => {
  const history = new History(reading(0));
  for (let step = 1; step <= 200; step++) history.add(reading(step, { accepted: step }));
  assert.equal(history.samples.length, 180);
  assert.equal(history.samples[0]?.at, new Date(START + 21 * 5_000).toISOString());
  assert.equal(history.samples.at(-1)?.at, new Date(START + 200 * 5_000).toISOString());
});

Deno.test("the rate → of the steps with tasks waiting at both ends, if these were long enough", () => {
  const history = new History(reading(0, {}, false));
  assert.equal(history.busyPerSecond(0), undefined, "nothing is known");
  history.add(reading(1, { delivered: 500 }, true));
  assert.equal(history.busyPerSecond(0), undefined, "nothing waited at the step's beginning");
  history.add(reading(2, { delivered: 540, failed: 10 }));
  assert.equal(history.busyPerSecond(5), 10);
  assert.equal(history.busyPerSecond(6), undefined, "too short to tell");
  history.add(reading(3, { delivered: 540, failed: 10 }));
  assert.equal(history.busyPerSecond(5), 5);
  history.add(reading(4, { delivered: 900, failed: 10 }, false));
  assert.equal(history.busyPerSecond(5), 5, "nothing waited at the step's end");
});

Deno.test("the rate → of the last five minutes", () => {
  const history = new History(reading(0));
  for (let step = 1; step <= 60; step++) history.add(reading(step, { delivered: step * 50 }));
  assert.equal(history.busyPerSecond(15), 10);
  for (let step = 61; step <= 120; step++) history.add(reading(step, { delivered: 3_000 }));
  assert.equal(history.busyPerSecond(15), 0);
});
