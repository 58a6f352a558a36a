/**
 * The names of the queues, for whoever declares them, and whoever names one in a log or a table.
 *
 * @module
 */

import { formatDelay } from "./rungs.ts";

/** The queue that tasks are delivered from. */
export function mainQueue(prefix: string): string {
  return `${prefix}.main`;
}

/** The queue of the rung with this delay; a delay of 0 is the main queue itself. */
export function rungQueue(prefix: string, delayMs: number): string {
  return delayMs === 0 ? mainQueue(prefix) : `${prefix}.retry.${formatDelay(delayMs)}`;
}

/** The queue of the delays' level that waits 2ⁿ seconds. */
export function delayQueue(prefix: string, level: number): string {
  return `${prefix}.delay.${2 ** level}s`;
}

/** The queue of what never succeeded. */
export function failedQueue(prefix: string): string {
  return `${prefix}.failed`;
}

/** The queue that exists while delivering is paused. */
export function pausedQueue(prefix: string): string {
  return `${prefix}.paused`;
}
