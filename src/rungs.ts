/**
 * The rungs of the retry ladder: what configuration reads, the broker declares and the consumer climbs.
 *
 * @module
 */

/** One step of the retry ladder: `attempts` attempts, each made `delayMs` after the one before it. */
export interface Rung {
  readonly attempts: number;
  /** Milliseconds; 0 means at once. */
  readonly delayMs: number;
  /** With jitter: what a task may wait instead, each as likely, ascending milliseconds. */
  readonly spread?: readonly number[];
}

/** Delays that a rung is spread over. Each is a queue; the distribution is even to 1/32. */
const SPREAD = 16;

/**
 * The ladder whose delays are up to `share` longer by chance. As delays of their own, because a queue
 * gives its messages back in the order in which they came: different times for them in one queue
 * would make each wait for the one before it.
 */
export function withJitter(ladder: readonly Rung[], share: number): readonly Rung[] {
  if (share === 0) return ladder;
  return ladder.map((rung) =>
    rung.delayMs === 0 ? rung : { ...rung, spread: spreadOf(rung, share) }
  );
}

function spreadOf({ delayMs }: Rung, share: number): readonly number[] {
  const delays = Array.from(
    { length: SPREAD },
    (_, n) => Math.round(delayMs * (1 + share * (n + 0.5) / SPREAD)),
  );
  return [...new Set(delays)];
}

/** What a task may wait on this rung, milliseconds. */
export function delaysOf({ delayMs, spread }: Rung): readonly number[] {
  return spread ?? [delayMs];
}

/** The most attempts that a ladder may have in all. */
export const MOST_ATTEMPTS = 10_000;

/** How often a task is attempted before it is given up. */
export function maxAttempts(ladder: readonly Rung[]): number {
  return ladder.reduce((sum, rung) => sum + rung.attempts, 0);
}

/** A delay of whole milliseconds as queue names and logs show it: `3s`, `0.5s`, `240s`. */
export function formatDelay(ms: number): string {
  return `${ms / 1000}s`;
}
