/**
 * The gate as one replica knows it of Redis, where it is kept. What the state is and becomes is decided
 * in `gate.ts`, over Redis' time; Redis takes a change only from who knew the state before it.
 *
 * What this replica has heard counts here at once, and is told with the next exchange; if another was
 * faster, it is applied to the state that the other has left. Nothing that was heard gets lost while
 * Redis is away.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { GateStanding } from "../consumer_report.ts";
import { abandonProbe, enter, hear, OPEN, opensAt, standingOf } from "./gate.ts";
import type { GateRules, GateState, Signal } from "./gate.ts";
import { mayBegin, type Pass, tellOfGate } from "./gatekeeper.ts";
import type { Answer, Question } from "./shared_window.ts";

const log = getLogger(["relay", "consumer"]);

/** While the gate lets in only so many at a time, no more of them enter with one exchange. */
const MOST_STATES = 100;

/** A change that is not in Redis yet, so that it can be made on another state as well. */
type Change = (state: GateState) => GateState;

/** What an exchange would say of the gate, and what follows if Redis takes it. */
export interface Proposal {
  readonly question: Question["gate"];
  /** How many may enter. */
  readonly wanted: number;
  /** Whether the one who enters is the probe. */
  readonly probe: boolean;
  /** The state when so many have entered. */
  after(entered: number): GateState;
  /** The changes that are told with it. */
  readonly told: readonly Change[];
}

/** The gate of all replicas, seen from one. */
export class SharedGate {
  readonly #rules: GateRules;
  readonly #clock: Clock;
  /** What Redis has, as far as is known. */
  #stored = OPEN;
  #version = "";
  #untold: readonly Change[] = [];
  /** Redis' time minus the monotonic clock; never too much, so nothing is due too early. */
  #offset = NaN;
  /** By how much Redis' time may be later than that. */
  #doubt = 0;

  constructor(rules: GateRules, clock: Clock) {
    this.#rules = rules;
    this.#clock = clock;
  }

  /** Whether there is something that Redis does not know. */
  get hasUntold(): boolean {
    return this.#untold.length > 0;
  }

  /** Before this moment (monotonic ms) nobody enters; Infinity while a probe is out, or not known. */
  opensAt(): number {
    if (Number.isNaN(this.#offset)) return Infinity;
    const state = this.#state();
    const at = opensAt(state, this.#rules);
    return state.reach.kind === "probing" && at > this.#now() ? Infinity : at - this.#offset;
  }

  /** How it stands now; `until` in milliseconds since the epoch. */
  standing(): GateStanding {
    const standing = standingOf(this.#state(), this.#rules, this.#now());
    const { until } = standing;
    return until === null
      ? standing
      : { ...standing, until: this.#clock.now() + until - this.#now() };
  }

  /** What to tell Redis when up to `most` would enter. */
  propose(most: number): Proposal {
    const told = this.#untold;
    const heard = this.#state();
    const now = this.#now();
    const entered: GateState[] = [];
    let state = heard;
    let wanted = 0;
    const isSet = !Number.isNaN(this.#offset);
    while (isSet && wanted < most && entered.length < MOST_STATES) {
      if (opensAt(state, this.#rules) > now) break;
      const next = enter(state, this.#rules, now);
      if (next === state && entered.length === 0) wanted = most;
      else wanted = entered.push(next);
      state = next;
    }
    const question = {
      version: this.#version,
      heard: heard === this.#stored ? "" : encode(heard),
      entered: entered.map(encode),
    };
    const probe = wanted > 0 && entered[0]?.reach.kind === "probing";
    return { question, wanted, probe, told, after: (count) => entered[count - 1] ?? heard };
  }

  /** Takes in what Redis answered to `proposal`: asked and answered at these moments (monotonic ms). */
  learn(
    { granted, version, newer, now }: Answer,
    proposal: Proposal,
    { asked, answered }: { readonly asked: number; readonly answered: number },
  ): void {
    this.#offset = now - answered;
    this.#doubt = answered - asked;
    this.#version = version;
    const before = this.#state();
    if (newer === undefined) {
      this.#stored = proposal.after(granted);
      this.#untold = this.#untold.slice(proposal.told.length);
      if (granted > 0 && proposal.probe) {
        log.info("gate: one request to see whether the backend can be reached");
      }
      return;
    }
    this.#stored = decode(newer);
    tellOfGate(before, this.#state(), now);
  }

  /** What one who entered may do; `changed` is called when there is something to tell. */
  pass(probe: boolean, changed: () => void): Pass {
    const change = (make: (now: number) => Change): void => {
      // Rather too late: what the backend asks for counts from when it answered.
      const now = this.#now() + this.#doubt;
      const before = this.#state();
      const made = make(now);
      const next = made(before);
      if (next === before) return;
      this.#untold = [...this.#untold, made];
      tellOfGate(before, next, now);
      changed();
    };
    return {
      mayBegin: () => mayBegin(this.#state(), probe, this.#now()),
      abandon: () => {
        if (probe) change((now) => (state) => abandonProbe(state, now));
      },
      hear: (signal: Signal) => {
        const random = Math.random();
        change((now) => (state) => hear(state, { signal, probe, now, random }, this.#rules));
      },
    };
  }

  #state(): GateState {
    return this.#untold.reduce((state, change) => change(state), this.#stored);
  }

  /** Redis' time, or a little before. */
  #now(): number {
    return this.#clock.monotonic() + this.#offset;
  }
}

/** JSON has no infinity: what was never asked for is left out. */
function encode({ askedUntil, reach }: GateState): string {
  return JSON.stringify({ ...(askedUntil !== -Infinity && { askedUntil }), reach });
}

function decode(text: string): GateState {
  return text === "" ? OPEN : { ...OPEN, ...JSON.parse(text) };
}
