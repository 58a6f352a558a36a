/**
 * The rate limit and the gate as replicas share them in Redis: one script, in which all that a replica
 * has to tell and to ask happens at once.
 *
 *     {PREFIX}:limit           what is known of the limit and the gate; a hash
 *     {PREFIX}:limit:pending   slots that were granted, by the moment at which they expire
 *     {PREFIX}:limit:begun     with sliding-window: the beginnings of one span, by their moment
 *
 * It counts as `rate_window.ts` does, over time of Redis' own. A granted slot is pending until its
 * beginning is reported. Redis dates that when the report comes, which is later than it was: so the
 * slot is free again too late by the report's way, never too early. A pending slot expires
 * {@link VALIDITY_MS} after the grant and counts as begun then: a replica that dies with a slot takes
 * it away for no longer than one window, and no replica begins with a slot that is older.
 *
 * Where nothing is stored (a Redis that is new, or was flushed), and after each start of Redis, as its
 * last second may not have been on disk, nothing is granted for one span: nobody knows what was sent.
 * It must not evict keys (`maxmemory-policy noeviction`), and its clock must not be set forward.
 *
 * @module
 */

import type { Config } from "../config.ts";
import type { RedisClient, RedisConnection } from "../redis/connection.ts";
import { script } from "../redis/script.ts";
import { SPAN_PER_WINDOW } from "./rate_window.ts";

/**
 * How long a granted slot can begin, milliseconds: time for the ledger and to connect. What takes
 * longer gives its slot back and takes another.
 */
export const VALIDITY_MS = 2_000;

/** How long all is remembered that nobody touches any more, beyond what is still valid, ms. */
const KEEP_MS = 3_600_000;

/**
 * KEYS: the hash, pending, begun.
 *
 * ARGV: the run of Redis, algorithm, limit, span, validity, ms to keep, the version of the gate that
 * is known, its next state ("" for no change), what stands before a slot's number, the first number,
 * how many are asked for, then three counts and as many of each: slots that have begun, slots that
 * are given back, and states of the gate when 1, 2, … have entered (none: it does not change).
 *
 * Gives: how many were granted, ms until the next is free (-1: when pending ones have begun), how many
 * began in this window, the version of the gate, whether the one that was known was right, the state
 * if it was not, and Redis' time in ms.
 */
const EXCHANGE = script(`
  local limit, pending, begun = KEYS[1], KEYS[2], KEYS[3]
  local run, algorithm, max, span = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
  local validity, keep, known, heard = tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8]
  local name, first, wanted = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
  local sliding = algorithm == 'sliding-window'
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000
  local function ms(number) return string.format('%.3f', number) end

  local stored = redis.call('HMGET', limit, 'run', 'notBefore', 'version', 'openedAt', 'begun')
  local notBefore, version = tonumber(stored[2] or 0), stored[3]
  local openedAt, count = tonumber(stored[4] or ''), tonumber(stored[5] or 0)
  if stored[1] ~= run then
    notBefore = now + span
    -- From the clock: no version from before comes again.
    version = time[1] .. string.format('%06d', time[2])
    redis.call('HSET', limit, 'run', run, 'notBefore', ms(notBefore), 'version', version)
  end

  local function roll(at)
    if openedAt and openedAt + span <= at then openedAt, count = nil, 0 end
  end
  local function begin(slot, at)
    if redis.call('ZREM', pending, slot) == 0 then return end
    if sliding then redis.call('ZADD', begun, ms(at), slot) return end
    roll(at)
    openedAt, count = openedAt or at, count + 1
  end
  local expired = redis.call('ZRANGEBYSCORE', pending, '-inf', ms(now), 'WITHSCORES')
  for i = 1, #expired, 2 do begin(expired[i], tonumber(expired[i + 1])) end
  local at = 12
  local function each(deed)
    local last = at + tonumber(ARGV[at])
    for i = at + 1, last do deed(ARGV[i]) end
    at = last + 1
  end
  each(function(slot) begin(slot, now) end)
  each(function(slot) redis.call('ZREM', pending, slot) end)
  local states = tonumber(ARGV[at])

  local right = version == known
  local function set(state)
    version = redis.call('HINCRBY', limit, 'version', 1)
    version = string.format('%.0f', version)
    redis.call('HSET', limit, 'gate', state)
  end
  if right and heard ~= '' then set(heard) end

  local used
  if sliding then
    redis.call('ZREMRANGEBYSCORE', begun, '-inf', ms(now - span))
    used = redis.call('ZCARD', begun)
  else
    roll(now)
    used = count
  end
  local out = redis.call('ZCARD', pending)
  local granted = 0
  if right and now >= notBefore then granted = math.max(0, math.min(wanted, max - used - out)) end
  for i = 0, granted - 1 do
    redis.call('ZADD', pending, ms(now + validity), name .. string.format('%.0f', first + i))
  end
  out = out + granted
  if granted > 0 and states > 0 then set(ARGV[at + math.min(granted, states)]) end

  local free = now
  if out >= max then free = nil
  elseif used + out >= max then
    if sliding then
      local oldest = used + out - max
      free = tonumber(redis.call('ZRANGE', begun, oldest, oldest, 'WITHSCORES')[2]) + span
    else
      free = openedAt + span
    end
  end
  if notBefore > now then free = math.max(notBefore, free or 0) end
  if not sliding then
    redis.call('HSET', limit, 'openedAt', openedAt and ms(openedAt) or '', 'begun', count)
  end
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, keep) end
  local state = not right and redis.call('HGET', limit, 'gate') or ''
  return {granted, free and ms(free - now) or '-1', used, version, right and 1 or 0, state, ms(now)}
`);

/** What a replica has to tell and to ask. */
export interface Question {
  /** Slots whose requests have begun. */
  readonly begun: readonly string[];
  /** Slots that are given back. */
  readonly withdrawn: readonly string[];
  /** The slots that are asked for: `name` with the numbers from `first` on. */
  readonly name: string;
  readonly first: number;
  readonly wanted: number;
  readonly gate: {
    /** The version on which the rest builds. */
    readonly version: string;
    /** The state after what was heard; "" when that changes nothing. */
    readonly heard: string;
    /** The states when 1, 2, … have entered after that; empty when entering changes nothing. */
    readonly entered: readonly string[];
  };
}

/** What Redis answers. */
export interface Answer {
  /** How many of the slots were granted, from the first on. */
  readonly granted: number;
  /** How long until the next slot is free, ms; Infinity while that hangs on pending ones. */
  readonly freeInMs: number;
  /** Requests begun in the window that lasts now. */
  readonly used: number;
  /** The version of the gate as it is now. */
  readonly version: string;
  /** Absent: the version that was known was right. Else the state, "" for one without a past. */
  readonly newer?: string;
  /** Redis' time, milliseconds since the epoch. */
  readonly now: number;
}

/** Where replicas share the limit. */
export class SharedWindow {
  readonly #connection: Pick<RedisConnection, "run">;
  readonly #keys: string[];
  readonly #rules: string[];
  readonly #runs = new WeakMap<RedisClient, Promise<string>>();

  /** @param keepMs how long the gate's state may be valid from any moment on. */
  constructor(
    connection: Pick<RedisConnection, "run">,
    { prefix, limit, keepMs }: {
      readonly prefix: string;
      readonly limit: Config["limit"];
      readonly keepMs: number;
    },
  ) {
    const key = `{${prefix}}:limit`;
    const span = limit.windowMs * SPAN_PER_WINDOW;
    this.#connection = connection;
    this.#keys = [key, `${key}:pending`, `${key}:begun`];
    this.#rules = [
      limit.algorithm,
      ...[limit.maxRequests, span, VALIDITY_MS].map(String),
      String(Math.ceil(2 * span + VALIDITY_MS + keepMs + KEEP_MS)),
    ];
  }

  /**
   * Tells and asks. It may be repeated as it is: what Redis has heard already changes nothing, except
   * that slots which it granted unheard are to be withdrawn.
   *
   * @throws {RedisUnavailableError} (rejects) when Redis can't be reached, refuses, or is silent.
   */
  async exchange({ begun, withdrawn, name, first, wanted, gate }: Question): Promise<Answer> {
    const lists = [begun, withdrawn, gate.entered];
    const args = [
      ...[...this.#rules, gate.version, gate.heard, name, String(first), String(wanted)],
      ...lists.flatMap((list) => [String(list.length), ...list]),
    ];
    const reply = await this.#connection.run(async (client) =>
      await EXCHANGE(client, this.#keys, [await this.#runOf(client), ...args])
    );
    const [granted, freeIn, used, version, right, state, now] = reply as [
      ...[granted: number, freeIn: string, used: number, version: string],
      ...[right: number, state: string | null, now: string],
    ];
    return {
      granted,
      freeInMs: freeIn === "-1" ? Infinity : Number(freeIn),
      used,
      version,
      ...(right === 0 && { newer: state ?? "" }),
      now: Number(now),
    };
  }

  /** Which run of Redis a client talks to; it can't outlive that. */
  #runOf(client: RedisClient): Promise<string> {
    const known = this.#runs.get(client);
    if (known !== undefined) return known;
    const run = client.info("server").then((text) => /^run_id:(\w+)/m.exec(text)?.[1] ?? "unknown");
    this.#runs.set(client, run);
    run.catch(() => this.#runs.delete(client)); // such as while it reads its data
    return run;
  }
}
