/**
 * A world for the ledger's state machine: clients that share one idempotency key, a broker that
 * delivers any copy at any time and again, and to any of two relays, workers that die between any two
 * steps, operators that send again what failed, relays that are killed and started again. What must
 * hold whatever happens is checked at each step.
 *
 * The world is driven by numbers: at each step one of the things that may happen now is picked.
 *
 * @module
 */
import assert from "node:assert/strict";
import { cancel, type LeaseOwner } from "../../../src/ledger/record.ts";
import { Clients } from "./clients.ts";
import { Operators } from "./operators.ts";
import { type Action, LEASE_MS, LedgerState, TROUBLE } from "./state.ts";
import { Workers } from "./workers.ts";

/** The world; see above. */
export class LedgerWorld {
  readonly #mayCancel: boolean;
  readonly #state = new LedgerState();
  readonly #clients = new Clients(this.#state);
  readonly #workers = new Workers(this.#state);
  readonly #operators = new Operators(this.#state);
  #runs = 1;

  constructor(mayCancel: boolean) {
    this.#mayCancel = mayCancel;
  }

  /** Calls that the backend has seen. */
  get calls(): number {
    return this.#workers.calls;
  }

  /** One step; `choice` picks from what may happen. */
  step(choice: number): void {
    const actions = this.#possible();
    let left = choice % actions.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, happen] of actions) {
      left -= weight;
      if (left >= 0) continue;
      happen();
      break;
    }
    this.#state.check();
  }

  /**
   * Everything that is under way dies, and from now on all goes well: every copy must come to an
   * end, and what failed is sent again, so that a task that the broker had is delivered or cancelled.
   */
  drain(): void {
    const state = this.#state;
    this.#clients.die();
    this.#workers.die();
    this.#operators.die();
    for (let rounds = 0; state.copies.length + state.failed.length > 0; rounds++) {
      assert.ok(rounds < 100, "copies go round and round");
      const copy = state.copies[0];
      const relay = state.relays[rounds % state.relays.length];
      if (copy && relay) this.#workers.handle(copy, relay);
      else this.#operators.redriveAll();
      state.now += LEASE_MS / 4;
      state.check();
    }
    if (state.publishedIds.size === 0) return;
    assert.ok(state.delivered || state.cancelled, "the task is lost");
  }

  #possible(): Action[] {
    const state = this.#state;
    const actions: Action[] = [
      [3, () => state.now += LEASE_MS / 10],
      [TROUBLE, () => state.now += LEASE_MS],
      ...state.relays.map((relay): Action => [1, () => this.#restart(relay)]),
      ...this.#clients.possible(),
      ...this.#workers.possible(),
      ...this.#operators.possible(),
    ];
    if (this.#mayCancel) actions.push([1, () => this.#cancel()]);
    return actions;
  }

  #cancel(): void {
    const state = this.#state;
    for (const { id } of state.records) {
      if (state.apply(id, cancel) === "cancelled") state.cancelled = true;
    }
  }

  /** A relay is killed with all that it has in hand, and starts again. */
  #restart(relay: LeaseOwner): void {
    this.#workers.die(relay);
    const anew = { ...relay, run: `${relay.relay}${++this.#runs}` };
    this.#state.relays = this.#state.relays.map((other) => other === relay ? anew : other);
  }
}
