/**
 * Those who wait for a slot, first come, first served; and how long anybody waits. What both limiters
 * have in common: the one of this process and the one that replicas share.
 *
 * @module
 */

import type { Signal } from "./gate.ts";

/** Leave to make one request. */
export interface Slot {
  /**
   * To be called right before the request is written. False: the gate has closed since, or the
   * process stood still; the slot is gone, and the request must not be written.
   */
  begin(): boolean;
  /** The request is over; when it could not be written it has been one as well. */
  end(signal: Signal): void;
  /** To be called instead when no request is to be made: the slot is for somebody else. */
  release(): void;
}

/** Who gives out slots. */
export interface SlotSource {
  /**
   * Waits for a slot; undefined when `signal` aborted first or the next slot is too far away, in
   * which case none is spent.
   *
   * @param since the moment (monotonic ms) from which the waiting counts; now unless given.
   */
  take(signal: AbortSignal, since?: number): Promise<Slot | undefined>;
  /**
   * When the next slot can be granted, in monotonic milliseconds; never before now. Infinity while
   * that hangs on something of which nobody knows how long it takes.
   */
  freeAt(): number;
  /** Requests begun in the window that lasts now, and those of this process that are under way. */
  standing(): { readonly used: number; readonly inFlight: number };
}

/** How long anybody waits. Milliseconds. */
export interface Waits {
  /** Who would have to wait longer than this is refused at once. */
  readonly foreseeable: number;
  /** Who has waited this long is refused, as when a closed gate is tried again and again. */
  readonly altogether: number;
}

/** Somebody who waits. */
interface Waiter {
  /** Monotonic ms. */
  readonly since: number;
  /** Gives the slot, or nothing: refused. */
  readonly settle: (slot?: Slot) => void;
}

/** The line in front of a limiter. */
export class WaitingLine {
  readonly #waiting = new Set<Waiter>();
  readonly #longest: Waits;
  readonly #emptied: () => void;

  /** @param emptied called when the last has left. */
  constructor(longest: Waits, emptied: () => void) {
    this.#longest = longest;
    this.#emptied = emptied;
  }

  /** How many wait. */
  get length(): number {
    return this.#waiting.size;
  }

  /** Waits from `since` (monotonic ms) on; undefined: refused, or `signal` aborted. */
  join(signal: AbortSignal, since: number): Promise<Slot | undefined> {
    return new Promise((resolve) => {
      const settle = (slot?: Slot): void => {
        this.#waiting.delete(waiter);
        if (this.#waiting.size === 0) this.#emptied();
        signal.removeEventListener("abort", abandon);
        resolve(slot);
      };
      const abandon = (): void => settle();
      const waiter = { since, settle };
      signal.addEventListener("abort", abandon);
      this.#waiting.add(waiter);
    });
  }

  /** Gives a slot to the first. Call it only when somebody waits. */
  serve(slot: Slot): void {
    const [first] = this.#waiting;
    first?.settle(slot);
  }

  /**
   * Nobody can be served before `moment` (monotonic ms, or Infinity): how long that can be waited
   * for, in whole milliseconds, which is Infinity when nobody waits. When it is too long, or the first
   * has waited long enough, all are refused.
   */
  patience(moment: number, now: number): number {
    const [first] = this.#waiting;
    if (first === undefined) return Infinity;
    const patienceEnds = first.since + this.#longest.altogether;
    const tooFar = moment !== Infinity && moment - now > this.#longest.foreseeable;
    if (tooFar || patienceEnds <= now) {
      for (const { settle } of this.#waiting) settle();
      return Infinity;
    }
    // Whole milliseconds: a sleep of a rounding error's length would end at once, again and again.
    return Math.ceil(Math.min(moment, patienceEnds) - now);
  }
}
