/**
 * The limiter: whoever wants to ask the backend waits here, first come, first served, for the gate
 * and then for the rate.
 *
 * Every beginning is in the send log before the request is on the wire, so that the process that
 * follows a killed one knows what was spent.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import type { Signal } from "./gate.ts";
import type { Gatekeeper, Pass } from "./gatekeeper.ts";
import type { Pulse } from "./pulse.ts";
import type { RateWindow } from "./rate_window.ts";

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

/** What the limiter needs of the send log: durable memory of when requests began. */
export interface SendRecorder {
  /** `at` is wall time in milliseconds. */
  record(at: number): void;
}

/** How long anybody waits. Milliseconds. */
export interface Waits {
  /** Who would have to wait longer than this is refused at once. */
  readonly foreseeable: number;
  /** Who has waited this long is refused, as when a closed gate is tried again and again. */
  readonly altogether: number;
}

/** What a limiter is made of. */
export interface LimiterOptions {
  readonly window: RateWindow;
  readonly gate: Pick<Gatekeeper, "opensAt" | "enter">;
  readonly sends: SendRecorder;
  readonly pulse: Pick<Pulse, "steady">;
  readonly longest: Waits;
  readonly clock: Clock;
}

/** Somebody who waits. */
interface Waiter {
  /** Monotonic ms. */
  readonly since: number;
  /** Gives the slot, or nothing: refused. */
  readonly settle: (slot?: Slot) => void;
}

/** Grants slots in the order in which they were asked for. */
export class Limiter {
  readonly #clock: Clock;
  readonly #gate: LimiterOptions["gate"];
  readonly #sends: SendRecorder;
  readonly #pulse: LimiterOptions["pulse"];
  readonly #longest: Waits;
  #window: RateWindow;
  /** Nothing is granted before this moment (monotonic ms). */
  #notBefore = -Infinity;
  /** Slots that were granted and have not begun. */
  #pending = 0;
  /** Requests that have begun and not ended. */
  #underWay = 0;
  readonly #waiting = new Set<Waiter>();
  #timer: AbortController | undefined;

  constructor({ window, gate, sends, pulse, longest, clock }: LimiterOptions) {
    this.#window = window;
    this.#gate = gate;
    this.#sends = sends;
    this.#pulse = pulse;
    this.#longest = longest;
    this.#clock = clock;
  }

  /**
   * When the next slot can be granted, in monotonic milliseconds; never before now. Infinity while
   * that hangs on requests that are under way.
   */
  freeAt(): number {
    return this.#freeAt(this.#clock.monotonic());
  }

  /** Requests begun in the window that lasts now, and those that are under way. */
  standing(): { readonly used: number; readonly inFlight: number } {
    return { used: this.#window.used(this.#clock.monotonic()), inFlight: this.#underWay };
  }

  /** Replaces what is known of the past, and grants nothing before `notBefore` (monotonic ms). */
  takeOver(window: RateWindow, notBefore: number): void {
    const now = this.#clock.monotonic();
    // Slots that are out can't be called back: they will begin in the new window.
    for (let slot = 0; slot < this.#pending; slot++) window.grant(now);
    this.#window = window;
    this.#notBefore = Math.max(this.#notBefore, notBefore);
    this.#grantWaiting();
  }

  /**
   * Waits for a slot; undefined when `signal` aborted first or the next slot is too far away, in
   * which case none is spent.
   *
   * @param since the moment (monotonic ms) from which the waiting counts; now unless given.
   */
  async take(signal: AbortSignal, since?: number): Promise<Slot | undefined> {
    if (signal.aborted) return undefined;
    const now = this.#clock.monotonic();
    if (this.#waiting.size === 0 && this.#freeAt(now) <= now) return this.#grant(now);
    return await this.#wait(signal, since ?? now);
  }

  /** Everything is decided over one reading of the clock: a later one is never "now". */
  #freeAt(now: number): number {
    return Math.max(now, this.#notBefore, this.#gate.opensAt(), this.#window.freeAt(now));
  }

  #grant(now: number): Slot {
    this.#window.grant(now);
    this.#pending++;
    return this.#slot(this.#gate.enter(now));
  }

  #slot(pass: Pass): Slot {
    let used = false;
    const use = (how: () => void): void => {
      used = true;
      this.#pending--;
      how();
      this.#grantWaiting();
    };
    const release = (): void => {
      if (!used) use(() => [this.#window.withdraw(), pass.abandon()]);
    };
    const begin = (): void => {
      if (used) return;
      this.#underWay++;
      use(() => this.#window.begin(this.#clock.monotonic()));
      // Last: if it throws, this request is not written, and the others still get their turn.
      this.#sends.record(this.#clock.now());
    };
    return {
      release,
      begin: () => {
        const open = pass.mayBegin() && this.#pulse.steady();
        if (open) begin();
        else release();
        return open;
      },
      end: (signal) => {
        begin();
        this.#underWay--;
        pass.hear(signal);
        this.#grantWaiting();
      },
    };
  }

  #wait(signal: AbortSignal, since: number): Promise<Slot | undefined> {
    return new Promise((resolve) => {
      const settle = (slot?: Slot): void => {
        this.#waiting.delete(waiter);
        if (this.#waiting.size === 0) this.#timer?.abort();
        signal.removeEventListener("abort", abandon);
        resolve(slot);
      };
      const abandon = (): void => settle();
      const waiter = { since, settle };
      signal.addEventListener("abort", abandon);
      this.#waiting.add(waiter);
      this.#grantWaiting();
    });
  }

  /** Grants all that can be granted now and sets the one timer for the rest. */
  #grantWaiting(): void {
    this.#timer?.abort();
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    for (const { since, settle } of this.#waiting) {
      const freeAt = this.#freeAt(now);
      if (freeAt > now) return this.#grantAt(freeAt, since + this.#longest.altogether, now);
      settle(this.#grant(now));
    }
  }

  #grantAt(moment: number, patienceEnds: number, now: number): void {
    const tooFar = moment !== Infinity && moment - now > this.#longest.foreseeable;
    if (tooFar || patienceEnds <= now) {
      for (const { settle } of this.#waiting) settle();
      return;
    }
    if (moment === Infinity) return; // a begin(), end() or release() comes back here
    const timer = this.#timer = new AbortController();
    // Whole milliseconds: a sleep of a rounding error's length would end at once, again and again.
    const wakeIn = Math.ceil(Math.min(moment, patienceEnds) - now);
    this.#clock.sleep(wakeIn, timer.signal).then(() => {
      if (!timer.signal.aborted) this.#grantWaiting();
    });
  }
}
