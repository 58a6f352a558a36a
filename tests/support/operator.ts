/**
 * An operator of the relay: a client of its other listener.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type ClientAnswer, TaskClient } from "./client.ts";

/** A line of the list of failed tasks. */
export interface ListedTask {
  readonly id: string;
  readonly reason: string;
  readonly lastStatus: number | null;
  readonly lastError: string | null;
  readonly attempts: number;
  readonly enqueuedAt: string | null;
  readonly failedAt: string | null;
  readonly redriven: number;
  readonly bytes: number;
}

/** A page of the list. */
export interface ListedPage {
  readonly total: number;
  readonly tasks: readonly ListedTask[];
  readonly next: string | null;
}

/** Asks the operators' listener; to be closed. */
export class Operator {
  readonly #client: TaskClient;

  /** @param baseUrl where operators are answered; asked for each request */
  constructor(baseUrl: () => string) {
    this.#client = new TaskClient(baseUrl);
  }

  get(path: string): Promise<ClientAnswer> {
    return this.#client.get(path);
  }

  delete(path: string): Promise<ClientAnswer> {
    return this.#client.delete(path);
  }

  post(path: string, body: unknown): Promise<ClientAnswer> {
    return this.#client.post(JSON.stringify(body), {}, path);
  }

  /** Pauses or resumes. @throws when the answer is not 200 */
  async setPaused(paused: boolean): Promise<void> {
    const { status, text } = await this.post(paused ? "/pause" : "/resume", {});
    assert.equal(status, 200, text);
    assert.deepEqual(JSON.parse(text), { paused });
  }

  /** @throws when the answer is not a page */
  async list(query = ""): Promise<ListedPage> {
    const { status, text } = await this.get(`/failed${query}`);
    assert.equal(status, 200, text);
    return JSON.parse(text);
  }

  /** @throws when the answer is not 200 */
  async redrive(body: unknown): Promise<{ readonly matched: number; readonly redriven: number }> {
    const { status, text } = await this.post("/failed/redrive", body);
    assert.equal(status, 200, text);
    return JSON.parse(text);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

/** Runs `fn` with an operator. */
export async function withOperator(
  relay: { readonly opsUrl: string },
  fn: (operator: Operator) => Promise<void>,
): Promise<void> {
  const operator = new Operator(() => relay.opsUrl);
  try {
    await fn(operator);
  } finally {
    await operator.close();
  }
}
