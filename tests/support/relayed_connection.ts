/**
 * One connection through the TCP relay: the client's socket, ours to the target, and the bytes
 * between them, which pass only as the relay's faults allow.
 *
 * Keeps true: where a direction is cut, the receiver gets everything that was forwarded before
 * (its end is closed in good order), and the sender is reset and hears nothing more.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import net from "node:net";
import { type Frame, FrameSplitter } from "./amqp_frames.ts";

/** Which way bytes travel: from the one who connected to the target, or back. */
export type Direction = "toServer" | "toClient";

/** A frame on its way, before it is forwarded. */
export interface PassingFrame extends Frame {
  readonly direction: Direction;
  /** Number of the connection, from 1 in the order of arrival. */
  readonly connectionId: number;
}

/** What becomes of a frame and of its connection. */
export type Verdict = "pass" | "cut-before" | "cut-after";

/**
 * Looks at each frame before it is forwarded; nothing returned means `pass`. While its promise is
 * pending, this direction of the connection waits.
 */
export type FrameHook = (frame: PassingFrame) => Verdict | void | Promise<Verdict | void>;

/** What the relay decides while bytes pass. */
export interface Faults {
  /** Settles when nothing keeps the bytes back; at once when nothing does. */
  untilHeard(gone: Promise<void>): Promise<void>;
  /** How many of the next `length` bytes pass before the connection is cut; all when undefined. */
  cutIn(connectionId: number, direction: Direction, length: number): number | undefined;
  /** Told when a cut that `cutIn` asked for has been made. */
  cutMade(): void;
  onFrame: FrameHook | undefined;
}

export class RelayedConnection {
  /** Settles when both sockets are closed. */
  readonly gone: Promise<void>;
  readonly #id: number;
  readonly #client: net.Socket;
  readonly #target = new net.Socket({ allowHalfOpen: true });
  readonly #faults: Faults;

  constructor(id: number, client: net.Socket, faults: Faults) {
    this.#id = id;
    this.#client = client;
    this.#faults = faults;
    const sockets = [client, this.#target];
    this.gone = Promise.all(sockets.map(closing)).then(() => {});
    for (const socket of sockets) {
      socket.setNoDelay(true);
      socket.on("error", () => this.reset());
    }
  }

  /** Connects to the target and forwards until both ends are closed. */
  async run(host: string, port: number, amqp: boolean): Promise<void> {
    await this.#faults.untilHeard(this.gone);
    if (!this.#client.destroyed) this.#target.connect(port, host);
    await Promise.all([
      this.#pump("toServer", this.#client, this.#target, amqp),
      this.#pump("toClient", this.#target, this.#client, amqp),
    ]);
  }

  /** Resets both ends. */
  reset(): void {
    this.#client.resetAndDestroy();
    // A socket that is not connected cannot be reset.
    if (this.#target.connecting || this.#target.pending) this.#target.destroy();
    else this.#target.resetAndDestroy();
  }

  /** Forwards one direction until it ends, is cut or breaks. */
  async #pump(
    direction: Direction,
    from: net.Socket,
    to: net.Socket,
    amqp: boolean,
  ): Promise<void> {
    const splitter = amqp ? new FrameSplitter() : undefined;
    try {
      for await (const chunk of from) {
        // After a cut in the other direction nobody is there to forward to, but this end is read
        // on, so that it closes in good order.
        if (to.destroyed) continue;
        if (await this.#forward(direction, chunk, to, splitter)) continue;
        to.end();
        from.resetAndDestroy();
        this.#faults.cutMade();
        return;
      }
      if (!to.destroyed) to.end();
    } catch (error) {
      if (!isBrokenConnection(error)) throw error;
      this.reset();
    }
  }

  /** Forwards `chunk` as far as it may go; false when the connection is to be cut there. */
  async #forward(
    direction: Direction,
    chunk: Uint8Array,
    to: net.Socket,
    splitter: FrameSplitter | undefined,
  ): Promise<boolean> {
    const allowed = this.#faults.cutIn(this.#id, direction, chunk.length);
    const bytes = chunk.subarray(0, allowed);
    const goesOn = splitter === undefined || allowed !== undefined
      ? await this.#write(to, [bytes])
      : await this.#forwardFrames(direction, splitter.push(bytes), to);
    return goesOn && allowed === undefined;
  }

  async #forwardFrames(
    direction: Direction,
    frames: readonly Frame[],
    to: net.Socket,
  ): Promise<boolean> {
    const ready: Uint8Array[] = [];
    for (const frame of frames) {
      let verdict = this.#faults.onFrame?.({ ...frame, direction, connectionId: this.#id });
      if (verdict instanceof Promise) {
        await this.#write(to, ready.splice(0));
        verdict = await verdict;
      }
      if (verdict !== "cut-before") ready.push(frame.bytes);
      if (verdict === "cut-before" || verdict === "cut-after") {
        await this.#write(to, ready);
        return false;
      }
    }
    return await this.#write(to, ready);
  }

  /** Settles, always with true, when the bytes are handed to the kernel or `to` is gone. */
  async #write(to: net.Socket, pieces: readonly Uint8Array[]): Promise<true> {
    await this.#faults.untilHeard(this.gone);
    if (pieces.length > 0 && !to.destroyed) {
      await new Promise<void>((resolve) => to.write(Buffer.concat(pieces), () => resolve()));
    }
    return true;
  }
}

function closing(socket: net.Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

/** Whether `error` comes from a socket and not from a fault in the relay or in a test's hook. */
function isBrokenConnection(error: unknown): boolean {
  return error instanceof Error && "code" in error;
}
