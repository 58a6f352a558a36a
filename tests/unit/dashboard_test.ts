/**
 * What the dashboard makes of figures, foreign text and events, apart from the browser.
 *
 * @module
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { HEIGHT, linePath, summaryOf, topOf, WIDTH } from "../../src/ops/dashboard/chart.ts";
import {
  formatCount,
  formatDuration,
  formatMoment,
  formatMs,
  formatRate,
  prettyJson,
  secondsUntil,
  showText,
} from "../../src/ops/dashboard/format.ts";
import { EventParser } from "../../src/ops/dashboard/sse.ts";
import { describeStats } from "../../src/cli/describe.ts";
import { addSample, replicaText, statusCounts } from "../../src/ops/dashboard/view.ts";
import { sampleAt, sampleStats } from "../support/sample_stats.ts";

Deno.test("figures as people read them; what is not known is a dash and never a zero", () => {
  assert.deepEqual([0, 1_234_567, null].map(formatCount), ["0", "1,234,567", "–"]);
  const seconds = [null, 0, 0.4, 59.6, 200, 3_600, 7_384, 266_400];
  assert.deepEqual(seconds.map(formatDuration), [
    "–",
    "0 s",
    "under 1 s",
    "1 min",
    "3 min 20 s",
    "1 h",
    "2 h 3 min",
    "3 d 2 h",
  ]);
  assert.deepEqual([null, 0.4, 999, 1_250].map(formatMs), ["–", "0 ms", "999 ms", "1.3 s"]);
  assert.deepEqual([0, 0.25, 12.54, 1_234].map(formatRate), ["0/s", "0.25/s", "12.5/s", "1,234/s"]);
  assert.equal(formatMoment("2026-05-01T12:00:45.123Z"), "2026-05-01 12:00:45 UTC");
  assert.equal(secondsUntil("2026-05-01T12:00:45Z", "2026-05-01T12:00:00Z"), 45);
  assert.equal(secondsUntil("2026-05-01T12:00:00Z", "2026-05-01T12:00:45Z"), 0, "it is over");
});

Deno.test("foreign text: control characters and those that turn or hide writing are shown by their code", () => {
  assert.equal(
    showText("a\u0000\u001b[2J\u0085\u202egpj\u200b\u2066"),
    "a\\u0000\\u001b[2J\\u0085\\u202egpj\\u200b\\u2066",
  );
  assert.equal(showText("line\n\tgrößer 日本 👩"), "line\n\tgrößer 日本 👩");
});

Deno.test("pretty JSON: any JSON keeps its value, and its numbers and strings their very characters", () => {
  fc.assert(fc.property(fc.json(), (text) => {
    const pretty = prettyJson(text);
    assert.ok(pretty !== undefined);
    assert.deepEqual(JSON.parse(pretty), JSON.parse(text));
  }));
  const text = '{"id":12345678901234567890,"a":1.0,"a":[ ],"s":"x, {y}: \\" z"}';
  const pretty =
    '{\n  "id": 12345678901234567890,\n  "a": 1.0,\n  "a": [],\n  "s": "x, {y}: \\" z"\n}';
  assert.equal(prettyJson(text), pretty);
  assert.equal(prettyJson("no JSON"), undefined);
});

Deno.test("the top of a chart: 1, 2 or 5 times a power of ten, never below what is shown", () => {
  const top = (...values: (number | null)[]): number => topOf([{ name: "x", values }]);
  assert.deepEqual([top(), top(null), top(0), top(1), top(3), top(51), top(0.3)], [
    1,
    1,
    1,
    1,
    5,
    100,
    0.5,
  ]);
  fc.assert(fc.property(fc.double({ min: 1e-6, max: 1e9, noNaN: true }), (value) => {
    assert.ok(top(value) >= value && top(value) <= value * 10);
  }));
});

Deno.test("a line ends at the right, has gaps where nothing is known, and a point alone is seen", () => {
  assert.equal(linePath([0, 10], 10, 2), `M0.0 ${HEIGHT}.0L${WIDTH}.0 0.0`);
  assert.equal(linePath([10], 10, 3), `M${WIDTH}.0 0.0h0.1`);
  assert.equal(linePath([10, null, 10], 10, 3), `M0.0 0.0h0.1M${WIDTH}.0 0.0h0.1`);
  assert.equal(linePath([], 10, 3), "");
});

Deno.test("what a chart says to who can't see it", () => {
  const format = (value: number): string => `${value}/s`;
  const told = summaryOf({ name: "delivered", values: [3, null, 1, 2] }, format);
  assert.equal(told, "delivered: now 2/s, lowest 1/s, highest 3/s");
  assert.match(summaryOf({ name: "p95", values: [1, null] }, format), /^p95: now nothing, lowest/);
  assert.equal(summaryOf({ name: "p95", values: [null] }, format), "p95: nothing known");
});

Deno.test("events: the same ones, however the stream is cut", () => {
  const stream =
    'event: stats\ndata: {"a":1}\n\n: a comment\n\ndata: two\ndata: lines\n\nevent: half';
  const events = [{ name: "stats", data: '{"a":1}' }, { name: "message", data: "two\nlines" }];
  fc.assert(fc.property(fc.array(fc.nat(stream.length)), (cuts) => {
    const parser = new EventParser();
    const borders = [0, ...cuts.toSorted((a, b) => a - b), stream.length];
    const parts = borders.slice(1).map((end, n) => stream.slice(borders[n], end));
    assert.deepEqual(parts.flatMap((part) => parser.push(part)), events);
  }));
});

Deno.test("15 minutes of samples are kept; statuses are counted over them, the most frequent first", () => {
  let samples = [sampleAt(0)];
  for (let n = 1; n < 200; n++) samples = [...addSample(samples, sampleAt(n), 5)];
  assert.equal(samples.length, 180);
  assert.deepEqual(samples.at(-1), sampleAt(199));
  const counted = statusCounts([
    { ...sampleAt(0), statuses: { "200": 2, timeout: 1 } },
    { ...sampleAt(1), statuses: { "200": 1, "503": 3 } },
  ]);
  assert.deepEqual(counted, [["200", 3], ["503", 3], ["timeout", 1]]);
});

Deno.test("a replica whose limit is in Redis: whether it can be read is told, on the page and by `stats`", () => {
  const { replica, ...rest } = sampleStats();
  const away = { ...rest, replica: { ...replica, limit: "unavailable: silent" } };
  assert.match(replicaText(away), /ledger ok, limit in Redis unavailable: silent$/);
  assert.match(describeStats(away, 80), /97 of 120 in 60 s, sliding-window; in Redis, unavailable/);
  assert.match(replicaText({ ...rest, replica }), /ledger ok$/);
});
