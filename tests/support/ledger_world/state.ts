/**
 * What everybody in the world of the ledger shares: the records, the broker's copies, the relays that
 * run, and what has really happened, by which each answer of the ledger is judged.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { LeaseOwner, TaskRecord, Transition } from "../../../src/ledger/record.ts";
import { statusOf } from "../../../src/ledger/status.ts";

export const KEY = "the key";
export const LEASE_MS = 100;
export const RUNG_MS = 50;
/** Attempts in the ladder: after the last one a task has failed. */
export const ATTEMPTS = 3;

/** Something that may happen now, and how often it is picked compared with others. */
export type Action = readonly [weight: number, happen: () => void];

/** Weights. */
export const PROGRESS = 12;
export const TROUBLE = 2;

/** Where a task stands: how often it was redriven, and the attempt to be made next. */
export interface Place {
  readonly redriven: number;
  readonly attempt: number;
}

/** A message in the broker; `held` while somebody has it unacknowledged. */
export interface Copy extends Place {
  readonly id: string;
  held: boolean;
}

/** Above 0 when `a` is the later one. */
export function compare(a: Place, b: Place): number {
  return a.redriven - b.redriven || a.attempt - b.attempt;
}

/** The state; see above. */
export class LedgerState {
  now = 1_000;
  /** In main and on the rungs. */
  copies: Copy[] = [];
  /** In the failed queue. */
  failed: Copy[] = [];
  relays: LeaseOwner[] = [{ relay: "a", run: "a1" }, { relay: "b", run: "b1" }];
  /** Until when the key, and the task, belong to whoever has them, if nothing is concluded. */
  keyLeasedUntil = 0;
  taskLeasedUntil = 0;
  /** Who has it, or had it when he was killed. */
  taskOwner: LeaseOwner | undefined;
  readonly publishedIds = new Set<string>();
  delivered = false;
  cancelled = false;
  droppedAsCancelled = false;
  /** The latest attempt that was concluded without success. */
  made: Place = { redriven: 0, attempt: 0 };
  readonly #records = new Map<string, TaskRecord>();

  /** All records there are. */
  get records(): TaskRecord[] {
    return [...this.#records.values()];
  }

  record(id: string): TaskRecord | undefined {
    return this.#records.get(id);
  }

  apply<Answer>(
    id: string,
    change: (record: TaskRecord | undefined) => Transition<Answer>,
  ): Answer {
    const { answer, record } = change(this.#records.get(id));
    if (record === null) this.#records.delete(id);
    else if (record) this.#records.set(id, record);
    return answer;
  }

  /** Whether a message that carries the task on from `place` is anywhere. */
  hasLater(place: Place): boolean {
    return this.copies.some((copy) => compare(copy, place) > 0) ||
      this.failed.some(({ redriven }) => redriven >= place.redriven);
  }

  /** What must hold at each moment. */
  check(): void {
    const finished = ["delivered", "failed", "cancelled"];
    for (const record of this.#records.values()) {
      const { nextAttemptAt } = statusOf(record, this.now);
      assert.ok(nextAttemptAt === undefined || nextAttemptAt > this.now, "due in the past");
      // Otherwise it would go while its task can still be delivered.
      assert.equal(record.finishedAt !== undefined, finished.includes(record.state));
    }
    const keyed = this.records.filter(({ key }) => key === KEY);
    assert.ok(keyed.length <= 1, "two records have one key");
    if (this.publishedIds.size === 0) return;
    const there = this.copies.length + this.failed.length > 0;
    assert.ok(there || this.delivered || this.cancelled, "the task is lost");
  }
}
