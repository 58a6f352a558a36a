/** When a task is due: what Task-Delay and Task-Not-Before may hold, and what is refused. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { parseDueTime } from "../../src/ingest/due_time.ts";
import { parseHttpDate, parseRfc3339 } from "../../src/moments.ts";

const NOW = Date.UTC(2026, 10, 30, 21, 40, 0, 250);
const MAX = 604_800_000;

function delay(text: string, max = MAX): number | string | undefined {
  return read(parseDueTime({ delay: text, notBefore: null }, NOW, max));
}

function notBefore(text: string, max = MAX): number | string | undefined {
  return read(parseDueTime({ delay: null, notBefore: text }, NOW, max));
}

function read(due: ReturnType<typeof parseDueTime>): number | string | undefined {
  if (!due.ok) return due.detail;
  return due.notBefore === undefined ? undefined : due.notBefore - NOW;
}

Deno.test("Task-Delay: whole and fractional seconds up to the maximum, rounded up to milliseconds", () => {
  const cases: [string, number | undefined][] = [
    ["5", 5_000],
    ["0005", 5_000],
    ["90", 90_000],
    ["604800", MAX],
    ["604800.000", MAX],
    ["0.5", 500],
    ["1.0001", 1_001],
    ["0", undefined],
    ["0.0", undefined],
  ];
  for (const [text, expected] of cases) assert.equal(delay(text), expected, text);
});

Deno.test("Task-Delay: junk → refused, nothing is guessed", () => {
  const junk = ["", "-5", "+5", "-0", "1.", ".5", "1e3", "120junk", "5s", "5,5", "5, 5", "0x10"];
  junk.push("Infinity", "NaN", "PT5S", "１", "2026-11-30T22:00:00Z", "1 2", "1_000");
  for (const text of junk) assert.match(String(delay(text)), /must be a number of seconds/, text);
});

Deno.test("beyond the maximum → refused and told how much is allowed, however large", () => {
  for (const text of ["604800.001", "604801", "9999999999", "9".repeat(400)]) {
    assert.match(String(delay(text)), /Task-Delay is more than 604800 seconds ahead/, text);
  }
  assert.match(
    String(notBefore("2026-12-07T21:40:00.251Z")),
    /Task-Not-Before is more than 604800/,
  );
  assert.equal(notBefore("2026-12-07T21:40:00.250Z"), MAX);
  assert.match(String(delay("1", 0)), /more than 0 seconds/);
  assert.equal(delay("0", 0), undefined);
});

Deno.test("Task-Not-Before: RFC 3339 in any offset, and the three kinds of HTTP date", () => {
  const cases: [string, number][] = [
    ["2026-11-30T21:40:10Z", 9_750],
    ["2026-11-30t21:40:10z", 9_750],
    ["2026-11-30 21:40:10Z", 9_750],
    ["2026-11-30T22:40:10+01:00", 9_750],
    ["2026-11-30T16:10:10-05:30", 9_750],
    ["2026-12-01T05:40:10.5+08:00", 10_250],
    ["2026-11-30T21:40:10.0000001Z", 9_751],
    ["2026-11-30T21:40:60Z", 59_750],
    ["Mon, 30 Nov 2026 21:40:10 GMT", 9_750],
    ["Monday, 30-Nov-26 21:40:10 GMT", 9_750],
    ["Mon Nov 30 21:40:10 2026", 9_750],
    ["Tue Dec  1 21:40:10 2026", 86_409_750],
  ];
  for (const [text, expected] of cases) assert.equal(notBefore(text), expected, text);
});

Deno.test("Task-Not-Before in the past → at once", () => {
  const past = ["2026-11-30T21:40:00Z", "2026-11-30T21:40:00.250Z", "1999-01-01T00:00:00Z"];
  past.push("0000-01-01T00:00:00Z", "Sun, 06 Nov 1994 08:49:37 GMT");
  past.push("Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994");
  for (const text of past) assert.equal(notBefore(text), undefined, text);
});

Deno.test("Task-Not-Before: what is no moment → refused, also what Date.parse takes for one", () => {
  const junk = ["", "120", "-3", "1.5", "1764538800", "2026", "2026-12", "2026-12-01", "tomorrow"];
  junk.push("2026-12-01T00:00:00", "2026-12-01T00:00Z", "2026-12-01T24:00:00Z");
  junk.push("2026-02-30T00:00:00Z", "2027-02-29T00:00:00Z", "2026-13-01T00:00:00Z");
  junk.push("2026-00-01T00:00:00Z", "2026-12-00T00:00:00Z", "2026-12-01T00:60:00Z");
  junk.push("2026-12-01T00:00:61Z", "2026-12-01T00:00:00+24:00", "2026-12-01T00:00:00+01:60");
  junk.push("2026-12-01T00:00:00+0100", "2026-12-01T00:00:00.Z", "12026-12-01T00:00:00Z");
  junk.push(
    "Mon, 30 Nov 2026 21:40:10",
    "Mon, 30 Nov 2026 21:40:10 CET",
    "30 Nov 2026 21:40:10 GMT",
  );
  junk.push("Mon, 31 Nov 2026 21:40:10 GMT", "mon, 30 nov 2026 21:40:10 GMT");
  junk.push("Mon, 30 Nov 2026 21:40:10 GMT, Mon, 30 Nov 2026 21:40:10 GMT", "12/01/2026");
  for (const text of junk) assert.match(String(notBefore(text)), /RFC 3339.*HTTP date/, text);
});

Deno.test("both fields → refused, neither → at once", () => {
  const both = parseDueTime({ delay: "5", notBefore: "2026-11-30T21:40:10Z" }, NOW, MAX);
  assert.match(String(read(both)), /both/);
  assert.deepEqual(parseDueTime({ delay: null, notBefore: null }, NOW, MAX), { ok: true });
});

Deno.test("any moment that Date writes is read back, as RFC 3339 and as HTTP date", () => {
  const moment = fc.integer({ min: Date.UTC(1, 0, 1) - 62e12, max: Date.UTC(9999, 11, 31) })
    .map((ms) => Math.max(ms, -62_135_596_800_000));
  fc.assert(fc.property(moment, (ms) => {
    const date = new Date(ms);
    assert.equal(parseRfc3339(date.toISOString()), ms);
    const second = Math.floor(ms / 1000) * 1000;
    assert.equal(parseHttpDate(date.toUTCString(), NOW), second);
  }));
});

Deno.test("a year of two digits is at most fifty years ahead", () => {
  const year = (text: string): number => new Date(parseHttpDate(text, NOW) ?? NaN).getUTCFullYear();
  assert.equal(year("Monday, 30-Nov-76 21:40:10 GMT"), 2076);
  assert.equal(year("Monday, 30-Nov-77 21:40:10 GMT"), 1977);
  assert.equal(year("Monday, 30-Nov-00 21:40:10 GMT"), 2000);
});
