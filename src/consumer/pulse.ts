/**
 * Whether this process has been running all the while: one that was stopped (SIGSTOP, a paused virtual
 * machine, a laptop that slept) wakes up with a view of the world from before.
 *
 * What waits for a timer is woken before the news of that time is read from the sockets. Meanwhile the
 * broker may have given the tasks to another relay, which spends the backend's limit. So after a pause
 * nothing begins until the broker has answered.
 *
 * @module
 */

import type { Clock } from "../clock.ts";

const BEAT_MS = 250;

/** So long without a beat is a pause, milliseconds. */
const PAUSE_MS = 1_000;

/** Beats as long as the process runs. */
export class Pulse {
  readonly #clock: Clock;
  #beatAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beatAt = clock.monotonic();
  }

  /** False after a pause, until the world was looked at again. */
  steady(): boolean {
    return this.#clock.monotonic() - this.#beatAt < PAUSE_MS;
  }

  /**
   * Beats until `signal` aborts.
   *
   * @param look looks at the world after a pause; the next beat comes when it has settled.
   */
  async beat(signal: AbortSignal, look: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      await this.#clock.sleep(BEAT_MS, signal);
      if (!this.steady()) await look();
      this.#beatAt = this.#clock.monotonic();
    }
  }
}
