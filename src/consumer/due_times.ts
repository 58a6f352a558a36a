/**
 * Since when the tasks at hand have been due, for whoever asks how long the oldest waits.
 *
 * What is given back or lost with its connection is still due, only not at hand any more; the oldest
 * of that is remembered until deliveries come again.
 *
 * @module
 */

import type { Delivery } from "./ports.ts";

/** Deliveries that have not begun. */
export class DueTimes {
  /** When each became due, milliseconds since the epoch. */
  readonly #held = new Map<Delivery, number>();
  #before = Infinity;

  /** The delivery came; it is or becomes due at `dueAt` (ms since the epoch). */
  add(delivery: Delivery, dueAt: number): void {
    this.#held.set(delivery, dueAt);
  }

  /** Its request begins, or it was settled: it waits no more. */
  remove(delivery: Delivery): void {
    this.#held.delete(delivery);
  }

  /** It goes back to the broker, where it waits on. */
  giveBack(delivery: Delivery): void {
    const dueAt = this.#held.get(delivery);
    if (dueAt === undefined) return;
    this.#before = Math.min(this.#before, dueAt);
    this.#held.delete(delivery);
  }

  /** Deliveries come again: what was is forgotten. */
  beginAnew(): void {
    this.#loseLost();
    this.#before = Infinity;
  }

  /** The oldest of what is at hand and due at `now`; null: there is none. */
  oldest(now: number): number | null {
    this.#loseLost();
    return dueBy(now, this.#held.values().reduce((oldest, at) => Math.min(oldest, at), Infinity));
  }

  /** The oldest of what was given back or lost; null: there is none. */
  oldestBefore(now: number): number | null {
    this.#loseLost();
    return dueBy(now, this.#before);
  }

  #loseLost(): void {
    for (const delivery of this.#held.keys()) {
      if (delivery.subscription.lost.aborted) this.giveBack(delivery);
    }
  }
}

function dueBy(now: number, dueAt: number): number | null {
  return dueAt <= now ? dueAt : null;
}
