/**
 * How long what waits will take. Pure.
 *
 * Counted is what is to be delivered as soon as it may be: tasks in main, on the rungs, and in this
 * relay's hands. Delays that are no rung are not: they are due when their clients want it. Nor is the
 * time that a task stays on its rung added, as others are delivered meanwhile.
 *
 * The rate is what the limit allows, or less if less left the queues while there was always something
 * to deliver: a slow backend, or one that makes each task be tried again.
 *
 * @module
 */

import type { GateStanding } from "../consumer_report.ts";

/** What is known. */
export interface Backlog {
  /** Tasks that wait; undefined: the broker can't be asked. */
  readonly waiting: number | undefined;
  /** Requests a second that the limit allows. */
  readonly limitPerSecond: number;
  /** Tasks a second that were finished in the last minutes while others waited; undefined: none did. */
  readonly busyPerSecond: number | undefined;
  readonly paused: boolean;
  readonly gate: GateStanding;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Seconds; Infinity when it would never end as things are, undefined when that can't be known. */
export function drainSeconds(backlog: Backlog): number | undefined {
  const { waiting, limitPerSecond, busyPerSecond = Infinity, paused } = backlog;
  if (waiting === undefined) return undefined;
  if (waiting === 0) return 0;
  if (paused) return Infinity;
  const rate = Math.min(limitPerSecond, busyPerSecond);
  return rate > 0 ? closedSeconds(backlog) + waiting / rate : Infinity;
}

/** How long the gate stays closed. Nobody knows when a backend that is away comes back. */
function closedSeconds({ gate: { reason, until }, now }: Backlog): number {
  switch (reason) {
    case null:
      return 0;
    case "retry_after":
      return until === null ? 0 : Math.max(0, until - now) / 1000;
    case "breaker":
      return Infinity;
  }
}
