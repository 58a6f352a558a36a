/**
 * Until when the backend has asked to be left alone, in a file of DATA_DIR: a relay that is killed or
 * deployed anew meanwhile does not ask all the same.
 *
 * One float64 of wall time, written in place and without fsync, as in the send log.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { closeSync, existsSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";

const BYTES = 8;

/** A file with one moment. */
export class GateMemory {
  readonly #file: number;
  readonly #moment = Buffer.alloc(BYTES);

  /**
   * Opens the file `name` in `folder`; makes both when they are missing.
   *
   * @throws {Error} of the operating system when the place can't be written.
   */
  constructor(folder: string, name: string) {
    mkdirSync(folder, { recursive: true });
    const path = `${folder}/${name}`;
    this.#file = openSync(path, existsSync(path) ? "r+" : "w+");
    // Takes its room now: later, on a full disk, a moment could not be remembered.
    if (this.load() === undefined) this.save(NaN);
  }

  /** The moment on record, wall milliseconds; undefined when there is none. */
  load(): number | undefined {
    if (readSync(this.#file, this.#moment, 0, BYTES, 0) < BYTES) return undefined;
    const until = this.#moment.readDoubleLE(0);
    return Number.isFinite(until) ? until : undefined;
  }

  /** Remembers a moment, wall milliseconds. */
  save(until: number): void {
    this.#moment.writeDoubleLE(until);
    writeSync(this.#file, this.#moment, 0, BYTES, 0);
  }

  /** Closes the file. */
  close(): void {
    closeSync(this.#file);
  }
}
