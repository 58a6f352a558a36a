/**
 * Reading the counts of a test run: what CI reports and what its exit status is made of.
 *
 * @module
 */

import assert from "node:assert/strict";
import { readCounts } from "../support/test_counts.ts";

Deno.test("a run with coloured output, steps and filtered tests → the counts of its tests", () => {
  const output =
    "noise\n\n\x1b[0m\x1b[32mok\x1b[0m | 12 passed (3 steps) | 0 failed | 4 filtered " +
    "out \x1b[0m\x1b[38;5;245m(16ms)\x1b[0m\n\n";
  assert.deepEqual(readCounts(output, true), { passed: 12, failed: 0 });
});

Deno.test("a run with failures → both counts", () => {
  const output = "FAILED | 1 passed (1 step) | 3 failed (1 step) (296ms)\nerror: Test failed\n";
  assert.deepEqual(readCounts(output, false), { passed: 1, failed: 3 });
});

Deno.test("an ignored test → counted as failed", () => {
  const output = "ok | 5 passed | 0 failed | 2 ignored (1s)\n";
  assert.deepEqual(readCounts(output, true), { passed: 5, failed: 2 });
});

Deno.test("a run that died before its summary → one failure, not zero tests", () => {
  assert.deepEqual(readCounts("running 1 test from ./a_test.ts\nk ...", false), {
    passed: 0,
    failed: 1,
  });
});

Deno.test("a summary without failures, but an unsuccessful run → one failure", () => {
  assert.deepEqual(readCounts("ok | 5 passed | 0 failed (1s)\n", false), { passed: 5, failed: 1 });
});

Deno.test("a summary printed by a test → only the last one counts", () => {
  const output = "ok | 99 passed | 0 failed (1s)\nok | 5 passed | 0 failed (1s)\n";
  assert.deepEqual(readCounts(output, true), { passed: 5, failed: 0 });
});

Deno.test("no tests at all → zero counts", () => {
  assert.deepEqual(readCounts("ok | 0 passed | 0 failed (0ms)\n", true), { passed: 0, failed: 0 });
});
