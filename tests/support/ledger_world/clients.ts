/**
 * Clients that share one idempotency key: they reserve, publish and close, or die in between.
 *
 * @module
 */
import assert from "node:assert/strict";
import * as ledger from "../../../src/ledger/record.ts";
import { type Action, KEY, LEASE_MS, type LedgerState, PROGRESS, TROUBLE } from "./state.ts";

/** Clients that come with the key, one after the other or at once. */
const MOST_CLIENTS = 4;

/** A client's request after its key was reserved, and what its publishing has come to. */
interface Client {
  readonly id: string;
  published?: "confirmed" | "unknown" | "failed";
}

/** The clients; see above. */
export class Clients {
  readonly #state: LedgerState;
  #clients: Client[] = [];
  #ids = 0;

  constructor(state: LedgerState) {
    this.#state = state;
  }

  possible(): Action[] {
    const actions = this.#clients.flatMap((client) => this.#nextOf(client));
    if (this.#ids < MOST_CLIENTS) actions.push([TROUBLE, () => this.#reserve()]);
    return actions;
  }

  die(): void {
    this.#clients = [];
  }

  #nextOf(client: Client): Action[] {
    const drop = (): void => void (this.#clients = this.#clients.filter((c) => c !== client));
    const publish = (how: NonNullable<Client["published"]>, arrived: boolean) => (): void =>
      this.#publish(client, how, arrived);
    if (client.published === undefined) {
      return [
        [TROUBLE, drop],
        [PROGRESS, publish("confirmed", true)],
        [TROUBLE, publish("unknown", true)],
        [TROUBLE, publish("unknown", false)],
        [TROUBLE, publish("failed", false)],
      ];
    }
    const close = (): void => {
      this.#close(client);
      drop();
    };
    return [[TROUBLE, drop], [PROGRESS, close]];
  }

  #reserve(): void {
    const state = this.#state;
    const { now } = state;
    const id = `task-${++this.#ids}`;
    const request = { id, key: KEY, fingerprint: "f", enqueuedAt: now, leaseMs: LEASE_MS };
    const owner = state.records.find(({ key }) => key === KEY);
    const answer = state.apply(owner?.id ?? id, (r) => ledger.reserve(r, request, now));
    if (answer.kind === "reserved") {
      assert.ok(now >= state.keyLeasedUntil, "two requests have the key at once");
      state.keyLeasedUntil = now + LEASE_MS;
      this.#clients.push({ id: answer.id });
    }
    if (answer.kind === "replayed") assert.deepEqual([...state.publishedIds], [answer.id]);
    if (answer.kind === "accepting") assert.ok(answer.waitMs > 0 && answer.waitMs <= LEASE_MS);
    assert.notEqual(answer.kind, "mismatched");
  }

  #publish(client: Client, published: NonNullable<Client["published"]>, arrived: boolean): void {
    client.published = published;
    if (!arrived) return;
    const { copies, publishedIds } = this.#state;
    copies.push({ id: client.id, redriven: 0, attempt: 1, held: false });
    publishedIds.add(client.id);
    assert.equal(publishedIds.size, 1, "one key has become two tasks");
  }

  #close({ id, published }: Client): void {
    const state = this.#state;
    state.keyLeasedUntil = 0;
    if (published === "unknown") state.apply(id, (r) => ledger.doubt(r, state.now));
    else if (published === "failed") state.apply(id, (r) => ledger.release(r, state.now));
    else state.apply(id, (r) => ledger.accept(r, { id, enqueuedAt: state.now }));
  }
}
