/**
 * The ladder: the contract's 27 attempts, and any other ladder.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { parseLadder } from "../../src/config.ts";
import { rungOf, stepAfter } from "../../src/consumer/ladder.ts";
import { delaysOf, maxAttempts, withJitter } from "../../src/rungs.ts";
import { DEFAULT_LADDER } from "../support/queues.ts";

const DEFAULT = parseLadder(DEFAULT_LADDER);

/** Seconds that a task waits before each of its attempts, to the last. */
function waits(ladder = DEFAULT): number[] {
  const seconds: number[] = [];
  for (let attempt = 1;; attempt++) {
    const rung = rungOf(ladder, attempt);
    if (rung === undefined) return seconds;
    seconds.push(rung.delayMs / 1000);
  }
}

Deno.test("the default ladder: 27 attempts, two at once, then five each after 3, 15, 60, 120, 240 s", () => {
  const five = (seconds: number): number[] => Array(5).fill(seconds);
  assert.deepEqual(waits(), [0, 0, ...[3, 15, 60, 120, 240].flatMap(five)]);
});

Deno.test("stepAfter: the delay is that of the attempt to come", () => {
  assert.deepEqual(stepAfter(DEFAULT, 1), { kind: "retry", rung: DEFAULT[0] });
  assert.deepEqual(stepAfter(DEFAULT, 2), { kind: "retry", rung: DEFAULT[1] });
  assert.deepEqual(stepAfter(DEFAULT, 26), { kind: "retry", rung: DEFAULT.at(-1) });
  assert.deepEqual(stepAfter(DEFAULT, 27), { kind: "exhausted" });
});

Deno.test("stepAfter: an attempt beyond a ladder that was shortened → exhausted", () => {
  for (const attempt of [28, 1_000, 10_000]) {
    assert.deepEqual(stepAfter(DEFAULT, attempt), { kind: "exhausted" });
  }
});

Deno.test("any ladder: climbed from the first attempt, it ends after exactly its attempts, in its order", () => {
  const anyLadder = fc.array(
    fc.record({ attempts: fc.integer({ min: 1, max: 9 }), delayMs: fc.nat(1_000) }),
    { minLength: 1, maxLength: 6 },
  );
  fc.assert(
    fc.property(anyLadder, (ladder) => {
      const climbed = [ladder[0]?.delayMs];
      for (let attempt = 1;; attempt++) {
        const step = stepAfter(ladder, attempt);
        if (step.kind === "exhausted") break;
        climbed.push(step.rung.delayMs);
      }
      assert.equal(climbed.length, maxAttempts(ladder));
      const drawn = ladder.flatMap(({ attempts, delayMs }) => Array(attempts).fill(delayMs));
      assert.deepEqual(climbed, drawn);
    }),
  );
});

Deno.test("withJitter: each delay is spread over 16 that are longer, evenly, by its share at most", () => {
  const [atOnce, three] = withJitter(DEFAULT, 0.5);
  assert.ok(atOnce && three);
  assert.deepEqual(delaysOf(atOnce), [0]);
  const delays = delaysOf(three);
  assert.equal(delays.length, 16);
  for (const [n, delayMs] of delays.entries()) {
    const middle = 3_000 + 1_500 * (n + 0.5) / 16;
    assert.ok(Math.abs(delayMs - middle) <= 0.5, `${delayMs} for ${middle}`);
  }
  assert.equal(withJitter(DEFAULT, 0), DEFAULT);
  assert.deepEqual(delaysOf(withJitter(parseLadder("1x1ms"), 1)[0]!), [1, 2]);
});
