/**
 * One connection to Redis that comes back by itself, and on which nothing waits forever.
 *
 * The client library's own reconnecting is off: it would leave a timer behind when it is closed, and
 * it does not notice a peer that has gone silent. Here a command without an answer in time ends the
 * connection, and the loop below makes another.
 *
 *     connecting ──► ready ──lost, or silent──► pause (50 ms, doubled up to 2 s) ──► connecting
 *
 * Credentials stay out of every error: RESP 2 signs in with AUTH, while an old server repeats the
 * arguments of RESP 3's HELLO in its answer.
 *
 * @module
 */

import type { createClient, RedisFunctions, RedisModules, RedisScripts } from "redis";
import type { Clock } from "../clock.ts";

/** For one attempt to connect, all told and TCP's part, and to close in order, ms. */
const CONNECT_DEADLINE_MS = 2_000;
const TCP_DEADLINE_MS = 1_500;
const CLOSE_DEADLINE_MS = 1_000;

/** For the answer to one command, ms; a connection that is silent for so long is given up. */
const ANSWER_DEADLINE_MS = 2_000;

/** Between two attempts to connect, ms; half of it is random. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

const SILENT: unique symbol = Symbol("no answer in time");

type CreateClient = typeof createClient<RedisModules, RedisFunctions, RedisScripts, 2>;
type ClientOptions = NonNullable<Parameters<CreateClient>[0]>;

/** What commands are given to. */
export type RedisClient = ReturnType<CreateClient>;

type Command<Reply> = (client: RedisClient) => Promise<Reply>;

/** Redis can't be reached, refuses, or is silent; what was asked may have been done all the same. */
export class RedisUnavailableError extends Error {
  override readonly name = "RedisUnavailableError";
}

/** A connection; it begins to connect when it is made. */
export class RedisConnection {
  readonly #address: Address;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  /** Settles when the first attempt to connect has ended, either way. */
  readonly #tried = Promise.withResolvers<void>();
  readonly #ended: Promise<void>;
  #client: RedisClient | undefined;
  #problem = "it is not connected yet";

  /** @throws {TypeError} when `url` is no redis:// or rediss:// URL. */
  constructor(url: string, clock: Clock) {
    this.#address = readAddress(url);
    this.#clock = clock;
    this.#ended = this.#keepConnected();
  }

  /**
   * Gives `command` the client, and waits at most two seconds for its end.
   *
   * @throws {RedisUnavailableError} (rejects) when Redis can't be reached, refuses, or is silent.
   */
  async run<Reply>(command: Command<Reply>): Promise<Reply> {
    const over = new AbortController();
    const silence = this.#clock.sleep(ANSWER_DEADLINE_MS, over.signal).then((): typeof SILENT =>
      SILENT
    );
    try {
      await Promise.race([this.#tried.promise, silence]);
      const client = this.#client;
      if (client === undefined) throw this.unavailable(this.#problem);
      const result = await Promise.race([this.#ask(client, command), silence]);
      if (result !== SILENT) return result;
      const problem = `no answer within ${ANSWER_DEADLINE_MS} ms`;
      this.#drop(client, problem);
      throw this.unavailable(problem);
    } finally {
      over.abort();
    }
  }

  /** The error that says what is wrong with this Redis, and what to do. */
  unavailable(problem: string, options?: ErrorOptions): RedisUnavailableError {
    const { host, port } = this.#address;
    const advice = "see that Redis runs there, takes writes, and that REDIS_URL is right";
    const message = `Redis at ${host}:${port} can't be used: ${problem}; ${advice}`;
    return new RedisUnavailableError(message, options);
  }

  /** Ends what is under way, in order if that is over soon, and the connection. */
  async close(): Promise<void> {
    this.#closing.abort();
    const client = this.#client;
    if (client !== undefined) {
      const over = new AbortController();
      const patience = this.#clock.sleep(CLOSE_DEADLINE_MS, over.signal);
      await Promise.race([client.close(), patience]);
      over.abort();
      this.#drop(client, "it is closed");
    }
    await this.#ended;
    this.#problem = "it is closed";
  }

  async #ask<Reply>(client: RedisClient, command: Command<Reply>): Promise<Reply> {
    try {
      return await command(client);
    } catch (error) {
      const problem = messageOf(error);
      // A replica now: its name may lead to the new master.
      if (problem.startsWith("READONLY")) this.#drop(client, problem);
      throw this.unavailable(problem, { cause: error });
    }
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#closing;
    // Loaded only where it is needed: it is a third of what the relay loads otherwise, in two threads.
    const { createClient } = await import("redis");
    for (let failures = 0; !signal.aborted; failures++) {
      const client: RedisClient = createClient(optionsFor(this.#address));
      const lost = Promise.withResolvers<void>();
      client.on("error", (error) => {
        if (this.#client === client) this.#problem = messageOf(error);
        lost.resolve();
      });
      client.on("end", lost.resolve);
      if (await this.#connect(client)) {
        failures = 0;
        this.#client = client;
        this.#tried.resolve();
        if (!signal.aborted) await lost.promise;
      }
      this.#drop(client, this.#problem);
      this.#tried.resolve();
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
      await this.#clock.sleep(pauseMs * (1 + Math.random()) / 2, signal);
    }
    this.#tried.resolve();
  }

  /** Whether the client is ready; otherwise it is of no use any more. */
  async #connect(client: RedisClient): Promise<boolean> {
    const over = new AbortController();
    let late = false;
    this.#clock.sleep(CONNECT_DEADLINE_MS, over.signal).then(() => {
      if (over.signal.aborted) return;
      late = true;
      client.destroy(); // which ends the attempt
    });
    try {
      await client.connect();
      return !late;
    } catch (error) {
      this.#problem = late ? `no connection within ${CONNECT_DEADLINE_MS} ms` : messageOf(error);
      return false;
    } finally {
      over.abort();
    }
  }

  #drop(client: RedisClient, problem: string): void {
    if (this.#client === client) {
      this.#client = undefined;
      this.#problem = problem;
    }
    client.destroy();
  }
}

/** Where Redis is, and who signs in. */
interface Address {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly database: number;
  readonly username?: string;
  readonly password?: string;
}

/** Our own reading: the library's keeps the brackets of an IPv6 address and then can't connect. */
function readAddress(text: string): Address {
  const url = new URL(text);
  const database = Number(url.pathname.slice(1));
  if (!/^rediss?:$/.test(url.protocol) || !Number.isInteger(database)) {
    throw new TypeError("REDIS_URL must be redis://[[user]:password@]host[:port][/database]");
  }
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || "6379"),
    tls: url.protocol === "rediss:",
    database,
    ...(url.username !== "" && { username: decodeURIComponent(url.username) }),
    ...(url.password !== "" && { password: decodeURIComponent(url.password) }),
  };
}

function optionsFor({ host, port, tls, ...account }: Address): ClientOptions {
  const socket = {
    host,
    port,
    connectTimeout: TCP_DEADLINE_MS,
    reconnectStrategy: false,
  } as const;
  return {
    ...account,
    socket: tls ? { ...socket, tls: true, servername: host } : socket,
    RESP: 2,
    disableOfflineQueue: true,
    // Needs Redis Enterprise and RESP 3, and reads the environment.
    maintNotifications: "disabled",
  };
}

/** An error of several addresses has no message of its own. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as { readonly code?: unknown };
  return error.message || (typeof code === "string" ? code : error.name);
}
