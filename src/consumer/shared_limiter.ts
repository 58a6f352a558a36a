/**
 * The limiter that replicas share: whoever wants to ask the backend waits here, first come, first
 * served within one replica, for the gate and the rate, which are kept in Redis.
 *
 *     waiting ──one exchange for all──► granted ──begin()──► under way ──end()
 *                                          │
 *                                          └── released, or not begun in time: given back
 *
 * One exchange is under way at a time, and what comes meanwhile goes with the next: begun and returned
 * slots, what the gate has heard, and a slot for each who waits. begin() does not wait for Redis: it
 * lets the request go, if the slot is not too old, and tells Redis right after.
 *
 * While Redis can't be reached those who wait go on waiting, and nothing begins.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { RedisUnavailableError } from "../redis/connection.ts";
import type { Pulse } from "./pulse.ts";
import type { Proposal, SharedGate } from "./shared_gate.ts";
import { type Answer, type SharedWindow, VALIDITY_MS } from "./shared_window.ts";
import { type Slot, type SlotSource, WaitingLine, type Waits } from "./waiting_line.ts";

const log = getLogger(["relay", "consumer"]);

/** So often Redis is asked without any other reason: another may have given back, or closed the gate. */
const LOOK_MS = 1_000;

/** So soon it is asked again when that hangs on what others do, or when it could not be reached. */
const HANGING_MS = 20;
const AWAY_MS = 200;

/** What a shared limiter is made of. */
export interface SharedLimiterOptions {
  readonly window: Pick<SharedWindow, "exchange">;
  readonly gate: SharedGate;
  readonly pulse: Pick<Pulse, "steady">;
  readonly longest: Waits;
  readonly clock: Clock;
}

/** Both clocks: a machine that slept may show it on one of them only. Milliseconds. */
interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

/** Grants slots of a limit that others grant from as well. */
export class SharedLimiter implements SlotSource {
  readonly #options: SharedLimiterOptions;
  readonly #line: WaitingLine;
  readonly #name = `${crypto.randomUUID()}:`;
  readonly #closing = new AbortController();
  #numbers = 0;
  #begun: readonly string[] = [];
  #withdrawn: readonly string[] = [];
  #underWay = 0;
  /** When the next slot is free, as Redis said (monotonic ms); Infinity: nobody knows. */
  #freeAt = Infinity;
  /** When Redis is to be asked at the latest (monotonic ms). */
  #lookAt = -Infinity;
  #used = { count: 0, until: -Infinity };
  #isAway = false;
  #exchanging: Promise<void> | undefined;
  #timer: AbortController | undefined;
  readonly #windowMs: number;

  constructor(options: SharedLimiterOptions, { windowMs }: Config["limit"]) {
    this.#options = options;
    this.#windowMs = windowMs;
    this.#line = new WaitingLine(options.longest, () => {});
    this.#turn();
  }

  async take(signal: AbortSignal, since?: number): Promise<Slot | undefined> {
    if (signal.aborted) return undefined;
    const waited = this.#line.join(signal, since ?? this.#options.clock.monotonic());
    this.#turn();
    return await waited;
  }

  freeAt(): number {
    return this.#freeFrom(this.#options.clock.monotonic());
  }

  /** As Redis said last, which is a second ago at most. */
  standing(): { readonly used: number; readonly inFlight: number } {
    const { count, until } = this.#used;
    const used = this.#options.clock.monotonic() < until ? count : 0;
    return { used, inFlight: this.#underWay };
  }

  /** Tells Redis what there is to tell, and asks nothing more. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#timer?.abort();
    await this.#exchanging;
    if (this.#hasNews && !this.#isAway) await this.#exchange();
  }

  /** Over one reading of the clock: a later one is never "now". */
  #freeFrom(now: number): number {
    return Math.max(now, this.#freeAt, this.#options.gate.opensAt());
  }

  get #hasNews(): boolean {
    return this.#begun.length + this.#withdrawn.length > 0 || this.#options.gate.hasUntold;
  }

  /** Exchanges, or sets the timer: called whenever something has changed. */
  #turn(): void {
    if (this.#exchanging !== undefined || this.#closing.signal.aborted) return;
    const { clock } = this.#options;
    const now = clock.monotonic();
    const freeAt = this.#freeFrom(now);
    const wanting = this.#line.length > 0 && freeAt <= now;
    const held = this.#isAway && now < this.#lookAt;
    if (!held && (wanting || this.#hasNews || this.#lookAt <= now)) {
      // Not at once: what else happens in this turn goes with it.
      this.#exchanging = Promise.resolve().then(() => this.#exchange()).then(() => {
        this.#exchanging = undefined;
        this.#turn();
      });
      return;
    }
    this.#timer?.abort();
    const timer = this.#timer = new AbortController();
    const wakeIn = Math.min(this.#line.patience(freeAt, now), Math.ceil(this.#lookAt - now));
    clock.sleep(wakeIn, timer.signal).then(() => {
      if (!timer.signal.aborted) this.#turn();
    });
  }

  async #exchange(): Promise<void> {
    const { clock, gate, window } = this.#options;
    const proposal = gate.propose(this.#closing.signal.aborted ? 0 : this.#line.length);
    const { wanted } = proposal;
    const [begun, withdrawn, first] = [this.#begun, this.#withdrawn, this.#numbers];
    this.#numbers += wanted;
    const names = Array.from({ length: wanted }, (_, n) => `${this.#name}${first + n}`);
    const asked = { monotonic: clock.monotonic(), wall: clock.now() };
    try {
      const answer = await window.exchange({
        ...{ begun, withdrawn, name: this.#name, first, wanted },
        gate: proposal.question,
      });
      this.#begun = this.#begun.slice(begun.length);
      this.#withdrawn = this.#withdrawn.slice(withdrawn.length);
      this.#learn(answer, proposal, asked);
      this.#serve(names.slice(0, answer.granted), proposal.probe, asked);
    } catch (error) {
      if (!(error instanceof RedisUnavailableError)) throw error;
      // They may have been granted all the same.
      this.#withdrawn = [...this.#withdrawn, ...names];
      this.#miss(error);
    }
  }

  #learn(answer: Answer, proposal: Proposal, asked: Moment): void {
    const { clock, gate } = this.#options;
    const at = clock.monotonic();
    gate.learn(answer, proposal, { asked: asked.monotonic, answered: at });
    const hangs = answer.freeInMs === Infinity;
    this.#freeAt = at + (hangs ? HANGING_MS : answer.freeInMs);
    const hangsOnProbe = gate.opensAt() === Infinity && this.#line.length > 0;
    this.#lookAt = at + (hangsOnProbe ? AWAY_MS : LOOK_MS);
    this.#used = { count: answer.used, until: at + this.#windowMs };
    if (this.#isAway) log.info("the limit in Redis can be used again");
    this.#isAway = false;
  }

  #miss(error: RedisUnavailableError): void {
    if (!this.#isAway) {
      log.error("nothing is sent: the limit is not known", { error: error.message });
    }
    this.#isAway = true;
    this.#freeAt = Infinity;
    this.#lookAt = this.#options.clock.monotonic() + AWAY_MS;
  }

  #serve(names: readonly string[], probe: boolean, asked: Moment): void {
    for (const name of names) {
      const slot = this.#slot(name, probe, asked);
      if (this.#line.length > 0) this.#line.serve(slot);
      else slot.release(); // who asked for it has gone meanwhile
    }
  }

  #slot(name: string, probe: boolean, asked: Moment): Slot {
    const { gate, pulse } = this.#options;
    const pass = gate.pass(probe, () => this.#turn());
    let used = false;
    const release = (): void => {
      if (used) return;
      used = true;
      this.#withdrawn = [...this.#withdrawn, name];
      pass.abandon();
      this.#turn();
    };
    const begin = (): void => {
      if (used) return;
      used = true;
      this.#underWay++;
      this.#begun = [...this.#begun, name];
      this.#turn();
    };
    return {
      release,
      begin: () => {
        const open = !this.#isOld(asked) && pass.mayBegin() && pulse.steady();
        if (open) begin();
        else release();
        return open;
      },
      end: (signal) => {
        begin();
        this.#underWay--;
        pass.hear(signal);
      },
    };
  }

  /** Whether Redis may take a slot that was asked for then as begun already. */
  #isOld({ monotonic, wall }: Moment): boolean {
    const { clock } = this.#options;
    return clock.monotonic() - monotonic >= VALIDITY_MS || clock.now() - wall >= VALIDITY_MS;
  }
}
