/**
 * One AMQP connection, and the loop that keeps one open.
 *
 * amqplib's own recovery does not survive a socket that dies while the first channels are set up,
 * so the loop is ours: open, serve until it is lost, wait a little, open again. Listeners are
 * attached before anything else is awaited, and everything that could wait for a vanished peer has
 * a deadline.
 *
 * @module
 */

import type { Socket } from "node:net";
import { getLogger } from "@logtape/logtape";
import { connect } from "amqplib";
import type { ChannelModel } from "amqplib";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import { explainConnect } from "./connect_error.ts";

const log = getLogger(["relay", "broker"]);

/** For the whole opening of a connection, and for the closing handshake, milliseconds. */
const OPEN_DEADLINE_MS = 10_000;
const CLOSE_DEADLINE_MS = 2_000;

/** A silent peer is noticed after two of these, seconds. */
const HEARTBEAT_SEC = 5;

/** Waits between tries to connect: doubling, with full jitter, milliseconds. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 3_000;

/** An open connection. */
export interface Link {
  readonly model: ChannelModel;
  /** Aborts when the connection is gone, for whatever reason. */
  readonly lost: AbortSignal;
  /** Why the broker doesn't take publishes now (a memory or disk alarm); undefined when it does. */
  readonly blocked: string | undefined;
  /** Ends the connection now, without a handshake. */
  destroy(reason: string): void;
  /** Ends the connection with a handshake, or without one if the peer doesn't answer in time. */
  close(): Promise<void>;
}

/**
 * Opens one connection.
 *
 * @param name shown in the broker's list of connections.
 * @throws {Error} when it can't be opened within 10 s, or `signal` aborts first.
 */
export async function openLink(
  rabbit: Config["rabbit"],
  name: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<Link> {
  const opening = connect({
    protocol: rabbit.tls ? "amqps" : "amqp",
    hostname: rabbit.host,
    port: rabbit.port,
    username: rabbit.user,
    password: rabbit.password,
    vhost: encodeURIComponent(rabbit.vhost), // amqplib decodes it, even here
    heartbeat: HEARTBEAT_SEC,
  }, {
    // Without it the confirm of a large message waits for the peer's delayed TCP acknowledgement.
    noDelay: true,
    timeout: OPEN_DEADLINE_MS,
    clientProperties: { connection_name: name },
    rejectUnauthorized: true, // or NODE_TLS_REJECT_UNAUTHORIZED=0 would turn the check off
    ...(rabbit.tls?.ca !== undefined && { ca: rabbit.tls.ca }),
  });
  const link = opening.then(
    (model) => new OpenLink(model),
    async (error: Error): Promise<never> => {
      throw await explainConnect(error, rabbit);
    },
  );
  // Too late to be of use, it must not stay open.
  link.then((late) => signal.aborted && late.destroy("not needed any more"), () => {});
  return await orAbort(link, signal);
}

class OpenLink implements Link {
  readonly model: ChannelModel;
  readonly #lost = new AbortController();
  #blocked: string | undefined;

  constructor(model: ChannelModel) {
    this.model = model;
    // A dropped connection may give `close` without `error`, and `error` without `close`.
    model.on("error", (error) => this.#lose(error.message));
    model.on("close", () => this.#lose("closed by the broker"));
    model.on("blocked", (reason) => this.#blocked = reason);
    model.on("unblocked", () => this.#blocked = undefined);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  get blocked(): string | undefined {
    return this.#blocked;
  }

  destroy(reason: string): void {
    this.#lose(reason);
    // With an error, for amqplib hears of it only then, and stops its heartbeat.
    socketOf(this.model).destroy(new Error(reason));
  }

  async close(): Promise<void> {
    if (this.lost.aborted) return this.destroy("closed");
    // `close()` of amqplib never settles when the peer has vanished.
    const late = AbortSignal.timeout(CLOSE_DEADLINE_MS);
    await orAbort(this.model.close(), late).catch(() => {});
    this.destroy("closed");
  }

  #lose(reason: string): void {
    if (!this.lost.aborted) this.#lost.abort(new Error(reason));
  }
}

/** The socket that amqplib doesn't offer but must be destroyed when the peer is silent. */
function socketOf(model: ChannelModel): Pick<Socket, "destroy"> {
  const { connection } = model as unknown as { connection: { stream: Socket } };
  return connection.stream;
}

/** What keeps a connection open. */
export interface LinkKeeper {
  /** The connection that is open and set up now. */
  readonly link: Link | undefined;
  /** Ends the loop and closes the connection; bounded. */
  close(): Promise<void>;
}

/** What {@link keepLink} is given. */
export interface LinkOptions {
  readonly rabbit: Config["rabbit"];
  readonly name: string;
  readonly clock: Clock;
  /** Sets the connection up. If it throws, the connection is closed and opened again. */
  readonly setUp: (link: Link) => Promise<void>;
  /** Called when a connection was set up, and when it was lost. */
  readonly onChange: (open: boolean) => void;
}

/** Keeps one connection open until it is told to close. */
export function keepLink(options: LinkOptions): LinkKeeper {
  const stopping = new AbortController();
  let current: Link | undefined;
  const loop = keepOpen(options, stopping.signal, (link) => {
    current = link;
    options.onChange(link !== undefined);
  });
  return {
    get link() {
      return current;
    },
    async close(): Promise<void> {
      stopping.abort();
      await loop;
    },
  };
}

async function keepOpen(
  options: LinkOptions,
  stopping: AbortSignal,
  setCurrent: (link: Link | undefined) => void,
): Promise<void> {
  let failures = 0;
  while (!stopping.aborted) {
    const link = await openAndSetUp(options, stopping);
    if (link !== undefined) {
      failures = 0;
      log.info("broker connected", { connection: options.name });
      setCurrent(link);
      await eitherAborts(link.lost, stopping);
      setCurrent(undefined);
      if (link.lost.aborted) log.warning("broker connection lost", describe(options, link));
      await link.close();
    }
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures++);
    await options.clock.sleep(pause * (0.5 + Math.random() / 2), stopping);
  }
}

async function openAndSetUp(
  options: LinkOptions,
  stopping: AbortSignal,
): Promise<Link | undefined> {
  let link: Link | undefined;
  try {
    const opened = link = await openLink(options.rabbit, options.name, stopping);
    await orAbort(options.setUp(opened), AbortSignal.any([opened.lost, stopping]));
    return opened;
  } catch (error) {
    await link?.close();
    if (!stopping.aborted) {
      log.warning("broker connection failed", {
        connection: options.name,
        host: options.rabbit.host,
        port: options.rabbit.port,
        error: messageOf(error),
      });
    }
    return undefined;
  }
}

function describe(options: LinkOptions, link: Link): Record<string, unknown> {
  return { connection: options.name, error: messageOf(link.lost.reason) };
}

/** Waits until one of the signals aborts. */
export function eitherAborts(...signals: AbortSignal[]): Promise<void> {
  const any = AbortSignal.any(signals);
  return new Promise((resolve) => {
    if (any.aborted) resolve();
    else any.addEventListener("abort", () => resolve(), { once: true });
  });
}

/**
 * The promise's result, unless `signal` aborts first.
 *
 * @throws the signal's reason, or what the promise rejects with.
 */
export function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
