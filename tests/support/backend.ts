/**
 * A stub of the backend, whose answers change while a test runs.
 *
 * It listens on a real socket and writes its answers by hand, because what breaks a client is what
 * no server library lets one send: a reset on a reused connection, half a header, status 999, a
 * body without end. Every request that arrives whole is recorded, also one that gets no answer, so
 * that "sent once" and "never more than ten in three seconds" are counted where they matter.
 *
 * @module
 */
import net from "node:net";
import tls from "node:tls";
import { type Answer, writeAnswer } from "./answers.ts";
import { busiestWindow, perFixedWindow } from "./arrivals.ts";
import { PATIENCE_MS } from "./eventually.ts";
import { type ReadRequest, RequestReader } from "./http_reader.ts";
import { freePort } from "./ports.ts";

export type { Answer } from "./answers.ts";

/** A request as the stub received it. */
export interface BackendRequest extends ReadRequest {
  /** Monotonic milliseconds (`performance.now()`) when its last byte arrived. */
  readonly at: number;
  /** The same moment by the wall clock, milliseconds since the epoch. */
  readonly wallAt: number;
  /** Number of the connection it came on, from 1. */
  readonly connectionId: number;
}

/** Decides the answer to `request`, the `n`th to arrive (from 1). */
export type Answering = (request: BackendRequest, n: number) => Answer | Promise<Answer>;

export interface BackendOptions {
  /** A free one unless given. */
  readonly port?: number;
  /** 127.0.0.1 unless given. */
  readonly hostname?: string;
  /** Speaks TLS with this certificate and key (PEM). */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** 200 to everything unless given. */
  readonly answer?: Answering;
}

/** Starts a stub backend; the caller calls `down()` at the end. */
export async function startBackend(options: BackendOptions = {}): Promise<Backend> {
  const backend = new Backend(options);
  await backend.up();
  return backend;
}

/** Runs `fn` with a stub backend and closes it afterwards, however `fn` ends. */
export async function withBackend<T>(
  fn: (backend: Backend) => T | Promise<T>,
  options: BackendOptions = {},
): Promise<T> {
  const backend = await startBackend(options);
  try {
    return await fn(backend);
  } finally {
    await backend.down();
  }
}

interface Waiter {
  readonly count: number;
  readonly resolve: () => void;
}

/** A running stub; see {@link startBackend}. */
export class Backend {
  /** Every request that arrived whole, in the order of arrival. */
  readonly requests: BackendRequest[] = [];
  /** What arrived and was no HTTP request; a test may assert that it stays empty. */
  readonly malformed: string[] = [];
  /** May be replaced at any time. */
  answer: Answering;
  /** The largest number so far of requests that had arrived and were not answered. */
  peakInFlight = 0;

  readonly #options: BackendOptions;
  readonly #hostname: string;
  readonly port: number;
  #server: net.Server | undefined;
  readonly #sockets = new Set<net.Socket>();
  #waiters: Waiter[] = [];
  #connections = 0;
  #inFlight = 0;

  constructor(options: BackendOptions) {
    this.#options = options;
    this.#hostname = options.hostname ?? "127.0.0.1";
    this.port = options.port ?? freePort();
    this.answer = options.answer ?? ((): Answer => ({ status: 200 }));
  }

  /** Base URL without a trailing slash. */
  get url(): string {
    const host = this.#hostname.includes(":") ? `[${this.#hostname}]` : this.#hostname;
    return `${this.#options.tls ? "https" : "http"}://${host}:${this.port}`;
  }

  /** Connections that are open now. */
  get openConnections(): number {
    return this.#sockets.size;
  }

  /** Listens (again), on the same port as before. */
  async up(): Promise<void> {
    const serve = (socket: net.Socket): void => this.#serve(socket);
    const server = this.#options.tls
      ? tls.createServer(this.#options.tls, serve)
      : net.createServer({ noDelay: true }, serve);
    this.#server = server;
    // A client that breaks off a TLS handshake is what some tests are about.
    server.on("tlsClientError", () => {});
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, this.#hostname, resolve);
    });
  }

  /** Resets every connection and refuses new ones until `up()`. */
  async down(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    const closed = new Promise((resolve) => server ? server.close(resolve) : resolve(undefined));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  /**
   * Settles as soon as `count` requests have arrived since the start.
   *
   * @throws when they have not within so many milliseconds ({@link PATIENCE_MS} unless given)
   */
  async waitFor(count: number, { within = PATIENCE_MS } = {}): Promise<void> {
    if (this.requests.length >= count) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      const came = this.requests.length;
      reject(new Error(`${came} of ${count} requests reached the backend within ${within} ms`));
    }, within);
    this.#waiters.push({ count, resolve });
    await promise.finally(() => clearTimeout(timer));
  }

  /** The largest number of requests that arrived in any window of `windowMs`. */
  busiestWindow(windowMs: number): number {
    return busiestWindow(this.requests.map(({ at }) => at), windowMs);
  }

  /** Requests in each window of `windowMs`, one after the other from the first arrival. */
  perFixedWindow(windowMs: number): number[] {
    return perFixedWindow(this.requests.map(({ at }) => at), windowMs);
  }

  #serve(socket: net.Socket): void {
    const connectionId = ++this.#connections;
    const reader = new RequestReader();
    // One after the other, as HTTP/1.1 wants it also for a client that does not wait its turn.
    let turn = Promise.resolve(false);
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("data", (bytes) => {
      for (const read of this.#read(reader, bytes, socket)) {
        const request = this.#record(read, connectionId);
        const n = this.requests.length;
        turn = turn.then((resetNext) => this.#exchange(socket, request, n, resetNext));
      }
    });
  }

  #read(reader: RequestReader, bytes: Uint8Array, socket: net.Socket): ReadRequest[] {
    try {
      return reader.push(bytes);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      this.malformed.push(error.message);
      socket.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
      return [];
    }
  }

  #record(read: ReadRequest, connectionId: number): BackendRequest {
    const request = { ...read, at: performance.now(), wallAt: Date.now(), connectionId };
    this.requests.push(request);
    this.#inFlight++;
    this.peakInFlight = Math.max(this.peakInFlight, this.#inFlight);
    for (const waiter of this.#waiters) {
      if (waiter.count <= this.requests.length) waiter.resolve();
    }
    this.#waiters = this.#waiters.filter(({ count }) => count > this.requests.length);
    return request;
  }

  /** Answers one request; settles with whether the next one on the connection is to be reset. */
  async #exchange(
    socket: net.Socket,
    request: BackendRequest,
    n: number,
    reset: boolean,
  ): Promise<boolean> {
    const answer: Answer = reset ? { reset } : await this.answer(request, n);
    if (answer.delayMs !== undefined) await closed(socket, answer.delayMs);
    const stays = !socket.destroyed && await writeAnswer(socket, answer);
    if (!stays) await closed(socket);
    this.#inFlight--;
    return "status" in answer && answer.afterwards === "resetNext";
  }
}

/** Settles when the connection is gone, or after `ms` milliseconds when that is sooner. */
function closed(socket: net.Socket, ms?: number): Promise<void> {
  if (socket.destroyed) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => resolve();
  const timer = ms === undefined ? undefined : setTimeout(done, ms);
  socket.once("close", done);
  return promise.finally(() => {
    clearTimeout(timer);
    socket.off("close", done);
  });
}
