/**
 * What a ledger's store has to do: apply a transition to one record, atomically and durably.
 *
 * @module
 */

import type { TaskRecord, Transition } from "./record.ts";

/** Which record a transition is about. */
export type Selector =
  | { readonly by: "id"; readonly id: string }
  /** The record that reserved this idempotency key. */
  | { readonly by: "key"; readonly key: string };

/** The store can't be reached or written now; what was asked has not happened, as far as it knows. */
export class LedgerUnavailableError extends Error {
  override readonly name = "LedgerUnavailableError";
}

/** A transition for {@link LedgerStore.update}; `now` is the store's clock, ms since the epoch. */
export type Change<Answer> = (record: TaskRecord | undefined, now: number) => Transition<Answer>;

/** Where records are kept. */
export interface LedgerStore {
  /**
   * Reads the record, applies `change`, and writes what it gives; nobody else's change comes between.
   * `change` is pure and may be applied more than once.
   *
   * @param durable whether the change must survive a loss of power, not only of the process.
   * @throws {LedgerUnavailableError} (rejects)
   */
  update<Answer>(selector: Selector, change: Change<Answer>, durable: boolean): Promise<Answer>;
  /**
   * Removes some records that were finished longer ago than the retention; a small number at a time.
   *
   * @returns how many went.
   * @throws {LedgerUnavailableError} (rejects)
   */
  sweep(): Promise<number>;
  /** Closes the store. */
  close(): Promise<void>;
}
