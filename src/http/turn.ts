/**
 * Long work in pieces, so that other clients are answered meanwhile.
 *
 * @module
 */

import { setImmediate } from "node:timers/promises";

/** Long work may hold up other requests for about this long at a time, milliseconds. */
const TURN_MS = 4;

/** The time since others had their turn. */
export class Turn {
  #began = performance.now();

  /** Whether it is time to let others. */
  get isOver(): boolean {
    return performance.now() - this.#began > TURN_MS;
  }

  /** Lets others do what they have to. */
  async giveWay(): Promise<void> {
    await setImmediate();
    this.#began = performance.now();
  }
}
