/**
 * Deliveries in the hands of relays: claimed, answered by the backend, sent on, concluded,
 * acknowledged; and what may go wrong between any two of these steps.
 *
 * @module
 */
import assert from "node:assert/strict";
import * as attempts from "../../../src/ledger/attempt.ts";
import type { Conclusion } from "../../../src/ledger/attempt.ts";
import type { LeaseOwner } from "../../../src/ledger/record.ts";
import {
  type Action,
  ATTEMPTS,
  compare,
  type Copy,
  LEASE_MS,
  type LedgerState,
  PROGRESS,
  RUNG_MS,
  TROUBLE,
} from "./state.ts";

/** A delivery in a worker's hands; without `copy` its connection was lost meanwhile. */
interface Worker {
  /** The relay that it is of, as it was when the delivery came. */
  readonly owner: LeaseOwner;
  readonly id: string;
  readonly redriven: number;
  readonly attempt: number;
  copy?: Copy;
  /** Of its claim, once it is granted. */
  leasedUntil?: number;
  conclusion?: Conclusion;
  step: "received" | "granted" | "answered" | "hopped" | "over";
}

/** The workers; see above. */
export class Workers {
  /** Calls that the backend has seen. */
  calls = 0;
  readonly #state: LedgerState;
  #workers: Worker[] = [];

  constructor(state: LedgerState) {
    this.#state = state;
  }

  possible(): Action[] {
    const { relays, copies } = this.#state;
    const free = copies.filter(({ held }) => !held);
    return [
      ...relays.flatMap((relay) =>
        free.map((copy): Action => [PROGRESS / 2, () => this.#deliver(copy, relay)])
      ),
      ...this.#workers.flatMap((worker) => this.#stepsOf(worker)),
    ];
  }

  /** Those of one relay, or all of them, die with all that they have in hand. */
  die(relay?: LeaseOwner): void {
    const dying = this.#workers.filter(({ owner }) => relay === undefined || owner === relay);
    dying.forEach((worker) => this.#giveBack(worker));
    this.#workers = this.#workers.filter((worker) => !dying.includes(worker));
  }

  /** Delivers one copy to `relay`, and all goes well. */
  handle(copy: Copy, relay: LeaseOwner): void {
    const worker = this.#deliver(copy, relay);
    this.#claim(worker);
    if (worker.step === "granted") this.#answer(worker, true);
    if (worker.step === "hopped") this.#conclude(worker);
    this.#acknowledge(worker);
    this.#workers = [];
  }

  #stepsOf(worker: Worker): Action[] {
    const drop = (): void => void (this.#workers = this.#workers.filter((w) => w !== worker));
    const die = (): void => {
      this.#giveBack(worker);
      drop();
    };
    const abandon = (): void => {
      this.#abandon(worker);
      die();
    };
    const trouble: Action[] = [[TROUBLE, die]];
    if (worker.copy) trouble.push([TROUBLE, () => this.#giveBack(worker)]); // connection lost
    switch (worker.step) {
      case "received":
        return [...trouble, [PROGRESS, () => this.#claim(worker)]];
      case "granted":
        return [
          ...trouble,
          [TROUBLE, abandon], // cut, as at the end of a shutdown's grace
          [PROGRESS / 3, () => this.#answer(worker, true)],
          [PROGRESS, () => this.#answer(worker, false)],
        ];
      case "answered": // hops twice, when the first confirm did not come in time
        return [
          ...trouble,
          [TROUBLE, abandon],
          [PROGRESS, () => this.#hop(worker, 1)],
          [TROUBLE, () => this.#hop(worker, 2)],
          [TROUBLE, () => this.#fail(worker)], // for good, by its status
        ];
      case "hopped":
        // Its confirm may not come before the connection is lost.
        if (worker.conclusion?.kind !== "delivered") trouble.push([TROUBLE, abandon]);
        return [...trouble, [PROGRESS, () => this.#conclude(worker)]];
      case "over":
        return [...trouble, [PROGRESS, () => {
          this.#acknowledge(worker);
          drop();
        }]];
    }
  }

  #deliver(copy: Copy, owner: LeaseOwner): Worker {
    copy.held = true;
    const { id, redriven, attempt } = copy;
    const worker: Worker = { owner, id, redriven, attempt, copy, step: "received" };
    this.#workers.push(worker);
    return worker;
  }

  #claim(worker: Worker): void {
    const state = this.#state;
    const { id, attempt, owner } = worker;
    const about = { id, attempt, enqueuedAt: state.now, redriven: redrivenOf(worker) };
    const request = { ...about, leaseMs: LEASE_MS, owner };
    const holder = state.now < state.taskLeasedUntil ? state.taskOwner : undefined;
    const isRunning = holder !== undefined && state.relays.includes(holder);
    const claim = state.apply(id, (record) => attempts.claim(record, request, state.now));
    worker.step = claim.kind === "granted" ? "granted" : "over";
    switch (claim.kind) {
      case "granted":
        assert.ok(!state.delivered, "granted after its delivery was concluded");
        assert.ok(!state.droppedAsCancelled, "granted after it was dropped as cancelled");
        assert.ok(compare(worker, state.made) > 0, "granted an attempt that was made");
        assert.ok(!isRunning, "two workers make an attempt at once");
        assert.ok(holder === undefined || holder.relay === owner.relay, "took it from another");
        worker.leasedUntil = state.taskLeasedUntil = state.now + LEASE_MS;
        state.taskOwner = owner;
        break;
      case "duplicate":
        return assert.ok(state.delivered, "duplicate of a delivery that was not concluded");
      case "cancelled":
        assert.ok(state.cancelled, "cancelled without a wish");
        state.droppedAsCancelled = true;
        break;
      case "stale":
        return assert.ok(
          state.delivered || state.cancelled || state.hasLater(worker),
          "stale, and no later copy is there",
        );
      case "leased":
        assert.ok(claim.waitMs > 0 && claim.waitMs <= LEASE_MS);
        assert.ok(holder !== undefined, "waits for nobody");
        assert.ok(isRunning || holder.relay !== owner.relay, "waits for itself, killed before");
        this.#giveBack(worker);
    }
  }

  /** Gives its lease up; by then another may have one, when it was late. */
  #abandon({ id, owner, leasedUntil: until = NaN }: Worker): void {
    const state = this.#state;
    state.apply(id, (record) => attempts.abandon(record, { id, owner, until }));
    const had = state.taskOwner === owner && state.taskLeasedUntil === until;
    if (had) state.taskLeasedUntil = 0;
  }

  #answer(worker: Worker, ok: boolean): void {
    this.calls++;
    worker.step = ok ? "hopped" : "answered";
    if (ok) worker.conclusion = { kind: "delivered", lastStatus: 200 };
  }

  /** Publishes the next hop; its confirm reaches the worker also when its connection was lost. */
  #hop(worker: Worker, times: number): void {
    const { id, redriven, attempt } = worker;
    const { copies, now } = this.#state;
    const last = { lastStatus: 500 };
    if (attempt >= ATTEMPTS) return this.#fail(worker);
    worker.step = "hopped";
    for (let n = 0; n < times; n++) {
      copies.push({ id, redriven, attempt: attempt + 1, held: false });
    }
    worker.conclusion = { kind: "retried", nextAttemptAt: now + RUNG_MS, last };
  }

  #fail(worker: Worker): void {
    const { id, redriven, attempt } = worker;
    worker.step = "hopped";
    this.#state.failed.push({ id, redriven, attempt: attempt + 1, held: false });
    worker.conclusion = { kind: "failed", last: { lastStatus: 422 } };
  }

  #conclude(worker: Worker): void {
    const state = this.#state;
    const { id, attempt, conclusion } = worker;
    worker.step = "over";
    if (!conclusion) return;
    const about = { id, attempt, enqueuedAt: state.now, redriven: redrivenOf(worker) };
    state.apply(id, (record) => attempts.conclude(record, { ...about, conclusion }, state.now));
    if (state.record(id)?.state !== "delivering") state.taskLeasedUntil = 0;
    if (conclusion.kind === "delivered") state.delivered = true;
    else if (compare(worker, state.made) > 0) state.made = worker;
  }

  #acknowledge({ copy }: Worker): void {
    const state = this.#state;
    if (copy) state.copies = state.copies.filter((other) => other !== copy);
  }

  #giveBack(worker: Worker): void {
    if (worker.copy) worker.copy.held = false;
    delete worker.copy;
  }
}

/** As a message carries it: absent when it never was. */
function redrivenOf({ redriven }: Worker): number | undefined {
  return redriven === 0 ? undefined : redriven;
}
