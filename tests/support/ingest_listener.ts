/**
 * Ingest on a socket of its own with a fake publisher, and clients that write raw bytes to it.
 *
 * HTTP libraries do not send half a body, broken framing or a NUL; these clients do.
 *
 * @module
 */
import { LIMITS } from "./ingest_world.ts";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createIngest, type IngestOptions } from "../../src/ingest/app.ts";
import type { PublishResult } from "../../src/ingest/ports.ts";
import type { HttpServer } from "../../src/http/server.ts";
import { startIngest } from "../../src/ingest/server.ts";
import type { Task } from "../../src/task.ts";

/** MAX_TASK_BYTES of the listener, as it is by default. */
export const LIMIT = 262_144;
const CONFIRMED = Promise.resolve({ kind: "confirmed" } as const);

/** An answer as it came. */
export interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** One connection of a client that writes what it likes. */
export class RawClient implements Disposable {
  readonly #conn: Deno.Conn;
  #unread = Buffer.alloc(0);

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  async send(...parts: (string | Uint8Array)[]): Promise<void> {
    for (const part of parts) {
      let rest = typeof part === "string" ? Buffer.from(part, "latin1") : part;
      while (rest.length > 0) rest = rest.subarray(await this.#conn.write(rest));
    }
  }

  /** The next answer on this connection; all of them have a Content-Length. */
  async answer(): Promise<Answer> {
    for (;;) {
      const end = this.#unread.indexOf("\r\n\r\n");
      const head = this.#unread.toString("latin1", 0, Math.max(end, 0));
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
      if (end !== -1 && this.#unread.length >= end + 4 + length) {
        const body = this.#unread.toString("utf8", end + 4, end + 4 + length);
        this.#unread = this.#unread.subarray(end + 4 + length);
        return { status: Number(head.slice(9, 12)), head, body };
      }
      assert.ok(await this.#read(), `the connection ended early: ${this.#unread}`);
    }
  }

  /** Resolves when the server has closed the connection, with what came before that. */
  async ended(): Promise<string> {
    while (await this.#read());
    return this.#unread.toString();
  }

  async #read(): Promise<boolean> {
    const buffer = new Uint8Array(65_536);
    const size = await this.#conn.read(buffer).catch(() => null);
    if (size === null) return false;
    this.#unread = Buffer.concat([this.#unread, buffer.subarray(0, size)]);
    return true;
  }

  [Symbol.dispose](): void {
    this.#conn.close();
  }
}

/** Ingest on a free port of the loopback. */
export interface Listener {
  readonly server: HttpServer;
  readonly published: readonly Task[];
  connect(): Promise<RawClient>;
}

/** Runs `body` against a listener on a free port of this machine's loopback. */
export async function withListener(
  options: Partial<IngestOptions>,
  body: (listener: Listener) => Promise<void>,
): Promise<void> {
  const published: Task[] = [];
  const publish = (task: Task): Promise<PublishResult> => {
    published.push(task);
    return CONFIRMED;
  };
  const health = (): { ready: true; parts: Record<string, string> } => ({ ready: true, parts: {} });
  const limits = { ...LIMITS, maxTaskBytes: LIMIT };
  const ingest = createIngest({ publisher: { publish }, health, ...limits, ...options });
  const server = startIngest({ host: "127.0.0.1", port: 0, ingest });
  const connect = async (): Promise<RawClient> =>
    new RawClient(await Deno.connect({ hostname: server.host, port: server.port }));
  try {
    await body({ server, published, connect });
  } finally {
    await server.close(0);
  }
}

/** The head of a POST; `lines` come after Host and Content-Type. */
export function head(...lines: string[]): string {
  const all = ["POST /queue/tasks HTTP/1.1", "Host: relay", "Content-Type: application/json"];
  return [...all, ...lines, "", ""].join("\r\n");
}

/** A whole POST with a Content-Length, to be spread into `send`. */
export function sized(
  body: string | Uint8Array,
  ...lines: string[]
): [string, string | Uint8Array] {
  return [head(`Content-Length: ${body.length}`, ...lines), body];
}

/** Asserts that `answer` is a problem of `status`. */
export function assertProblem(answer: Answer, status: number): void {
  assert.equal(answer.status, status, answer.head);
  assert.match(answer.head, /^content-type: application\/problem\+json$/im);
  assert.equal(JSON.parse(answer.body).status, status);
}
