/**
 * Requests out of the bytes of one HTTP/1.1 connection, for the stub backend.
 *
 * Read by hand because the stub answers in ways that a server library forbids, and because tests
 * want to know what was on the wire: the head as it came, and when the first and the last byte of
 * each request arrived.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/** A request that has arrived whole. */
export interface ReadRequest {
  /** Monotonic milliseconds (`performance.now()`) when its first bytes arrived. */
  readonly beganAt: number;
  readonly method: string;
  /** The target as it was sent: path and query. */
  readonly url: string;
  /** Names in lower case; the values of a repeated name joined by ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /** Request line and headers as they were sent, without the empty line at the end. */
  readonly rawHead: string;
  readonly body: Uint8Array;
}

interface Head extends Omit<ReadRequest, "body"> {
  readonly chunked: boolean;
  readonly length: number;
}

/** Splits the bytes of one connection into requests. */
export class RequestReader {
  #pending: Buffer = Buffer.alloc(0);
  #beganAt = 0;
  #head: Head | undefined;

  /** Whether bytes of a request have come that is not complete yet. */
  get midRequest(): boolean {
    return this.#head !== undefined || this.#pending.length > 0;
  }

  /**
   * Takes the next bytes and returns the requests that they complete.
   *
   * @throws {TypeError} when the bytes are no HTTP/1.1 request
   */
  push(bytes: Uint8Array): ReadRequest[] {
    if (!this.midRequest) this.#beganAt = performance.now();
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    const complete: ReadRequest[] = [];
    for (let next = this.#take(); next !== undefined; next = this.#take()) {
      complete.push(next);
      this.#beganAt = performance.now();
    }
    return complete;
  }

  #take(): ReadRequest | undefined {
    this.#head ??= this.#takeHead();
    if (this.#head === undefined) return undefined;
    const body = this.#head.chunked
      ? takeChunkedBody(this.#pending)
      : takeSizedBody(this.#pending, this.#head.length);
    if (body === undefined) return undefined;
    const { beganAt, method, url, headers, rawHead } = this.#head;
    this.#head = undefined;
    this.#pending = this.#pending.subarray(body.end);
    return { beganAt, method, url, headers, rawHead, body: body.bytes };
  }

  #takeHead(): Head | undefined {
    const first = this.#pending[0];
    // A TLS hello would otherwise wait for ever for the end of its head.
    if (first !== undefined && !isCapital(first)) throw new TypeError("no HTTP at all");
    const end = this.#pending.indexOf("\r\n\r\n");
    if (end === -1) return undefined;
    const rawHead = this.#pending.toString("latin1", 0, end);
    this.#pending = this.#pending.subarray(end + 4);
    return { ...parseHead(rawHead), beganAt: this.#beganAt, rawHead };
  }
}

function isCapital(byte: number): boolean {
  return byte >= 0x41 && byte <= 0x5a;
}

function parseHead(rawHead: string): Omit<Head, "beganAt" | "rawHead"> {
  const [requestLine = "", ...lines] = rawHead.split("\r\n");
  const [, method, url] = /^([A-Z]+) (\S+) HTTP\/1\.[01]$/.exec(requestLine) ?? [];
  if (method === undefined || url === undefined) {
    throw new TypeError(`no HTTP/1.1 request line: ${JSON.stringify(requestLine)}`);
  }
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new TypeError(`no header line: ${JSON.stringify(line)}`);
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = headers[name];
    headers[name] = before === undefined ? value : `${before}, ${value}`;
  }
  const length = Number(headers["content-length"] ?? "0");
  if (!Number.isSafeInteger(length) || length < 0) {
    throw new TypeError(`no valid Content-Length: ${headers["content-length"]}`);
  }
  const chunked = headers["transfer-encoding"]?.toLowerCase() === "chunked";
  return { method, url, headers, chunked, length };
}

interface Body {
  readonly bytes: Uint8Array;
  /** Where the next request begins. */
  readonly end: number;
}

function takeSizedBody(pending: Buffer, length: number): Body | undefined {
  if (pending.length < length) return undefined;
  // A copy: a view would keep the socket's whole read buffer alive for each recorded request.
  return { bytes: new Uint8Array(pending.subarray(0, length)), end: length };
}

function takeChunkedBody(pending: Buffer): Body | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0;;) {
    const lineEnd = pending.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const sizeText = pending.toString("latin1", at, lineEnd);
    const size = Number.parseInt(sizeText, 16);
    if (!(size >= 0)) throw new TypeError(`no chunk size: ${JSON.stringify(sizeText)}`);
    const end = lineEnd + 2 + size + 2;
    // Trailers are not read: no client of the stub sends any.
    if (pending.length < end) return undefined;
    if (size === 0) return { bytes: new Uint8Array(Buffer.concat(chunks)), end };
    chunks.push(pending.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = end;
  }
}
