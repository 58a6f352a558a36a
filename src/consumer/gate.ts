/**
 * The gate in front of the limiter: whether anybody may ask the backend at all. Pure: the state is a
 * function of events and time.
 *
 * Two things close it for the whole relay, so that not every waiting task finds out for itself:
 * the backend asks for it (Retry-After), or it can't be reached (BREAKER_FAILURES in a row). A
 * backend that can't be reached is tried by one request after a pause; pauses grow from 1 s to 60 s
 * with full jitter (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), and
 * once the backend answers, the rate rises from nothing to the limit within five windows.
 *
 *     reached ──n failures──► pausing ──pause is over──► probing ──answer──► rising ──► reached
 *                                ▲                          │                  │
 *                                └────────── failure ───────┴── n failures ────┘
 *
 * @module
 */

import type { Config } from "../config.ts";
import type { GateStanding } from "../consumer_report.ts";

/** The configuration that the gate goes by. */
export interface GateRules extends Pick<Config, "limit" | "breakerFailures"> {
  /** After so long, ms, a probe that nobody has heard of is taken for dead; never unless given. */
  readonly probeMs?: number;
}

/** What is known of the backend. All times are milliseconds on one clock, whichever it is. */
export interface GateState {
  /** The backend has asked for nothing before this moment. */
  readonly askedUntil: number;
  readonly reach: Reach;
}

/** Whether the backend can be reached. `trips`: pauses since it last was, for how long to pause. */
export type Reach =
  | { readonly kind: "reached"; readonly failures: number }
  | { readonly kind: "pausing"; readonly until: number; readonly trips: number }
  | {
    readonly kind: "probing";
    readonly trips: number;
    /** When the next may probe; absent: never. */
    readonly until?: number;
  }
  | {
    readonly kind: "rising";
    readonly since: number;
    /** Requests let in since. */
    readonly entered: number;
    readonly failures: number;
    readonly trips: number;
  };

/** What the end of a request tells. */
export interface Signal {
  /** No answer, or one that says that nobody is behind the proxy: 502, 503, 504. */
  readonly unreached: boolean;
  /** How long the backend asks to be left alone. */
  readonly retryAfterMs?: number;
}

/** Nothing is known against the backend. */
export const OPEN: GateState = { askedUntil: -Infinity, reach: { kind: "reached", failures: 0 } };

/** The rate rises for so many windows. */
const RISE_WINDOWS = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** Before this moment nobody enters; Infinity while the answer of a probe is awaited, however long. */
export function opensAt(state: GateState, { limit }: GateRules): number {
  const { reach } = state;
  if (reach.kind === "probing") return Math.max(state.askedUntil, reach.until ?? Infinity);
  const risesAt = reach.kind === "rising" ? reach.since + riseMs(reach.entered, limit) : -Infinity;
  return Math.max(closedUntil(state), risesAt);
}

/** Before this moment nothing may begin, not even what has entered; the probe is excepted. */
export function closedUntil({ askedUntil, reach }: GateState): number {
  switch (reach.kind) {
    case "reached":
    case "rising":
      return askedUntil;
    case "pausing":
      return Math.max(askedUntil, reach.until);
    case "probing":
      return Infinity;
  }
}

/** How the gate stands at `now`, for people; `until` in monotonic milliseconds. */
export function standingOf(state: GateState, rules: GateRules, now: number): GateStanding {
  const { askedUntil } = state;
  const reach = risen(state.reach, rules, now);
  const isAsked = askedUntil > now;
  const pausedUntil = reach.kind === "pausing" ? reach.until : -Infinity;
  if (pausedUntil > now && pausedUntil >= askedUntil) {
    return { state: "closed", reason: "breaker", until: pausedUntil };
  }
  if (isAsked) return { state: "closed", reason: "retry_after", until: askedUntil };
  switch (reach.kind) {
    case "pausing":
    case "probing":
      return { state: "probing", reason: "breaker", until: null };
    case "rising":
    case "reached":
      return { state: reach.kind === "rising" ? "rising" : "open", reason: null, until: null };
  }
}

/** Somebody enters. Call it only when {@link opensAt} is not after `now`. */
export function enter(state: GateState, rules: GateRules, now: number): GateState {
  const reach = risen(state.reach, rules, now);
  switch (reach.kind) {
    case "pausing":
    case "probing": { // whose probe is dead
      const until = rules.probeMs === undefined ? {} : { until: now + rules.probeMs };
      return { ...state, reach: { kind: "probing", trips: reach.trips, ...until } };
    }
    case "rising":
      return { ...state, reach: { ...reach, entered: reach.entered + 1 } };
    case "reached":
      return reach === state.reach ? state : { ...state, reach };
  }
}

/** The one who entered as the probe makes no request after all: the next may probe at once. */
export function abandonProbe(state: GateState, now: number): GateState {
  if (state.reach.kind !== "probing") return state;
  return { ...state, reach: { kind: "pausing", until: now, trips: state.reach.trips } };
}

/**
 * A request is over. The same object comes back when that tells nothing new.
 *
 * @param probe whether it was the probe.
 * @param random from 0 up to 1, for the length of a pause.
 */
export function hear(
  state: GateState,
  { signal, probe, now, random }: {
    readonly signal: Signal;
    readonly probe: boolean;
    readonly now: number;
    readonly random: number;
  },
  rules: GateRules,
): GateState {
  const reach = reachAfter(risen(state.reach, rules, now), { signal, probe, now, random }, rules);
  const askedUntil = Math.max(state.askedUntil, now + (signal.retryAfterMs ?? -Infinity));
  return reach === state.reach && askedUntil === state.askedUntil ? state : { askedUntil, reach };
}

function reachAfter(
  reach: Reach,
  { signal: { unreached }, probe, now, random }: Parameters<typeof hear>[1],
  { breakerFailures }: GateRules,
): Reach {
  if (breakerFailures === 0) return reach;
  switch (reach.kind) {
    case "pausing": // what was in flight before tells nothing new
      return reach;
    case "probing":
      if (!probe) return reach;
      if (unreached) return pause(reach.trips, now, random);
      return { kind: "rising", since: now, entered: 0, failures: 0, trips: reach.trips };
    case "reached":
    case "rising": {
      const failures = unreached ? reach.failures + 1 : 0;
      if (failures === reach.failures) return reach;
      if (failures < breakerFailures) return { ...reach, failures };
      return pause(reach.kind === "rising" ? reach.trips : 0, now, random);
    }
  }
}

function pause(trips: number, now: number, random: number): Reach {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** trips);
  return { kind: "pausing", until: now + random * longest, trips: trips + 1 };
}

/** A rise that is over has reached the backend. */
function risen(reach: Reach, { limit }: GateRules, now: number): Reach {
  if (reach.kind !== "rising" || now < reach.since + RISE_WINDOWS * limit.windowMs) return reach;
  return { kind: "reached", failures: reach.failures };
}

/**
 * When the next may enter after `entered` did: a rate that grows evenly from 0 to `max / window` over
 * five windows has let in `max · t² / (10 · window²)` by the time t.
 */
function riseMs(entered: number, { maxRequests, windowMs }: GateRules["limit"]): number {
  return windowMs * Math.min(RISE_WINDOWS, Math.sqrt(2 * RISE_WINDOWS * entered / maxRequests));
}
