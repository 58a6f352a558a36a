/**
 * A clock that stands still until a test turns it.
 *
 * Both hands move together. Sleepers wake in the order of their moments, and whatever a waking one
 * sets off runs before the next one wakes, as on a machine that is never busy.
 *
 * @module
 */

import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../src/clock.ts";

/** Sleeps begun at one moment after which somebody is surely waiting for a time that never comes. */
const BUSY_LOOP = 10_000;

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

/** Time for tests. */
export class FakeClock implements Clock {
  #monotonic: number;
  readonly #wallOffset: number;
  readonly #sleepers = new Set<Sleeper>();
  #sleepsNow = 0;

  /** @param monotonic and `wall`: what the hands show at first, milliseconds. */
  constructor(monotonic = 1_000, wall = Date.UTC(2026, 10, 30)) {
    this.#monotonic = monotonic;
    this.#wallOffset = wall - monotonic;
  }

  /** How many sleeps have not ended. */
  get sleeping(): number {
    return this.#sleepers.size;
  }

  now(): number {
    return this.#monotonic + this.#wallOffset;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  /** @throws {Error} (rejects) when so many sleeps begin at one moment that it must be a busy loop. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (++this.#sleepsNow > BUSY_LOOP) {
      return Promise.reject(new Error(`busy loop: ${BUSY_LOOP} sleeps begun at one moment`));
    }
    if (ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const sleeper = { until: this.#monotonic + ms, wake };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", wake);
    });
  }

  /** Lets `ms` pass, and lets all that is due in that time happen. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await settled();
    for (let next = this.#next(); next !== undefined && next.until <= end; next = this.#next()) {
      this.#goTo(next.until);
      next.wake();
      await settled();
    }
    this.#goTo(end);
    await settled();
  }

  #goTo(moment: number): void {
    if (moment > this.#monotonic) this.#sleepsNow = 0;
    this.#monotonic = Math.max(this.#monotonic, moment);
  }

  #next(): Sleeper | undefined {
    let first: Sleeper | undefined;
    for (const sleeper of this.#sleepers) {
      if (first === undefined || sleeper.until < first.until) first = sleeper;
    }
    return first;
  }
}

/** Settles when all that follows from what has happened so far has happened. */
export async function settled(): Promise<void> {
  await setImmediate();
}
