/**
 * The ledger in Redis, for replicas that share it.
 *
 * An update is optimistic: read the record, decide, and write in a script that compares what it
 * finds with what was read. Whoever finds something else decides anew.
 *
 *     {PREFIX}:ledger:task:ID              the record, JSON
 *     {PREFIX}:ledger:key:SHA-256 of KEY   the id of the record that has the key
 *
 * The braces are a hash tag: all keys of a relay are in one slot, which the scripts rely on. Time is
 * Redis' own, so that leases don't depend on the clocks of the replicas. Whether an acknowledged
 * write survives a loss of power is for `appendfsync` of the server to say.
 *
 * @module
 */

import { createHash } from "node:crypto";
import type { Clock } from "../clock.ts";
import { type RedisClient, RedisConnection, RedisUnavailableError } from "../redis/connection.ts";
import { script } from "../redis/script.ts";
import type { TaskRecord } from "./record.ts";
import { type Change, type LedgerStore, LedgerUnavailableError, type Selector } from "./store.ts";

/** How long an update that is overtaken is tried again, ms. */
const CONFLICT_PATIENCE_MS = 2_000;

/** Before an update that was overtaken is tried again: at most this, at random, ms. */
const LONGEST_CONFLICT_PAUSE_MS = 50;

/**
 * KEYS: the record or the key's index, ARGV: "" or what stands before an id in a record's name.
 * Gives Redis' time (s, µs), the record, and the id that the index leads to.
 */
const READ = script(`
  local time = redis.call('TIME')
  if ARGV[1] == '' then return {time[1], time[2], redis.call('GET', KEYS[1]), false} end
  local id = redis.call('GET', KEYS[1])
  if not id then return {time[1], time[2], false, false} end
  return {time[1], time[2], redis.call('GET', ARGV[1] .. id), id}
`);

/**
 * KEYS: the record and, if it has a key, the key's index. ARGV: the record as it was read and as it
 * is to be ("" for none), its id, what stands before an id in a record's name, ms to live or "".
 * Gives 1, or 0 when somebody else was faster.
 */
const WRITE = script(`
  local record, index = KEYS[1], KEYS[2]
  local before, after, id, prefix, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
  if (redis.call('GET', record) or '') ~= before then return 0 end
  local owner = index and redis.call('GET', index)
  local foreign = owner and owner ~= id and redis.call('EXISTS', prefix .. owner) == 1
  if foreign and before == '' then return 0 end
  if after == '' then
    redis.call('DEL', record)
    if owner == id then redis.call('DEL', index) end
    return 1
  end
  local function put(name, value)
    if ttl == '' then redis.call('SET', name, value) else redis.call('SET', name, value, 'PX', ttl) end
  end
  put(record, after)
  if index and not foreign then put(index, id) end
  return 1
`);

/** What a store in Redis is made with. */
export interface RedisStoreOptions {
  /** REDIS_URL. */
  readonly url: string;
  /** QUEUE_PREFIX. */
  readonly prefix: string;
  /** How long a record is kept after its task's final disposition. */
  readonly retentionMs: number;
  readonly clock: Clock;
}

/** The ledger in Redis; it connects, and connects again, by itself. */
export class RedisStore implements LedgerStore {
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #retentionMs: number;
  readonly #tasks: string;
  readonly #keys: string;

  /** @throws {TypeError} when the URL is not one of Redis. */
  constructor({ url, prefix, retentionMs, clock }: RedisStoreOptions) {
    this.#connection = new RedisConnection(url, clock);
    this.#clock = clock;
    this.#retentionMs = retentionMs;
    this.#tasks = `{${prefix}}:ledger:task:`;
    this.#keys = `{${prefix}}:ledger:key:`;
  }

  async update<Answer>(selector: Selector, change: Change<Answer>): Promise<Answer> {
    const until = this.#clock.monotonic() + CONFLICT_PATIENCE_MS;
    for (let tries = 1; this.#clock.monotonic() < until; tries++) {
      const { text, now } = await this.#read(selector);
      const record = text === "" ? undefined : this.#parse(text, selector);
      const { answer, record: next } = change(record, now);
      const concerned = next ?? record;
      if (next === undefined || concerned === undefined) return answer;
      if (await this.#write(text, next, concerned, now)) return answer;
      await this.#clock.sleep(Math.random() * Math.min(2 ** tries, LONGEST_CONFLICT_PAUSE_MS));
    }
    throw this.#unavailable("others changed the record again and again");
  }

  /** Redis removes by itself what is past its retention. */
  sweep(): Promise<number> {
    return Promise.resolve(0);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async #read(selector: Selector): Promise<{ text: string; now: number }> {
    const [key, prefix] = selector.by === "id"
      ? [`${this.#tasks}${selector.id}`, ""]
      : [this.#index(selector.key), this.#tasks];
    const reply = await this.#run((client) => READ(client, [key], [prefix]));
    const [seconds, micros, text] = reply as [string, string, string | null];
    return { text: text ?? "", now: Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000) };
  }

  /** Whether it was written; `before` is the text of the record as it was read. */
  async #write(
    before: string,
    next: TaskRecord | null,
    { id, key }: TaskRecord,
    now: number,
  ): Promise<boolean> {
    const keys = [`${this.#tasks}${id}`, ...(key === undefined ? [] : [this.#index(key)])];
    const after = next === null ? "" : JSON.stringify(next);
    const args = [before, after, id, this.#tasks, this.#timeToLive(next, now)];
    return await this.#run((client) => WRITE(client, keys, args)) === 1;
  }

  async #run<Reply>(command: (client: RedisClient) => Promise<Reply>): Promise<Reply> {
    try {
      return await this.#connection.run(command);
    } catch (error) {
      if (!(error instanceof RedisUnavailableError)) throw error;
      throw new LedgerUnavailableError(`the ledger in ${error.message}`, { cause: error });
    }
  }

  #unavailable(problem: string, options?: ErrorOptions): LedgerUnavailableError {
    const { message } = this.#connection.unavailable(problem);
    return new LedgerUnavailableError(`the ledger in ${message}`, options);
  }

  #timeToLive(record: TaskRecord | null, now: number): string {
    if (record?.finishedAt === undefined) return "";
    return String(Math.max(1, Math.ceil(record.finishedAt + this.#retentionMs - now)));
  }

  #index(key: string): string {
    return `${this.#keys}${createHash("sha256").update(key).digest("hex")}`;
  }

  #parse(text: string, selector: Selector): TaskRecord {
    try {
      return JSON.parse(text);
    } catch (cause) {
      const name = selector.by === "id"
        ? `${this.#tasks}${selector.id}`
        : this.#index(selector.key);
      throw this.#unavailable(`what ${name} leads to is no record; remove it`, {
        cause,
      });
    }
  }
}
