/**
 * A client of the relay.
 *
 * With undici and not `fetch`: Deno's `fetch` sends a POST a second time when a kept-alive
 * connection closes under it, and a test that counts tasks while it kills relays must not do that.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Agent, request } from "undici";

/** An answer to a client. */
export interface ClientAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body when it is a JSON object, else empty. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly text: string;
}

type Headers = Readonly<Record<string, string>>;

/** Posts tasks over up to 64 connections, which it keeps; to be closed. */
export class TaskClient {
  readonly #baseUrl: () => string;
  readonly #agent = new Agent({ connections: 64 });

  /** @param baseUrl where ingest is, without a trailing slash; asked for each request */
  constructor(baseUrl: () => string) {
    this.#baseUrl = baseUrl;
  }

  /** Posts a task, as JSON unless `headers` say otherwise. Rejects when there is no answer. */
  async post(
    body: string | Uint8Array,
    headers: Headers = {},
    path: string = "/queue/tasks",
  ): Promise<ClientAnswer> {
    return await this.#ask("POST", path, { "content-type": "application/json" }, headers, body);
  }

  /** Posts a task and gives its id. @throws when the answer is not 202 */
  async accept(body: string | Uint8Array, headers: Headers = {}): Promise<string> {
    const { status, json, text } = await this.post(body, headers);
    assert.equal(status, 202, `the task was not accepted: ${text}`);
    return String(json["id"]);
  }

  /** Asks for `path`. Rejects when there is no answer. */
  async get(path: string, headers: Headers = {}): Promise<ClientAnswer> {
    return await this.#ask("GET", path, {}, headers, null);
  }

  /** Asks for `path` to be deleted. Rejects when there is no answer. */
  async delete(path: string, headers: Headers = {}): Promise<ClientAnswer> {
    return await this.#ask("DELETE", path, {}, headers, null);
  }

  /** Ends every connection. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #ask(
    method: "GET" | "POST" | "DELETE",
    path: string,
    defaults: Headers,
    given: Headers,
    body: string | Uint8Array | null,
  ): Promise<ClientAnswer> {
    const named = Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]);
    const headers: Headers = { ...defaults, ...Object.fromEntries(named) };
    const options = { method, headers, body, dispatcher: this.#agent };
    const answer = await request(`${this.#baseUrl()}${path}`, options);
    const text = await answer.body.text();
    const json = objectIn(String(answer.headers["content-type"]), text);
    return { status: answer.statusCode, headers: answer.headers, json, text };
  }
}

function objectIn(contentType: string, text: string): Readonly<Record<string, unknown>> {
  const value: unknown = /\bjson\b/.test(contentType) ? JSON.parse(text) : undefined;
  return typeof value === "object" && value !== null ? { ...value } : {};
}
