/**
 * The embedded ledger's file: its schema, its statements, and what its errors mean.
 *
 * Ingest and the consumer's Worker each have it open, and so may a second relay on the same host:
 * every transaction takes the write lock at its begin, so that what it reads stays true until it
 * commits. All statements are prepared: only their errors carry SQLite's code, those of `exec` don't.
 *
 * @module
 */

import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { StatementSync } from "node:sqlite";
import type { TaskRecord } from "./record.ts";
import type { Selector } from "./store.ts";

/** Of the schema below; a file with a larger one was written by a later relay. */
const SCHEMA_VERSION = 1;

const SCHEMA = `
  CREATE TABLE task (
    id TEXT PRIMARY KEY,
    key TEXT,
    expires_at INTEGER,
    record TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- Partial: most tasks have no key, and none of them then costs a page of this index.
  CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL;
  CREATE INDEX task_expires_at ON task (expires_at) WHERE expires_at IS NOT NULL;
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/**
 * How long a thread may stand still for another's lock, ms. Most commits are over in 10; whoever
 * waits longer tries again later and lets its thread do something else in between.
 */
const BUSY_TIMEOUT_MS = 50;

/** SQLite's primary result codes (https://www.sqlite.org/rescode.html) that are told apart. */
const BUSY_CODES = [5, /* BUSY */ 6, /* LOCKED */ 15 /* PROTOCOL: a race for the WAL's locks */];
const FULL = 13;
const DAMAGED_CODES = [11, /* CORRUPT */ 26 /* NOTADB */];
const BARRED_CODES = [3, /* PERM */ 8, /* READONLY */ 14, /* CANTOPEN */ 23 /* AUTH */];

/** The file was written by a relay that is newer than this one. */
class NewerSchemaError extends Error {
  override readonly name = "NewerSchemaError";
}

/** The file, open. Every method throws what SQLite throws; {@link diagnose} tells what that means. */
export class SqliteFile {
  readonly #path: string;
  readonly #database: DatabaseSync;
  readonly #inode: bigint;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #rollback: StatementSync;
  readonly #select: Readonly<Record<Selector["by"], StatementSync>>;
  readonly #upsert: StatementSync;
  readonly #freeKey: StatementSync;
  readonly #delete: StatementSync;
  readonly #sweep: StatementSync;
  #syncsAll: boolean | undefined;

  /** Opens the file; makes it, and its folder, when they are missing. */
  constructor(path: string) {
    mkdirSync(dirname(path), { recursive: true });
    this.#path = path;
    this.#database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
    try {
      const prepare = (sql: string): StatementSync => this.#database.prepare(sql);
      prepare("PRAGMA journal_mode = WAL").get();
      this.#begin = prepare("BEGIN IMMEDIATE");
      this.#commit = prepare("COMMIT");
      this.#rollback = prepare("ROLLBACK");
      this.transaction(true, () => this.#migrate());
      const live = "(expires_at IS NULL OR expires_at > :now)";
      this.#select = {
        id: prepare(`SELECT record FROM task WHERE id = :selected AND ${live}`),
        key: prepare(`SELECT record FROM task WHERE key = :selected AND ${live}`),
      };
      this.#upsert = prepare(
        `INSERT INTO task (id, key, expires_at, record) VALUES (?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE
           SET key = excluded.key, expires_at = excluded.expires_at, record = excluded.record`,
      );
      this.#freeKey = prepare("DELETE FROM task WHERE key = ? AND expires_at <= ?");
      this.#delete = prepare("DELETE FROM task WHERE id = ?");
      this.#sweep = prepare(
        `DELETE FROM task WHERE id IN
           (SELECT id FROM task WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
      );
      this.#inode = statSync(path, { bigint: true }).ino;
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  /** Whether the path leads to another file by now, or to none: this one was moved aside. */
  get replaced(): boolean {
    return statSync(this.#path, { bigint: true, throwIfNoEntry: false })?.ino !== this.#inode;
  }

  /**
   * Runs `work` in a transaction of its own.
   *
   * @param durable whether it must survive a loss of power: 4 to 7 ms on an ordinary disk.
   */
  transaction<T>(durable: boolean, work: () => T): T {
    this.#syncAll(durable);
    this.#begin.run();
    try {
      const result = work();
      this.#commit.run();
      return result;
    } catch (error) {
      if (this.#database.isTransaction) this.#rollback.run();
      throw error;
    }
  }

  /** The selected record as it was written, unless it is past its retention. */
  read(selector: Selector, now: number): string | undefined {
    const selected = selector.by === "id" ? selector.id : selector.key;
    const row = this.#select[selector.by].get({ selected, now });
    return row === undefined ? undefined : String(row.record);
  }

  /** Writes a record; without `expiresAt` (ms since the epoch) it stays. */
  write(record: TaskRecord, expiresAt: number | undefined, now: number): void {
    const { id, key } = record;
    if (key !== undefined) this.#freeKey.run(key, now);
    this.#upsert.run(id, key ?? null, expiresAt ?? null, JSON.stringify(record));
  }

  /** Removes a record. */
  remove(id: string): void {
    this.#delete.run(id);
  }

  /** Removes up to `most` records that are past their retention; says how many. */
  sweep(now: number, most: number): number {
    return Number(this.#sweep.run(now, most).changes);
  }

  /** Closes the file. */
  close(): void {
    this.#database.close();
  }

  /** In WAL mode NORMAL loses the last commits with the power, and no commit with the process. */
  #syncAll(durable: boolean): void {
    if (durable === this.#syncsAll) return;
    this.#database.prepare(`PRAGMA synchronous = ${durable ? "FULL" : "NORMAL"}`).run();
    this.#syncsAll = durable;
  }

  #migrate(): void {
    const row = this.#database.prepare("PRAGMA user_version").get();
    const version = Number(row?.user_version);
    if (version > SCHEMA_VERSION) {
      throw new NewerSchemaError(
        `it has version ${version}, and this relay knows none after ${SCHEMA_VERSION}`,
      );
    }
    if (version === 0) this.#database.exec(SCHEMA);
  }
}

/** What an error of the file means for whoever uses it. */
export interface Diagnosis {
  /** `busy`: try again soon; `full`: the connection is sound; `broken`: open the file anew. */
  readonly kind: "busy" | "full" | "broken";
  readonly advice: string;
}

/** Reads an error that came from the file at `path`. */
export function diagnose(error: unknown, path: string): Diagnosis {
  const code = primaryCode(error);
  if (code !== undefined && BUSY_CODES.includes(code)) {
    return { kind: "busy", advice: "another process holds its lock; see what has the file open" };
  }
  if (code === FULL) return { kind: "full", advice: `free space on the disk of ${dirname(path)}` };
  return { kind: "broken", advice: adviceFor(error, code, path) };
}

function adviceFor(error: unknown, code: number | undefined, path: string): string {
  if (error instanceof NewerSchemaError) {
    return "use the newer relay, or set DATA_DIR to another directory";
  }
  if (code !== undefined && DAMAGED_CODES.includes(code)) {
    return `the file is damaged: move it aside, together with ${path}-wal and ${path}-shm; the ` +
      "relay begins a new one by itself, without the keys and tasks of the old one";
  }
  if (code === undefined || BARRED_CODES.includes(code)) {
    return `see to it that ${dirname(path)} is a directory that the relay's user may write`;
  }
  return "see the system's log for errors of the disk";
}

function primaryCode(error: unknown): number | undefined {
  const { errcode } = error as { readonly errcode?: unknown };
  return typeof errcode === "number" ? errcode & 0xff : undefined;
}
