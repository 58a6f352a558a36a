/**
 * The last 15 minutes in steps of 5 seconds: what the charts of the dashboard show. In memory, and as
 * differences of what the metrics count anyway, so that it costs the tasks nothing.
 *
 * @module
 */

import { type Counts, differenceOf, quantileOf } from "./counts.ts";
import type { StatsSample } from "./stats.ts";

/** The length of a step, seconds. */
export const STEP_SECONDS = 5;

/** How many steps are kept: 15 minutes. */
const LENGTH = 180;

/** How many of the last steps tell the rate: 5 minutes. */
const RATE_STEPS = 60;

/** What is seen at the border of two steps. */
export interface Reading {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly counts: Counts;
  /** Tasks in main and on the rungs; null: the broker can't be asked. */
  readonly waiting: number | null;
  /** Whether tasks wait in main that nothing but limit and backend keeps from being delivered. */
  readonly hasBacklog: boolean;
}

/** A step, and what the rate is reckoned from. */
interface Step {
  readonly sample: StatsSample;
  readonly seconds: number;
  /** Tasks that left the queues for good. */
  readonly finished: number;
  /** Whether there was something to deliver all the time, as far as its ends tell. */
  readonly busy: boolean;
}

/** The last steps. */
export class History {
  #before: Reading;
  readonly #steps: Step[] = [];

  /** @param start what is seen at the beginning of the first step */
  constructor(start: Reading) {
    this.#before = start;
  }

  /** Ends a step with what is seen now. */
  add(reading: Reading): StatsSample {
    const step = stepBetween(this.#before, reading);
    this.#before = reading;
    this.#steps.push(step);
    if (this.#steps.length > LENGTH) this.#steps.shift();
    return step.sample;
  }

  /** Oldest first. */
  get samples(): readonly StatsSample[] {
    return this.#steps.map(({ sample }) => sample);
  }

  /**
   * Tasks finished a second in the last five minutes while others waited; undefined when these were
   * fewer seconds than `leastSeconds`.
   */
  busyPerSecond(leastSeconds: number): number | undefined {
    const busy = this.#steps.slice(-RATE_STEPS).filter((step) => step.busy);
    const total = (pick: (step: Step) => number): number =>
      busy.reduce((sum, step) => sum + pick(step), 0);
    const seconds = total((step) => step.seconds);
    if (seconds === 0 || seconds < leastSeconds) return undefined;
    return total(({ finished }) => finished) / seconds;
  }
}

function stepBetween(before: Reading, after: Reading): Step {
  const counts = differenceOf(before.counts, after.counts);
  const { accepted, delivered, retried, failed, duplicate, cancelled } = counts;
  return {
    sample: {
      at: new Date(after.at).toISOString(),
      accepted,
      delivered,
      retried,
      failed,
      p50Ms: inMs(quantileOf(counts.durations, 0.5)),
      p95Ms: inMs(quantileOf(counts.durations, 0.95)),
      waiting: after.waiting,
      statuses: Object.fromEntries(counts.statuses),
    },
    // The wall clock may have been set back meanwhile.
    seconds: Math.max(1, (after.at - before.at) / 1000),
    finished: delivered + failed + duplicate + cancelled,
    busy: before.hasBacklog && after.hasBacklog,
  };
}

function inMs(seconds: number | null): number | null {
  return seconds === null ? null : Math.round(seconds * 10_000) / 10;
}
