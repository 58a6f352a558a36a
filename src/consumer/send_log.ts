/**
 * The send log: when the last requests to the backend began, in a file of DATA_DIR, so that a
 * relay that was killed and started again does not spend a window twice.
 *
 * A ring of float64 wall times, written in place with one 8-byte `pwrite` a request and no fsync:
 * what it must survive is the death of the process; a machine takes longer to boot than a usual
 * window lasts.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  writeSync,
} from "node:fs";

const ENTRY_BYTES = 8;

/** A file that remembers at least the last `capacity` sends. */
export class SendLog {
  readonly #file: number;
  readonly #entry = Buffer.alloc(ENTRY_BYTES);
  #entries: number;
  #next = 0;
  /** No entry is older than the one before it, or {@link load} could not tell where the ring ends. */
  #newest = 0;

  /**
   * Opens the file `name` in `folder`; makes both when they are missing.
   *
   * @throws {Error} of the operating system when the place can't be written.
   */
  constructor(folder: string, name: string, capacity: number) {
    mkdirSync(folder, { recursive: true });
    const path = `${folder}/${name}`;
    this.#file = openSync(path, existsSync(path) ? "r+" : "w+");
    this.#entries = Math.max(capacity, this.#size());
    this.#fill();
  }

  /**
   * Wall times of the sends on record, ascending. Also finds the place for the next one, so call it
   * before the first {@link record} and whenever another process may have written the file.
   */
  load(): number[] {
    const content = Buffer.alloc(this.#entries * ENTRY_BYTES);
    readSync(this.#file, content, 0, content.length, 0);
    const ring = Array.from({ length: this.#entries }, (_, entry) => readTime(content, entry));
    const newest = ring.reduce((latest, time) => Math.max(latest, time), 0);
    // The entry after the last of the newest; several sends may have the same time.
    const oldest = ring.findIndex((time, entry) => time < newest && ring.at(entry - 1) === newest);
    this.#next = Math.max(0, oldest);
    this.#newest = newest;
    return ring.filter((time) => time > 0).sort((a, b) => a - b);
  }

  /** Remembers a send at `at`, wall milliseconds; after the wall clock was set back, as of before. */
  record(at: number): void {
    this.#newest = Math.max(this.#newest, at);
    this.#entry.writeDoubleLE(this.#newest);
    writeSync(this.#file, this.#entry, 0, ENTRY_BYTES, this.#next * ENTRY_BYTES);
    this.#next = (this.#next + 1) % this.#entries;
  }

  /** Closes the file. */
  close(): void {
    closeSync(this.#file);
  }

  #size(): number {
    return Math.floor(fstatSync(this.#file).size / ENTRY_BYTES);
  }

  /** Takes all the room now: later, on a full disk, a send could not be recorded. */
  #fill(): void {
    if (this.#size() >= this.#entries) return;
    const content = Buffer.alloc(this.#entries * ENTRY_BYTES);
    // In order, so that what a shorter ring held is not overwritten before the new room is used.
    this.load().forEach((time, entry) => content.writeDoubleLE(time, entry * ENTRY_BYTES));
    writeSync(this.#file, content, 0, content.length, 0);
  }
}

/** 0 for an entry that was never written, or not by a send log. */
function readTime(content: Buffer, entry: number): number {
  const time = content.readDoubleLE(entry * ENTRY_BYTES);
  return Number.isFinite(time) && time > 0 ? time : 0;
}
