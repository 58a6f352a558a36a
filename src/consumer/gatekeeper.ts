/**
 * Keeps the state of the gate, tells of its changes, and answers the limiter. What the state is and
 * becomes is decided in `gate.ts`.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { GateStanding } from "../consumer_report.ts";
import { abandonProbe, closedUntil, enter, hear, OPEN, opensAt, standingOf } from "./gate.ts";
import type { GateRules, GateState, Signal } from "./gate.ts";
import type { GateMemory } from "./gate_memory.ts";

const log = getLogger(["relay", "consumer"]);

/** What a gate is made of. */
export interface GatekeeperOptions {
  readonly rules: GateRules;
  /** No Retry-After is longer than this, milliseconds. */
  readonly retryAfterMaxMs: number;
  readonly memory: Pick<GateMemory, "load" | "save">;
  readonly clock: Clock;
}

/** The gate as one relay keeps it. */
export class Gatekeeper {
  readonly #rules: GateRules;
  readonly #memory: GatekeeperOptions["memory"];
  readonly #clock: Clock;
  #state: GateState;

  constructor({ rules, retryAfterMaxMs, memory, clock }: GatekeeperOptions) {
    this.#rules = rules;
    this.#memory = memory;
    this.#clock = clock;
    const leftMs = Math.min((memory.load() ?? -Infinity) - clock.now(), retryAfterMaxMs);
    this.#state = leftMs > 0 ? { ...OPEN, askedUntil: clock.monotonic() + leftMs } : OPEN;
    if (leftMs > 0) log.warning("gate closed: the backend asked for it", { opens_in_ms: leftMs });
  }

  /** Before this moment (monotonic ms) nobody enters; Infinity while a probe is out. */
  opensAt(): number {
    return opensAt(this.#state, this.#rules);
  }

  /** How it stands now; `until` in milliseconds since the epoch. */
  standing(): GateStanding {
    const now = this.#clock.monotonic();
    const standing = standingOf(this.#state, this.#rules, now);
    const { until } = standing;
    return until === null ? standing : { ...standing, until: this.#clock.now() + until - now };
  }

  /** Somebody enters at `now`, not before {@link opensAt}. */
  enter(now: number): Pass {
    const before = this.#state.reach.kind;
    this.#state = enter(this.#state, this.#rules, now);
    const probe = before === "pausing";
    if (probe) log.info("gate: one request to see whether the backend can be reached");
    return {
      mayBegin: () => mayBegin(this.#state, probe, this.#clock.monotonic()),
      abandon: () => {
        if (probe) this.#state = abandonProbe(this.#state, this.#clock.monotonic());
      },
      hear: (signal) => this.#hear(signal, probe),
    };
  }

  #hear(signal: Signal, probe: boolean): void {
    const now = this.#clock.monotonic();
    const random = Math.random();
    const next = hear(this.#state, { signal, probe, now, random }, this.#rules);
    const before = this.#state;
    if (next === before) return;
    this.#state = next;
    if (next.askedUntil > Math.max(now, before.askedUntil)) {
      this.#memory.save(this.#clock.now() + next.askedUntil - now);
    }
    tellOfGate(before, next, now);
  }
}

/** Logs what has changed; all times on one clock, in milliseconds. */
export function tellOfGate(before: GateState, next: GateState, now: number): void {
  const opens_in_ms = Math.round(closedUntil(next) - now);
  if (next.askedUntil > Math.max(now, before.askedUntil)) {
    log.warning("gate closed: the backend asked for it", { opens_in_ms });
  }
  if (next.reach === before.reach) return;
  if (next.reach.kind === "pausing") {
    log.warning("gate closed: the backend can't be reached", { opens_in_ms });
  }
  if (before.reach.kind === "probing" && next.reach.kind === "rising") {
    log.info("gate open: the backend answers again, the rate rises to the limit");
  }
}

/** Whether who has entered may begin at `now`; a probe may while the others may not. */
export function mayBegin(state: GateState, probe: boolean, now: number): boolean {
  return (probe ? state.askedUntil : closedUntil(state)) <= now;
}

/** What one who entered may do. */
export interface Pass {
  /** Whether the request may be written now: the gate may have closed since. */
  mayBegin(): boolean;
  /** No request is made. */
  abandon(): void;
  /** The request is over. */
  hear(signal: Signal): void;
}
