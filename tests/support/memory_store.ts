/**
 * A ledger's store in memory, which a test can take away and whose time it can turn.
 *
 * @module
 */
import type { TaskRecord } from "../../src/ledger/record.ts";
import {
  type Change,
  type LedgerStore,
  LedgerUnavailableError,
  type Selector,
} from "../../src/ledger/store.ts";

/** Records for tests. */
export class MemoryStore implements LedgerStore {
  readonly records = new Map<string, TaskRecord>();
  /** While true, every update fails as if the store could not be reached. */
  down = false;
  /** The store's clock, milliseconds since the epoch. */
  now: () => number = Date.now;

  update<Answer>(selector: Selector, change: Change<Answer>): Promise<Answer> {
    if (this.down) return Promise.reject(new LedgerUnavailableError("the store is down"));
    const before = this.#find(selector);
    const { answer, record } = change(before, this.now());
    if (record === null && before !== undefined) this.records.delete(before.id);
    else if (record) this.records.set(record.id, record);
    return Promise.resolve(answer);
  }

  sweep(): Promise<number> {
    return Promise.resolve(0);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #find(selector: Selector): TaskRecord | undefined {
    if (selector.by === "id") return this.records.get(selector.id);
    return [...this.records.values()].find(({ key }) => key === selector.key);
  }
}
