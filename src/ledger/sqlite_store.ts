/**
 * The ledger in a file of DATA_DIR, for relays that share nothing but their host.
 *
 * All updates that come in during a turn of the event loop share one transaction, since a durable
 * commit takes milliseconds whatever it holds:
 *
 *     update, update, update … ──end of the turn──► BEGIN, each change, COMMIT ──► all settle
 *                                                          │ busy: again soon, with what came since
 *                                                          └ broken: all fail; the file is opened anew
 *
 * @module
 */

import { setImmediate } from "node:timers";
import type { Clock } from "../clock.ts";
import type { TaskRecord, Transition } from "./record.ts";
import { diagnose, SqliteFile } from "./sqlite_file.ts";
import { LedgerUnavailableError } from "./store.ts";
import type { Change, LedgerStore, Selector } from "./store.ts";

/** The largest number of updates in one transaction: 1,000 take about 20 ms. */
const LARGEST_GROUP = 1_000;

/** How long an update waits while others hold the file's lock, ms. */
const BUSY_PATIENCE_MS = 5_000;

/** Between two tries while the file is locked, ms: from half of it to all. */
const BUSY_PAUSE_MS = 20;

/** Between two openings of a file that is broken, and between two looks at where it is, ms. */
const REOPEN_PAUSE_MS = 1_000;

/** Rows that one sweep removes at most. */
const SWEEP_ROWS = 500;

/** What a store in a file is made with. */
export interface SqliteStoreOptions {
  readonly dataDir: string;
  /** QUEUE_PREFIX: relays with different queues may share a directory. */
  readonly prefix: string;
  /** How long a record is kept after its task's final disposition. */
  readonly retentionMs: number;
  readonly clock: Clock;
}

/** Something to be done within a transaction. */
interface Job {
  readonly durable: boolean;
  /** Not tried again after this, monotonic ms. */
  readonly until: number;
  /** Does it, and gives what tells the caller once it is committed; throws when the file fails. */
  readonly run: (file: SqliteFile, now: number) => () => void;
  readonly fail: (error: LedgerUnavailableError) => void;
}

/** The ledger in `<dataDir>/<prefix>.ledger.sqlite`, which is opened when it is first used. */
export class SqliteStore implements LedgerStore {
  readonly #path: string;
  readonly #options: SqliteStoreOptions;
  readonly #closing = new AbortController();
  #jobs: Job[] = [];
  #scheduled = false;
  #file: SqliteFile | undefined;
  #lookedAt = 0;
  /** Why the file can't be used, until it is tried again (monotonic ms). */
  #broken: { readonly error: LedgerUnavailableError; readonly until: number } | undefined;

  constructor(options: SqliteStoreOptions) {
    this.#options = options;
    this.#path = `${options.dataDir}/${options.prefix}.ledger.sqlite`;
  }

  update<Answer>(selector: Selector, change: Change<Answer>, durable: boolean): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#add(durable, reject, (file, now) => {
        const text = file.read(selector, now);
        let record: TaskRecord | undefined;
        let transition: Transition<Answer>;
        try {
          record = text === undefined ? undefined : this.#parse(text, selector);
          transition = change(record, now);
        } catch (error) {
          return () => reject(error); // its own affair: the others of the group go on
        }
        const { answer, record: next } = transition;
        if (next) file.write(next, this.#expiry(next), now);
        else if (next === null && record) file.remove(record.id);
        return () => resolve(answer);
      });
    });
  }

  sweep(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#add(false, reject, (file, now) => {
        const removed = file.sweep(now, SWEEP_ROWS);
        return () => resolve(removed);
      });
    });
  }

  /** Commits what was asked for before, if the file lets it at once, and closes the file. */
  close(): Promise<void> {
    if (!this.#closing.signal.aborted) {
      this.#flush();
      this.#closing.abort();
      const error = new LedgerUnavailableError(`the ledger ${this.#path} is closed`);
      this.#jobs.splice(0).forEach(({ fail }) => fail(error));
      this.#closeFile();
    }
    return Promise.resolve();
  }

  #add(durable: boolean, fail: Job["fail"], run: Job["run"]): void {
    if (this.#closing.signal.aborted) {
      fail(new LedgerUnavailableError(`the ledger ${this.#path} is closed`));
      return;
    }
    this.#jobs.push({ durable, until: this.#now() + BUSY_PATIENCE_MS, run, fail });
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const group = this.#jobs.splice(0, LARGEST_GROUP);
    if (group.length === 0) return;
    try {
      this.#commit(group).forEach((settle) => settle());
    } catch (error) {
      this.#failed(group, error);
    }
    if (this.#jobs.length > 0) this.#schedule();
  }

  #commit(group: readonly Job[]): (() => void)[] {
    const file = this.#open();
    const durable = group.some((job) => job.durable);
    const now = this.#options.clock.now();
    return file.transaction(durable, () => group.map(({ run }) => run(file, now)));
  }

  #failed(group: readonly Job[], cause: unknown): void {
    if (cause instanceof LedgerUnavailableError) return group.forEach(({ fail }) => fail(cause));
    const { kind, advice } = diagnose(cause, this.#path);
    if (kind === "busy") return this.#again(group, advice, cause);
    const error = this.#unavailable(cause, advice);
    if (kind === "broken") {
      this.#closeFile();
      this.#broken = { error, until: this.#now() + REOPEN_PAUSE_MS };
    }
    group.forEach(({ fail }) => fail(error));
  }

  /** Another has the lock: once more in a moment, with what comes in until then. */
  #again(group: readonly Job[], advice: string, cause: unknown): void {
    const now = this.#now();
    const late = group.filter(({ until }) => until <= now);
    if (late.length > 0) {
      const error = this.#unavailable(cause, advice);
      late.forEach(({ fail }) => fail(error));
    }
    this.#jobs.unshift(...group.filter(({ until }) => until > now));
    this.#scheduled = true;
    const pauseMs = BUSY_PAUSE_MS * (1 + Math.random()) / 2;
    this.#options.clock.sleep(pauseMs, this.#closing.signal).then(() => this.#flush());
  }

  #open(): SqliteFile {
    const now = this.#now();
    if (this.#broken && now < this.#broken.until) throw this.#broken.error;
    this.#broken = undefined;
    // A file that was moved aside would be written on, where nobody reads it.
    if (this.#file && now - this.#lookedAt >= REOPEN_PAUSE_MS) {
      this.#lookedAt = now;
      if (this.#file.replaced) this.#closeFile();
    }
    if (this.#file === undefined) {
      this.#file = new SqliteFile(this.#path);
      this.#lookedAt = now;
    }
    return this.#file;
  }

  #closeFile(): void {
    const file = this.#file;
    this.#file = undefined;
    try {
      file?.close();
    } catch {
      // What ails the file has been said by then, and what it held is committed or has failed.
    }
  }

  #unavailable(cause: unknown, advice: string): LedgerUnavailableError {
    const reason = cause instanceof Error ? cause.message : String(cause);
    return new LedgerUnavailableError(
      `the ledger ${this.#path} can't be used: ${reason}: ${advice}`,
      { cause },
    );
  }

  #parse(text: string, selector: Selector): TaskRecord {
    try {
      return JSON.parse(text);
    } catch (cause) {
      const which = selector.by === "id" ? `task ${selector.id}` : "an idempotency key";
      throw this.#unavailable(cause, `the record of ${which} is damaged; remove it, or the file`);
    }
  }

  #expiry({ finishedAt }: TaskRecord): number | undefined {
    return finishedAt === undefined ? undefined : finishedAt + this.#options.retentionMs;
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }
}
