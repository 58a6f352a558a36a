/**
 * The ledger: what became of each task, for clients that ask, for keys that come twice, and for
 * deliveries that come twice.
 *
 * What must not be forgotten when the power fails is written durably: a key that was reserved, a
 * task that was delivered or failed for good. A claim only has to outlive the process.
 *
 * @module
 */

import { abandon, claim, conclude } from "./attempt.ts";
import type { AbandonRequest, Claim, ClaimRequest, ConcludeRequest } from "./attempt.ts";
import { confirmRedrive, redrive } from "./redrive.ts";
import type { Redrive, RedriveRequest } from "./redrive.ts";
import { accept, cancel, doubt, release, reserve } from "./record.ts";
import type { Acceptance, Cancellation, KeyedAcceptance, Reservation } from "./record.ts";
import type { TaskRecord, Transition } from "./record.ts";
import { statusOf, type TaskStatus } from "./status.ts";
import type { LedgerStore } from "./store.ts";

/** A record that no task has. Finished, so that one that is left behind goes as others do. */
const NOBODYS: TaskRecord = {
  id: "",
  state: "cancelled",
  attempt: 1,
  attempts: 0,
  enqueuedAt: 0,
  finishedAt: 0,
};

/** Records over a store. Every method rejects with {@link LedgerUnavailableError} when it fails. */
export class Ledger {
  readonly #store: LedgerStore;

  constructor(store: LedgerStore) {
    this.#store = store;
  }

  /** Reserves an idempotency key before its task is published. */
  reserve(request: KeyedAcceptance): Promise<Reservation> {
    const { key } = request;
    return this.#store.update({ by: "key", key }, (r, now) => reserve(r, request, now), true);
  }

  /** Records that the broker has the task. */
  accept(request: Acceptance): Promise<void> {
    return this.#store.update(byId(request.id), (record) => accept(record, request), false);
  }

  /** Frees the key of a task that the broker surely does not have. */
  release(id: string): Promise<void> {
    return this.#store.update(byId(id), release, false);
  }

  /** Leaves the key to whoever comes next with it: the broker may have the task. */
  doubt(id: string): Promise<void> {
    return this.#store.update(byId(id), doubt, false);
  }

  /** What a client may know of a task; undefined when there is no record. */
  status(id: string): Promise<TaskStatus | undefined> {
    return this.#store.update(
      byId(id),
      (record, now) => ({ answer: record && statusOf(record, now) }),
      false,
    );
  }

  /** Asks for a task not to be sent any more. */
  cancel(id: string): Promise<Cancellation> {
    return this.#store.update(byId(id), cancel, true);
  }

  /** Claims an attempt before it is made. */
  claim(request: ClaimRequest): Promise<Claim> {
    return this.#store.update(byId(request.id), (r, now) => claim(r, request, now), false);
  }

  /** Gives a claim up whose request is over and can't be concluded. */
  abandon(request: AbandonRequest): Promise<void> {
    return this.#store.update(byId(request.id), (record) => abandon(record, request), false);
  }

  /** Records how an attempt ended, before its delivery is acknowledged. */
  conclude(request: ConcludeRequest): Promise<void> {
    const durable = request.conclusion.kind !== "retried";
    return this.#store.update(byId(request.id), (r, now) => conclude(r, request, now), durable);
  }

  /** Begins to send a failed task again, before its copy is published. */
  redrive(request: RedriveRequest): Promise<Redrive> {
    return this.#store.update(byId(request.id), (r, now) => redrive(r, request, now), true);
  }

  /** Records that the broker has the copy of a task that was granted as redriven so many times. */
  confirmRedrive(id: string, redriven: number): Promise<void> {
    return this.#store.update(byId(id), (r) => confirmRedrive(r, redriven), false);
  }

  /**
   * Whether records can be written now: writes one of nobody's, and the next time removes it.
   *
   * @throws {LedgerUnavailableError} (rejects) when they can't
   */
  probe(): Promise<void> {
    const change = (record: TaskRecord | undefined): Transition<void> => ({
      answer: undefined,
      record: record === undefined ? NOBODYS : null,
    });
    return this.#store.update(byId(NOBODYS.id), change, false);
  }

  /** Removes some of what is past its retention. */
  sweep(): Promise<number> {
    return this.#store.sweep();
  }

  /** Closes the store. */
  close(): Promise<void> {
    return this.#store.close();
  }
}

function byId(id: string): { readonly by: "id"; readonly id: string } {
  return { by: "id", id };
}
