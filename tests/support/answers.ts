/**
 * The ways in which the stub backend answers, good and bad, and how each is put on the wire.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";

/** An answer as a well-behaved server gives it, and what becomes of the connection after it. */
export interface ProperAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /**
   * `keep` (the default): the connection stays open for the next request. `close`: it is closed
   * at once, without a word in the headers. `resetNext`: it stays open, and the next request on it
   * is read whole and answered with a reset.
   */
  readonly afterwards?: "keep" | "close" | "resetNext";
}

/** What the stub does with a request that it has read whole. */
export type Answer =
  & (
    | ProperAnswer
    /** Never answers; the connection stays open. */
    | { readonly hang: true }
    /** Resets the connection without an answer. */
    | { readonly reset: true }
    /** Closes the connection in good order without an answer. */
    | { readonly close: true }
    /** A 200 head that promises a body, and then nothing. */
    | { readonly headersThenSilence: true }
    /** A 200 whose body is sent as fast as the client reads it and never ends. */
    | { readonly endlessBody: true }
    /** A 200 with a body of so many bytes, made while it is sent. */
    | { readonly bodyOfBytes: number }
    /** A status line and half a header, and then the connection is closed. */
    | { readonly halfAnswer: true }
    /** These bytes as they are; `thenClose` ends the connection after them. */
    | { readonly raw: string | Uint8Array; readonly thenClose?: boolean }
  )
  & {
    /** Milliseconds between the request's arrival and the answer. */
    readonly delayMs?: number;
  };

const FILLING = Buffer.alloc(64 * 1024, "x");

/**
 * Puts `answer` on the wire. Settles when all of it is handed over or the connection is gone, with
 * whether the connection may serve another request.
 */
export async function writeAnswer(socket: Socket, answer: Answer): Promise<boolean> {
  if ("status" in answer) {
    const stays = answer.afterwards !== "close";
    socket[stays ? "write" : "end"](properBytes(answer));
    return stays;
  }
  if ("raw" in answer) {
    socket[answer.thenClose ? "end" : "write"](answer.raw);
    return !answer.thenClose;
  }
  if ("bodyOfBytes" in answer) {
    socket.write(head(200, { "content-length": String(answer.bodyOfBytes) }));
    await writeFilling(socket, answer.bodyOfBytes);
    return !socket.destroyed;
  }
  if ("endlessBody" in answer) {
    socket.write(head(200, {}));
    await writeFilling(socket, Infinity);
  } else if ("headersThenSilence" in answer) socket.write(head(200, { "content-length": "10" }));
  else if ("halfAnswer" in answer) socket.end("HTTP/1.1 200 OK\r\ncontent-le");
  else if ("close" in answer) socket.end();
  else if ("reset" in answer) socket.resetAndDestroy();
  return false;
}

function properBytes({ status, headers = {}, body = "" }: ProperAnswer): Buffer {
  const content = Buffer.from(body);
  const bodyless = status < 200 || status === 204 || status === 304;
  const length = bodyless ? {} : { "content-length": String(content.length) };
  const start = Buffer.from(head(status, { ...length, ...headers }), "latin1");
  return bodyless || content.length === 0 ? start : Buffer.concat([start, content]);
}

function head(status: number, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}\r\n${lines.join("")}\r\n`;
}

/** Sends so many bytes, waiting whenever the client does not keep up, so that memory stays flat. */
async function writeFilling(socket: Socket, bytes: number): Promise<void> {
  for (let left = bytes; left > 0 && !socket.destroyed; left -= FILLING.length) {
    const piece = left < FILLING.length ? FILLING.subarray(0, left) : FILLING;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        socket.off("close", done);
        resolve();
      };
      socket.once("close", done);
      socket.write(piece, done);
    });
  }
}
