/**
 * The metrics of both threads as one, also when consumers die.
 *
 * @module
 */

import assert from "node:assert/strict";
import { exposition, Tally } from "../../src/ops/tally.ts";
import { aMetric, valueIn } from "../support/metrics.ts";

const OWN = [aMetric("tasks_accepted_total", [[7, {}]])];

async function delivered(tally: Tally): Promise<number | undefined> {
  const text = await exposition(await tally.with(OWN));
  assert.equal(valueIn(text, "tasks_accepted_total"), 7);
  return valueIn(text, 'dispositions_total{disposition="delivered"}');
}

Deno.test("a consumer reports again → its newest report counts; it dies → its last one is kept", async () => {
  const tally = new Tally();
  const report = (count: number) => [
    aMetric("dispositions_total", [[count, { disposition: "delivered" }]]),
  ];
  assert.equal(await delivered(tally), undefined);
  await tally.take(1, report(5));
  await tally.take(1, report(8));
  assert.equal(await delivered(tally), 8);
  await tally.take(2, report(0));
  assert.equal(await delivered(tally), 8, "a fall would be a restart to Prometheus");
  await tally.take(2, report(3));
  await tally.take(3, report(1));
  assert.equal(await delivered(tally), 12);
});

Deno.test("histograms → added bucket by bucket", async () => {
  const tally = new Tally();
  const report = [
    aMetric("queue_age_seconds", [
      [1, { le: 1 }, "_bucket"],
      [2, { le: "+Inf" }, "_bucket"],
      [1.5, {}, "_sum"],
      [2, {}, "_count"],
    ], "histogram"),
  ];
  await tally.take(1, report);
  await tally.take(2, report);
  const text = await exposition(await tally.with([]));
  assert.equal(valueIn(text, 'queue_age_seconds_bucket{le="1"}'), 2);
  assert.equal(valueIn(text, 'queue_age_seconds_bucket{le="+Inf"}'), 4);
  assert.equal(valueIn(text, "queue_age_seconds_sum"), 3);
  assert.equal(valueIn(text, "queue_age_seconds_count"), 4);
});

Deno.test("a label's value with quotes and line ends → escaped; Infinity → +Inf", async () => {
  const text = await exposition([
    aMetric("queue_messages", [[1, { queue: 'a"b\\c\nd' }]], "gauge"),
    aMetric("drain_seconds", [[Infinity, {}]], "gauge"),
  ]);
  assert.match(text, /queue_messages\{queue="a\\"b\\\\c\\nd"\} 1/);
  assert.equal(valueIn(text, "drain_seconds"), Infinity);
});
