/**
 * A limiter with everything around it: requests that begin some time after their slot was granted,
 * a send log that outlives the process, reconnects, restarts. It notes what a backend would see, and
 * counts the windows of the fixed algorithm by the book.
 *
 * @module
 */

import type { Config } from "../../src/config.ts";
import { Limiter } from "../../src/consumer/limiter.ts";
import type { LimiterOptions } from "../../src/consumer/limiter.ts";
import type { GateRules } from "../../src/consumer/gate.ts";
import { Gatekeeper } from "../../src/consumer/gatekeeper.ts";
import { createRateWindow, SPAN_PER_WINDOW } from "../../src/consumer/rate_window.ts";
import type { RateWindow } from "../../src/consumer/rate_window.ts";
import type { Slot } from "../../src/consumer/waiting_line.ts";
import { busiestWindow } from "./arrivals.ts";
import { FakeClock, settled } from "./fake_clock.ts";

/** The pulse of a process that never stands still. */
export const STEADY: LimiterOptions["pulse"] = { steady: () => true };

/** A gate without a past. */
export function aGate(rules: GateRules, clock: FakeClock): Gatekeeper {
  const memory = { load: () => undefined, save: () => {} };
  return new Gatekeeper({ rules, retryAfterMaxMs: 3_600_000, memory, clock });
}

/** A limiter whose gate closes only when the backend asks for it. */
export function aLimiter(
  window: RateWindow,
  clock: FakeClock,
  sends: LimiterOptions["sends"] = { record: () => {} },
  longest: LimiterOptions["longest"] = { foreseeable: Infinity, altogether: Infinity },
): Limiter {
  const limit = { maxRequests: 1, windowMs: 1, algorithm: "fixed-window" as const };
  const gate = aGate({ limit, breakerFailures: 0 }, clock);
  return new Limiter({ window, gate, sends, pulse: STEADY, longest, clock });
}

/** Somebody who asked for a slot. */
export interface Taker {
  readonly number: number;
  state: "waiting" | "granted" | "refused" | "dead";
  /** Monotonic ms. */
  grantedAt?: number;
  begunAt?: number;
  slot?: Slot;
  /** Take-overs before the grant. */
  takeOvers?: number;
  readonly abort: () => void;
}

interface Window {
  readonly openedAt: number;
  /** How many take-overs were before it: slots that were granted earlier don't count in it. */
  readonly takeOvers: number;
  begun: number;
}

/** One limit, one clock, one log; and one process after another. */
export class LimiterWorld {
  readonly clock = new FakeClock();
  readonly limit: Config["limit"];
  readonly takers: Taker[] = [];
  /** When requests began, monotonic ms, ascending. */
  readonly begun: number[] = [];
  /** Numbers of the takers in the order in which they were granted. */
  readonly granted: number[] = [];
  /** What went against the limit, in words; a test asserts that it stays empty. */
  readonly faults: string[] = [];
  readonly #log: number[] = [];
  readonly #longestWaitMs: number;
  #windows: Window[] = [];
  #takeOvers = 0;
  #limiter: Limiter;

  constructor(limit: Config["limit"], longestWaitMs = Number.MAX_SAFE_INTEGER) {
    this.limit = limit;
    this.#longestWaitMs = longestWaitMs;
    this.#limiter = this.#newLimiter();
  }

  get limiter(): Limiter {
    return this.#limiter;
  }

  get span(): number {
    return this.limit.windowMs * SPAN_PER_WINDOW;
  }

  /** Asks for a slot. Its request begins `latency` ms after the grant; undefined: when told to. */
  async take(latency?: number): Promise<Taker> {
    const abort = new AbortController();
    const number = this.takers.length;
    const taker: Taker = { number, state: "waiting", abort: () => abort.abort() };
    this.takers.push(taker);
    this.#limiter.take(abort.signal).then((slot) => this.#settle(taker, slot, latency));
    await settled();
    return taker;
  }

  /** The request of `taker` begins now; its process must live. */
  begin(taker: Taker): void {
    if (taker.state !== "granted" || taker.begunAt !== undefined) return;
    const now = this.clock.monotonic();
    taker.begunAt = now;
    this.begun.push(now);
    this.#note(taker, now);
    taker.slot?.begin();
  }

  /** All requests that have a slot and wait to be told begin now. */
  beginAll(): void {
    for (const taker of this.takers) this.begin(taker);
  }

  /** A new subscription in the same process: the log is read, slots that are out stay out. */
  takeOver(notBefore = -Infinity): void {
    this.#takeOvers++;
    const last = this.begun.at(-1);
    if (last !== undefined) this.#open(last);
    const now = this.clock.monotonic();
    this.#limiter.takeOver(createRateWindow(this.limit, this.#logged(), now), notBefore);
  }

  /** The process is killed and started again: what had not begun never will. */
  async restart(): Promise<void> {
    for (const taker of this.takers) {
      const began = taker.begunAt !== undefined;
      if (taker.state === "waiting" || (taker.state === "granted" && !began)) taker.state = "dead";
    }
    this.#limiter = this.#newLimiter();
    this.takeOver();
    await settled();
  }

  /** The most beginnings in any trailing window. */
  busiest(): number {
    return busiestWindow(this.begun, this.limit.windowMs);
  }

  #newLimiter(): Limiter {
    const { clock } = this;
    const window = createRateWindow(this.limit, [], clock.monotonic());
    const sends = { record: (at: number): number => this.#log.push(at) };
    return aLimiter(window, clock, sends, {
      foreseeable: this.#longestWaitMs,
      altogether: Infinity,
    });
  }

  #logged(): number[] {
    const offset = this.clock.monotonic() - this.clock.now();
    return this.#log.map((at) => at + offset);
  }

  #settle(taker: Taker, slot: Slot | undefined, latency: number | undefined): void {
    if (taker.state === "dead") return;
    taker.state = slot === undefined ? "refused" : "granted";
    if (slot === undefined) return;
    taker.slot = slot;
    taker.grantedAt = this.clock.monotonic();
    taker.takeOvers = this.#takeOvers;
    this.granted.push(taker.number);
    if (latency === 0) this.begin(taker);
    else if (latency !== undefined) this.clock.sleep(latency).then(() => this.begin(taker));
  }

  /** Fixed windows are opened by the first beginning, or by the last before a take-over. */
  #note(taker: Taker, now: number): void {
    if (this.limit.algorithm !== "fixed-window") return;
    this.#windows = this.#windows.filter(({ openedAt }) => openedAt + this.span > now);
    if (this.#windows.length === 0) this.#open(now);
    for (const window of this.#windows) {
      if ((taker.takeOvers ?? 0) < window.takeOvers) continue;
      window.begun++;
      if (window.begun > this.limit.maxRequests) this.faults.push(`${window.begun} in one window`);
    }
  }

  #open(openedAt: number): void {
    this.#windows.push({ openedAt, takeOvers: this.#takeOvers, begun: 0 });
  }
}
