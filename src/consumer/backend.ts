/**
 * The backend client: one POST, one deadline, one answer, never an exception.
 *
 * undici and not `fetch`, because Deno's fetch sends a POST a second time when a reused connection
 * closes under it. Its `dispatch` and not `request`, because `onRequestStart` is the moment right
 * before the request is written to a connected socket: the moment that the limiter counts.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { Pool } from "undici";
import type { Dispatcher } from "undici";
import type { Clock } from "../clock.ts";
import type { Task } from "../task.ts";
import { newParentId } from "../trace_context.ts";
import { createConnector } from "./connector.ts";
import type { ConnectorOptions } from "./connector.ts";
import { classify, failureText } from "./failure.ts";
import type { Answer } from "./outcome.ts";
import { readRetryAfter } from "./retry_after.ts";
import type { AnswerHeaders } from "./retry_after.ts";
import { requestHeaders } from "./request_headers.ts";
import type { HeaderRules } from "./request_headers.ts";
import { createSigner } from "./signature.ts";

/** How much of an answer's body is read; what comes after it is dropped with the connection. */
const BODY_CAP_BYTES = 64 * 1024;

/** What the client is told of the backend. */
export interface BackendOptions extends ConnectorOptions, Omit<HeaderRules, "sign"> {
  /** For the whole exchange: connecting, the request, headers and body of the answer. Milliseconds. */
  readonly timeoutMs: number;
  /** Connections at most; requests beyond wait for one. */
  readonly connections: number;
  /** A longer Retry-After is cut to this, milliseconds. */
  readonly retryAfterMaxMs: number;
  /** Absent: requests are not signed. */
  readonly signingSecrets?: readonly Uint8Array[];
  readonly clock: Pick<Clock, "now">;
}

/** Sends tasks to the backend. */
export class Backend {
  readonly #options: BackendOptions;
  readonly #headerRules: HeaderRules;
  readonly #pool: Pool;
  readonly #path: string;

  constructor(options: BackendOptions) {
    this.#options = options;
    const { signingSecrets } = options;
    this.#headerRules = {
      ...options,
      ...(signingSecrets !== undefined && { sign: createSigner(signingSecrets) }),
    };
    this.#path = options.url.pathname + options.url.search;
    this.#pool = new Pool(options.url.origin, {
      connections: options.connections,
      connect: createConnector(options),
      // The one deadline is ours.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * Makes one attempt.
   *
   * @param begin called right before the request is written, not at all if it never is; false:
   *   it is not to be written.
   * @param signal aborts the exchange, which then counts as `reset`.
   * @returns the answer; undefined when `begin` said no.
   */
  send(task: Task, begin: () => boolean, signal: AbortSignal): Promise<Answer | undefined> {
    return new Promise((resolve) => {
      const settle = (answer?: Answer): void => {
        clearTimeout(deadline);
        signal.removeEventListener("abort", abandon);
        resolve(answer);
      };
      const { clock, retryAfterMaxMs: longestMs } = this.#options;
      const exchange = new Exchange({ begin, settle, clock, longestMs });
      const deadline = setTimeout(
        () =>
          exchange.abandon("timeout", `no complete answer within ${this.#options.timeoutMs} ms`),
        this.#options.timeoutMs,
      );
      const abandon = (): void => exchange.abandon("reset", "ended by the relay's own shutdown");
      if (signal.aborted) return abandon();
      signal.addEventListener("abort", abandon);
      this.#pool.dispatch(this.#request(task), exchange);
    });
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #request(task: Task): Dispatcher.DispatchOptions {
    return {
      method: "POST",
      path: this.#path,
      headers: requestHeaders(task, this.#headerRules, {
        now: this.#options.clock.now(),
        parentId: newParentId(),
      }),
      body: Buffer.from(task.body.buffer, task.body.byteOffset, task.body.byteLength),
    };
  }
}

interface ExchangeOptions {
  readonly begin: () => boolean;
  readonly settle: (answer?: Answer) => void;
  readonly clock: Pick<Clock, "now">;
  /** Of a Retry-After, milliseconds. */
  readonly longestMs: number;
}

/** One request on its way: collects the answer and settles once. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #options: ExchangeOptions;
  #settled = false;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #retryAfterMs: number | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#settled) {
      return controller.abort(new Error("the deadline passed before a connection"));
    }
    this.#controller = controller;
    if (!this.#options.begin()) this.#finish();
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: AnswerHeaders,
  ): void {
    this.#status = status; // 1xx too; the last one counts
    const { clock, longestMs } = this.#options;
    this.#retryAfterMs = readRetryAfter(status, headers, { now: clock.now(), longestMs });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = BODY_CAP_BYTES - this.#bytes;
    this.#chunks.push(chunk.subarray(0, room));
    this.#bytes += chunk.length;
    if (this.#bytes > BODY_CAP_BYTES) this.#answered();
  }

  onResponseEnd(): void {
    this.#answered();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const outcome = classify(error, this.#status >= 200);
    this.#finish({ kind: "failure", outcome, error: failureText(error) });
  }

  abandon(outcome: "timeout" | "reset", error: string): void {
    this.#finish({ kind: "failure", outcome, error });
  }

  #answered(): void {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    const retryAfterMs = this.#retryAfterMs;
    const asked = retryAfterMs === undefined ? {} : { retryAfterMs };
    this.#finish({ kind: "status", status: this.#status, text, ...asked });
  }

  #finish(answer?: Answer): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#chunks = [];
    this.#options.settle(answer);
    // Does nothing to an exchange that is over, so that its connection is used again.
    this.#controller?.abort(new Error("answered"));
  }
}
