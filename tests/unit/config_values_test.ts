/**
 * The retry ladder as text: what is read, what is refused and with which words.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { parseLadder } from "../../src/config.ts";
import { formatDelay, maxAttempts } from "../../src/rungs.ts";

const LADDERS: readonly [text: string, rungs: readonly [attempts: number, delayMs: number][]][] = [
  ["1x0s", [[1, 0]]],
  [" 2 x 0s , 5X1.5s ", [[2, 0], [5, 1500]]],
  ["3x250ms,1x2m,1x0.1h", [[3, 250], [1, 120_000], [1, 360_000]]],
  ["1x24h", [[1, 86_400_000]]],
  ["10000x.001s", [[10_000, 1]]],
];

for (const [text, rungs] of LADDERS) {
  Deno.test(`parseLadder: reads ${JSON.stringify(text)}`, () => {
    assert.deepEqual(parseLadder(text).map((rung) => [rung.attempts, rung.delayMs]), rungs);
  });
}

const BAD_LADDERS: readonly [text: string, fault: RegExp][] = [
  ["", /"" is not ATTEMPTSxDELAY/],
  ["5x", /"5x" is not ATTEMPTSxDELAY/],
  ["5x3", /"5x3" is not ATTEMPTSxDELAY/],
  ["5x3s,", /"" is not ATTEMPTSxDELAY/],
  ["-1x3s", /"-1x3s" is not ATTEMPTSxDELAY/],
  ["5x1e3s", /"5x1e3s" is not ATTEMPTSxDELAY/],
  ["1x1s,2xs,3x1d", /"2xs" is not ATTEMPTSxDELAY; "3x1d" is not ATTEMPTSxDELAY/],
  ["0x3s", /"0x3s" makes no attempt/],
  ["1x0.5ms", /"1x0.5ms" is not a whole number of milliseconds/],
  ["1x24.001h", /"1x24.001h" waits longer than 24h/],
  ["5000x0s,5001x1s", /10001 attempts in all are too many/],
  [`${"9".repeat(400)}x0s`, /attempts in all are too many/],
  [`1x${"9".repeat(400)}s`, /waits longer than 24h/],
];

for (const [text, fault] of BAD_LADDERS) {
  Deno.test(`parseLadder: refuses ${JSON.stringify(text).slice(0, 40)}`, () => {
    assert.throws(() => parseLadder(text), fault);
  });
}

Deno.test("formatDelay: names a delay in seconds", () => {
  assert.deepEqual([0, 1, 500, 1005, 3000, 240_000, 86_400_000].map(formatDelay), [
    "0s",
    "0.001s",
    "0.5s",
    "1.005s",
    "3s",
    "240s",
    "86400s",
  ]);
});

Deno.test("a ladder that is written out and read again is the same", () => {
  const rung = fc.record({
    attempts: fc.integer({ min: 1, max: 500 }),
    delayMs: fc.integer({ min: 0, max: 86_400_000 }),
  }, { noNullPrototype: true });
  fc.assert(
    fc.property(fc.array(rung, { minLength: 1, maxLength: 20 }), (ladder) => {
      const text = ladder.map((r) => `${r.attempts}x${formatDelay(r.delayMs)}`).join(",");
      assert.deepEqual(parseLadder(text), ladder);
    }),
  );
});

Deno.test("maxAttempts: is the sum over the rungs", () => {
  assert.equal(maxAttempts(parseLadder("2x0s,5x3s,5x15s,5x60s,5x120s,5x240s")), 27);
});
