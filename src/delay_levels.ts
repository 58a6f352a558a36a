/**
 * Delays in binary: which levels a delay is made of. Pure; `broker/delay_topology.ts` makes queues of it.
 *
 * @module
 */

/** Levels: 2⁰ to 2¹⁹ seconds. */
export const LEVELS = 20;

/** The longest delay in milliseconds: all levels together. */
export const LONGEST_DELAY_MS = (2 ** LEVELS - 1) * 1000;

/** A delay in whole seconds, rounded up; at least one. */
export function secondsOf(delayMs: number): number {
  return Math.max(1, Math.ceil(Math.min(delayMs, LONGEST_DELAY_MS) / 1000));
}

/** The level that a delay passes first: its highest binary digit. */
export function firstLevel(seconds: number): number {
  return Math.floor(Math.log2(seconds));
}
