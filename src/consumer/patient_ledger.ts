/**
 * The ledger as the consumer uses it: when it can't be reached the consumer waits, because a call
 * made blind might be a second one.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { AbandonRequest, Claim, ClaimRequest, ConcludeRequest } from "../ledger/attempt.ts";
import type { LeaseOwner } from "../ledger/record.ts";
import { LedgerUnavailableError } from "../ledger/store.ts";

const log = getLogger(["relay", "ledger"]);

/** Pauses between tries: doubling, milliseconds. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/**
 * How long the ledger may take to end a lease, milliseconds: a shutdown whose grace is over waits for
 * it, and the lease ends without it as well.
 */
const ABANDON_PATIENCE_MS = 500;

/** The part of the ledger that concerns attempts. */
export interface AttemptLedger {
  claim(request: ClaimRequest): Promise<Claim>;
  abandon(request: AbandonRequest): Promise<void>;
  conclude(request: ConcludeRequest): Promise<void>;
}

/** What a claim of this consumer is. */
export interface Lease {
  /** How long it holds: longer than any request to the backend takes. */
  readonly leaseMs: number;
  readonly owner: LeaseOwner;
}

/** Asks until the ledger answers. */
export class PatientLedger {
  readonly #ledger: AttemptLedger;
  readonly #lease: Lease;
  readonly #clock: Clock;
  #reachable = true;

  constructor(ledger: AttemptLedger, lease: Lease, clock: Clock) {
    this.#ledger = ledger;
    this.#lease = lease;
    this.#clock = clock;
  }

  /**
   * Claims an attempt; undefined when the ledger did not answer before `signal` aborted or the moment
   * `until` (monotonic ms). It is asked once in any case.
   */
  claim(
    request: Omit<ClaimRequest, keyof Lease>,
    signal: AbortSignal,
    until: number,
  ): Promise<Claim | undefined> {
    const claim = (): Promise<Claim> => this.#ledger.claim({ ...request, ...this.#lease });
    return this.#untilReached(claim, signal, until);
  }

  /** Gives up a claim, if the ledger answers soon. */
  async abandon(request: Omit<AbandonRequest, "owner">): Promise<void> {
    const { owner } = this.#lease;
    const over = new AbortController();
    const impatience = this.#clock.sleep(ABANDON_PATIENCE_MS, over.signal).then(() => over.abort());
    const told = this.#untilReached(() => this.#ledger.abandon({ ...request, owner }), over.signal);
    await Promise.race([told, impatience]);
    over.abort();
  }

  /** Records how an attempt ended; gives up only when `signal` aborts. */
  async conclude(request: ConcludeRequest, signal: AbortSignal): Promise<void> {
    await this.#untilReached(() => this.#ledger.conclude(request), signal);
  }

  async #untilReached<T>(
    ask: () => Promise<T>,
    signal: AbortSignal,
    until = Infinity,
  ): Promise<T | undefined> {
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        const answer = await ask();
        this.#note(true);
        return answer;
      } catch (error) {
        if (!(error instanceof LedgerUnavailableError)) throw error;
        this.#note(false, error.message);
        if (this.#clock.monotonic() >= until) return undefined;
      }
      await this.#clock.sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries), signal);
    }
    return undefined;
  }

  /** One line when it goes and one when it comes back, however many deliveries wait. */
  #note(reachable: boolean, error?: string): void {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    if (reachable) log.info("deliveries go on: the ledger answers again");
    else log.error("deliveries wait for the ledger", { error });
  }
}
