/**
 * The arithmetic of the rate limit: pure state over a monotonic clock, no timers.
 *
 * A slot is *granted*, and its request *begins* later, when it is written to a connected socket:
 * what the backend sees is the beginning. So a granted slot counts as pending, in whatever window
 * it is, until it has begun, and only the moment of beginning puts it into a window. A connection
 * that takes seconds to open therefore can't move a request into a window that is already full.
 *
 * Either algorithm gives away 0.2 % of the window ({@link SPAN_PER_WINDOW}), so that a request that
 * was a little slower on its way than the one a window later doesn't arrive in the same window.
 *
 * @module
 */

import type { Config } from "../config.ts";

/** How much longer than the configured window a slot stays taken; see the module's comment. */
export const SPAN_PER_WINDOW = 1.002;

/** The state of one rate limit. All times are monotonic milliseconds. */
export interface RateWindow {
  /** When a slot can be granted: `now` or earlier for at once, Infinity while pending ones fill it. */
  freeAt(now: number): number;
  /** Grants a slot; call it only when `freeAt(now) <= now`, or for a slot that is out already. */
  grant(now: number): void;
  /** A granted slot's request begins at `at`. */
  begin(at: number): void;
  /** A granted slot is given back: no request will begin with it. */
  withdraw(): void;
  /** Requests that began in the window that lasts at `now`. */
  used(now: number): number;
}

/**
 * The window that `limit` asks for.
 *
 * @param begun when earlier requests began, of this process or the one before it, ascending.
 */
export function createRateWindow(
  limit: Config["limit"],
  begun: readonly number[],
  now: number,
): RateWindow {
  const span = limit.windowMs * SPAN_PER_WINDOW;
  const recent = begun.filter((at) => at > now - span).slice(-limit.maxRequests);
  return limit.algorithm === "fixed-window"
    ? new FixedWindow(limit.maxRequests, span, recent)
    : new SlidingWindow(limit.maxRequests, span, recent);
}

/**
 * Windows one after another, each opened by the first request that begins in it. Around the border
 * of two of them up to twice the limit can fall into one window's length; that is what "fixed" means.
 */
class FixedWindow implements RateWindow {
  readonly #max: number;
  readonly #span: number;
  /** -Infinity before the first; Infinity when a window was opened and nothing began in it yet. */
  #openedAt: number;
  #begun: number;
  #pending = 0;

  constructor(max: number, span: number, recent: readonly number[]) {
    this.#max = max;
    this.#span = span;
    // Where the old windows lay can't be known any more; counting all that is recent into one that
    // opened with the last of them is right whichever it was.
    this.#openedAt = recent.at(-1) ?? -Infinity;
    this.#begun = recent.length;
  }

  freeAt(now: number): number {
    const ended = this.#openedAt + this.#span <= now;
    const used = this.#pending + (ended ? 0 : this.#begun);
    if (used < this.#max) return now;
    return this.#pending < this.#max ? this.#openedAt + this.#span : Infinity;
  }

  grant(now: number): void {
    this.#roll(now);
    this.#pending++;
  }

  begin(at: number): void {
    this.#roll(at);
    if (this.#openedAt === Infinity) this.#openedAt = at;
    this.#pending--;
    this.#begun++;
  }

  withdraw(): void {
    this.#pending--;
  }

  used(now: number): number {
    return this.#openedAt + this.#span > now ? this.#begun : 0;
  }

  #roll(now: number): void {
    if (this.#openedAt + this.#span > now) return;
    this.#openedAt = Infinity;
    this.#begun = 0;
  }
}

/** At most `max` beginnings in every span, wherever it starts: a ring of the last `max` of them. */
class SlidingWindow implements RateWindow {
  readonly #max: number;
  readonly #span: number;
  readonly #ring: Float64Array;
  /** Where the next beginning is written: the oldest of the ring. */
  #next: number;
  #pending = 0;

  constructor(max: number, span: number, recent: readonly number[]) {
    this.#max = max;
    this.#span = span;
    this.#ring = new Float64Array(max).fill(-Infinity);
    this.#ring.set(recent);
    this.#next = recent.length % max;
  }

  freeAt(now: number): number {
    if (this.#pending >= this.#max) return Infinity;
    // With p slots pending, the (p+1)-th oldest beginning must have left the span.
    const oldest = this.#ring[(this.#next + this.#pending) % this.#max] ?? -Infinity;
    return Math.max(now, oldest + this.#span);
  }

  grant(_now: number): void {
    this.#pending++;
  }

  begin(at: number): void {
    this.#pending--;
    this.#ring[this.#next] = at;
    this.#next = (this.#next + 1) % this.#max;
  }

  withdraw(): void {
    this.#pending--;
  }

  used(now: number): number {
    let used = 0;
    const newest = this.#next + this.#max - 1;
    while (used < this.#max) {
      const at = this.#ring[(newest - used) % this.#max] ?? -Infinity;
      if (at + this.#span <= now) break;
      used++;
    }
    return used;
  }
}
