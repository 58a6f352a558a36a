/**
 * The retry ladder: which attempt comes next and how long the task waits for it. Pure.
 *
 *     2x0s  5x3s  5x15s  5x60s  5x120s  5x240s       (the default, 27 attempts in all)
 *
 *     attempt    1   2    3 … 7   8 … 12   13 … 17   18 … 22   23 … 27
 *     after     0s  0s       3s      15s       60s      120s      240s    then: failed
 *
 * @module
 */

import type { Rung } from "../rungs.ts";

/** Where a task goes after a failed attempt. */
export type NextStep =
  | { readonly kind: "retry"; readonly rung: Rung }
  | { readonly kind: "exhausted" };

/**
 * The step after attempt number `attempt` (from 1) failed. A number beyond the ladder, as a task
 * has that waited while the ladder was shortened, is exhausted too.
 */
export function stepAfter(ladder: readonly Rung[], attempt: number): NextStep {
  const rung = rungOf(ladder, attempt + 1);
  return rung === undefined ? { kind: "exhausted" } : { kind: "retry", rung };
}

/** The rung that attempt number `attempt` is made on; undefined beyond the ladder. */
export function rungOf(ladder: readonly Rung[], attempt: number): Rung | undefined {
  let last = 0;
  for (const rung of ladder) {
    last += rung.attempts;
    if (attempt <= last) return rung;
  }
  return undefined;
}
