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
import type { Gatekeeper, Pass } from "./gatekeeper.ts";
import type { Pulse } from "./pulse.ts";
import type { RateWindow } from "./rate_window.ts";
import { type Slot, type SlotSource, WaitingLine, type Waits } from "./waiting_line.ts";

/** What the limiter needs of the send log: durable memory of when requests began. */
export interface SendRecorder {
  /** `at` is wall time in milliseconds. */
  record(at: number): void;
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

/** Grants slots in the order in which they were asked for. */
export class Limiter implements SlotSource {
  readonly #clock: Clock;
  readonly #gate: LimiterOptions["gate"];
  readonly #sends: SendRecorder;
  readonly #pulse: LimiterOptions["pulse"];
  readonly #line: WaitingLine;
  #window: RateWindow;
  /** Nothing is granted before this moment (monotonic ms). */
  #notBefore = -Infinity;
  /** Slots that were granted and have not begun. */
  #pending = 0;
  /** Requests that have begun and not ended. */
  #underWay = 0;
  #timer: AbortController | undefined;

  constructor({ window, gate, sends, pulse, longest, clock }: LimiterOptions) {
    this.#window = window;
    this.#gate = gate;
    this.#sends = sends;
    this.#pulse = pulse;
    this.#line = new WaitingLine(longest, () => this.#timer?.abort());
    this.#clock = clock;
  }

  freeAt(): number {
    return this.#freeAt(this.#clock.monotonic());
  }

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

  async take(signal: AbortSignal, since?: number): Promise<Slot | undefined> {
    if (signal.aborted) return undefined;
    const now = this.#clock.monotonic();
    if (this.#line.length === 0 && this.#freeAt(now) <= now) return this.#grant(now);
    const waited = this.#line.join(signal, since ?? now);
    this.#grantWaiting();
    return await waited;
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

  /** Grants all that can be granted now and sets the one timer for the rest. */
  #grantWaiting(): void {
    this.#timer?.abort();
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    while (this.#line.length > 0 && this.#freeAt(now) <= now) this.#line.serve(this.#grant(now));
    const wakeIn = this.#line.patience(this.#freeAt(now), now);
    if (wakeIn === Infinity) return; // a take(), begin(), end() or release() comes back here
    const timer = this.#timer = new AbortController();
    this.#clock.sleep(wakeIn, timer.signal).then(() => {
      if (!timer.signal.aborted) this.#grantWaiting();
    });
  }
}
