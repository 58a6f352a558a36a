/**
 * What the standing of a consumer means to operators. Pure.
 *
 * @module
 */

import type { ConsumerStanding } from "../consumer_report.ts";

/** Of a consumer that isn't there: it holds nothing and asks nobody. */
export const IDLE: ConsumerStanding = {
  gate: { state: "open", reason: null, until: null },
  used: 0,
  inFlight: 0,
  held: 0,
  dueSince: null,
  dueSinceBefore: null,
  delaysKnown: false,
};

/**
 * Whether the relay whose consumer is in this state is the one that delivers. One that is suspended
 * is as well: it has let the queue go only until there is a slot.
 */
export function isActive(state: string): boolean {
  return state === "consuming" || state === "suspended";
}

/**
 * Since when the oldest task has been due, as far as it is known (ms since the epoch); null: none is.
 *
 * @param waiting messages in main and in delays, where what was given back lies; null: not known
 */
export function oldestDueSince(
  { dueSince, dueSinceBefore, held }: ConsumerStanding,
  waiting: number | null,
): number | null {
  if (dueSince !== null) return dueSince;
  const isSomewhere = waiting !== 0 || held > 0; // what is given back is held until it lies there
  return isSomewhere ? dueSinceBefore : null;
}
