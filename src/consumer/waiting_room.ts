/**
 * Which of the deliveries at hand is handled next, so that a message whose handling kills the
 * process does not take others with it to the delivery limit.
 *
 * A delivery that came {@link SUSPECT_AFTER} times before is a suspect: it is handled alone, with
 * nothing else in flight, after the deliveries that are not, and which of several suspects is next
 * is left to chance. Innocent ones, held while another killed the process, get through that way in
 * about log2(n) further deaths; the guilty one is alone each time and reaches the broker's limit.
 *
 * @module
 */

import type { Delivery } from "./ports.ts";

/** Returned this often, a delivery is a suspect. A deploy or a lost connection returns some once. */
export const SUSPECT_AFTER = 3;

/** A suspect waits this long for the rest of its prefetch batch before it is picked, ms. */
export const SUSPECT_WAITS_MS = 100;

/** After this long a suspect goes before deliveries that are none, ms. */
const SUSPECT_OVERDUE_MS = 10_000;

/** A delivery, and when it came (monotonic ms). */
interface Waiting {
  readonly delivery: Delivery;
  readonly since: number;
}

/** What was picked; `alone`: nothing else may start until it is over. */
export interface Pick extends Waiting {
  readonly alone: boolean;
}

/** The deliveries at hand that nobody handles yet. */
export class WaitingRoom {
  #fresh: Waiting[] = [];
  #suspects: Waiting[] = [];

  /** How many wait. */
  get size(): number {
    return this.#fresh.length + this.#suspects.length;
  }

  /** Takes a delivery in at `now` (monotonic ms); true when it is a suspect. */
  add(delivery: Delivery, now: number): boolean {
    const suspect = delivery.deliveriesBefore >= SUSPECT_AFTER;
    (suspect ? this.#suspects : this.#fresh).push({ delivery, since: now });
    return suspect;
  }

  /**
   * Takes out the delivery to be handled next.
   *
   * @param idle whether nothing is in flight.
   * @param random a number from 0 up to 1 that picks among suspects.
   */
  pick(now: number, idle: boolean, random: number): Pick | undefined {
    const overdue = this.#suspects.some(({ since }) => now - since >= SUSPECT_OVERDUE_MS);
    const fresh = overdue ? undefined : this.#fresh.shift();
    if (fresh !== undefined) return { ...fresh, alone: false };
    return idle ? this.#pickSuspect(now, random) : undefined;
  }

  /** Takes out everything. */
  clear(): Delivery[] {
    const all = [...this.#fresh, ...this.#suspects].map(({ delivery }) => delivery);
    this.#fresh = [];
    this.#suspects = [];
    return all;
  }

  #pickSuspect(now: number, random: number): Pick | undefined {
    const ready = this.#suspects.filter(({ since }) => now - since >= SUSPECT_WAITS_MS);
    const picked = ready[Math.floor(random * ready.length)];
    if (picked === undefined) return undefined;
    this.#suspects = this.#suspects.filter((suspect) => suspect !== picked);
    return { ...picked, alone: true };
  }
}
