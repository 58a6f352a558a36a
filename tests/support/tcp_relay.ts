/**
 * A TCP relay of our own between the product and its broker or backend: the network that a test
 * can cut, silence and heal.
 *
 * With the option `amqp` it forwards whole frames only, so that a hook can cut exactly before or
 * after a frame, or hold the frame while it kills a process.
 *
 * @module
 */
import net from "node:net";
import tls from "node:tls";
import { freePort } from "./ports.ts";
import {
  type Direction,
  type Faults,
  type FrameHook,
  RelayedConnection,
} from "./relayed_connection.ts";

export type { Direction, FrameHook, PassingFrame, Verdict } from "./relayed_connection.ts";

export interface TcpRelayOptions {
  readonly targetHost: string;
  readonly targetPort: number;
  /** Forwards whole AMQP frames only and shows them to `onFrame`. */
  readonly amqp?: boolean;
  /** Speaks TLS with whoever connects, and plain TCP with the target; certificate and key in PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

/** Starts a relay on a free port of 127.0.0.1; the caller closes it. */
export async function startTcpRelay(options: TcpRelayOptions): Promise<TcpRelay> {
  const relay = new TcpRelay(options);
  await relay.accept();
  return relay;
}

/** Runs `fn` with a relay and closes it afterwards, however `fn` ends. */
export async function withTcpRelay<T>(
  options: TcpRelayOptions,
  fn: (relay: TcpRelay) => T | Promise<T>,
): Promise<T> {
  const relay = await startTcpRelay(options);
  try {
    return await fn(relay);
  } finally {
    await relay.close();
  }
}

/** A cut that waits for so many bytes. */
interface ByteCut {
  readonly direction: Direction;
  /** Bytes still to pass, by connection. */
  readonly left: Map<number, number>;
  readonly bytes: number;
}

/** A running relay; see {@link startTcpRelay}. */
export class TcpRelay {
  readonly hostname = "127.0.0.1";
  readonly port = freePort();
  /** Connections accepted since the start. */
  accepted = 0;

  readonly #options: TcpRelayOptions;
  readonly #open = new Set<RelayedConnection>();
  readonly #faults: Faults;
  #server: net.Server | undefined;
  #silence: PromiseWithResolvers<void> | undefined;
  #byteCut: ByteCut | undefined;
  #cuts: (() => void)[] = [];

  constructor(options: TcpRelayOptions) {
    this.#options = options;
    this.#faults = {
      onFrame: undefined,
      untilHeard: async (gone) => {
        while (this.#silence) {
          const ended = gone.then(() => true);
          if (await Promise.race([this.#silence.promise, ended])) return;
        }
      },
      cutIn: (id, direction, length) => this.#cutIn(id, direction, length),
      cutMade: () => this.#cuts.splice(0).forEach((tell) => tell()),
    };
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#open.size;
  }

  /** Looks at each frame; may be replaced at any time, and needs the option `amqp`. */
  set onFrame(hook: FrameHook | undefined) {
    this.#faults.onFrame = hook;
  }

  /** Resets every connection now; new ones are accepted. */
  cut(): void {
    for (const connection of this.#open) connection.reset();
  }

  /** Forwards nothing more and closes nothing; new connections are accepted and silent too. */
  blackhole(): void {
    this.#silence ??= Promise.withResolvers<void>();
  }

  /** Forwards again, beginning with what was held back. */
  heal(): void {
    this.#silence?.resolve();
    this.#silence = undefined;
  }

  /**
   * Cuts one connection, once: the first that has sent `bytes` bytes in `direction` from now on,
   * exactly after them. Settles when that has happened.
   */
  cutAfter(direction: Direction, bytes: number): Promise<void> {
    this.#byteCut = { direction, left: new Map(), bytes };
    return this.nextCut();
  }

  /** Settles at the next cut that `cutAfter` or the hook on frames makes. */
  nextCut(): Promise<void> {
    return new Promise((resolve) => this.#cuts.push(resolve));
  }

  /** Listens (again), on the same port as before. */
  async accept(): Promise<void> {
    const join = (client: net.Socket): Promise<void> => this.#join(client);
    // Not half-open with TLS: in Deno 2.9.6 a client that breaks off the handshake would then leave a
    // socket behind that keeps the server from closing.
    const server = this.#options.tls
      ? tls.createServer(this.#options.tls, join)
      : net.createServer({ allowHalfOpen: true }, join);
    // A client that breaks off the handshake is what some tests are about.
    server.on("tlsClientError", () => {});
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, this.hostname, resolve);
    });
  }

  /** Refuses new connections until `accept()`; those that are open stay. */
  refuse(): void {
    this.#server?.close();
    this.#server = undefined;
  }

  /** Ends the relay and every connection. */
  async close(): Promise<void> {
    const server = this.#server;
    const closed = new Promise((resolve) => server ? server.close(resolve) : resolve(undefined));
    this.cut();
    await Promise.all([closed, ...[...this.#open].map(({ gone }) => gone)]);
  }

  async #join(client: net.Socket): Promise<void> {
    const connection = new RelayedConnection(++this.accepted, client, this.#faults);
    this.#open.add(connection);
    const { targetHost, targetPort, amqp = false } = this.#options;
    await Promise.all([connection.run(targetHost, targetPort, amqp), connection.gone]);
    this.#open.delete(connection);
  }

  #cutIn(connectionId: number, direction: Direction, length: number): number | undefined {
    const cut = this.#byteCut;
    if (cut?.direction !== direction) return undefined;
    const left = cut.left.get(connectionId) ?? cut.bytes;
    if (length < left) {
      cut.left.set(connectionId, left - length);
      return undefined;
    }
    this.#byteCut = undefined;
    return left;
  }
}
