/**
 * What the backend was asked and what it answered, and what must hold of that with a ledger: nobody
 * is asked again for what was done, and a repeat is known by its key.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Answer, Backend, BackendRequest } from "./backend.ts";

/** A request and its answer. */
export interface Exchange {
  readonly id: string;
  readonly key: string;
  readonly attempt: number;
  /** When the request had arrived and when it was answered, monotonic milliseconds. */
  readonly askedAt: number;
  readonly answeredAt: number;
  readonly status: number;
}

/** Keeps all exchanges of `backend`, whose answers are `statusOf` from now on. */
export function keepExchanges(
  backend: Backend,
  statusOf: (request: Pick<Exchange, "id" | "key" | "attempt">) => number,
  onAnswer: (exchange: Exchange) => void = () => {},
): readonly Exchange[] {
  const exchanges: Exchange[] = [];
  backend.answer = (request): Answer => {
    const about = aboutOf(request);
    const status = statusOf(about);
    const answeredAt = performance.now();
    const exchange = { ...about, askedAt: request.at, answeredAt, status };
    exchanges.push(exchange);
    onAnswer(exchange);
    return { status };
  };
  return exchanges;
}

/** A request for a task that had been done, and the exchange in which it was. */
export interface Repeat {
  readonly done: Exchange;
  readonly again: Exchange;
}

/** Every request that began after the same task had been answered 2xx. */
export function repeatsIn(exchanges: readonly Exchange[]): Repeat[] {
  const done = new Map<string, Exchange>();
  const repeats: Repeat[] = [];
  for (const exchange of exchanges) {
    const before = done.get(exchange.id);
    if (before) repeats.push({ done: before, again: exchange });
    if (exchange.status < 300) done.set(exchange.id, exchange);
  }
  return repeats;
}

/** Asserts that each key came with one id and each id with one key, as `accepted` (key → id) says. */
export function assertOneKeyOneTask(
  exchanges: readonly Exchange[],
  accepted: ReadonlyMap<string, string>,
): void {
  for (const { id, key } of exchanges) {
    assert.equal(id, accepted.get(key), `the backend was asked for another task under ${key}`);
  }
}

function aboutOf({ headers }: BackendRequest): Pick<Exchange, "id" | "key" | "attempt"> {
  return {
    id: String(headers["task-id"]),
    key: String(headers["idempotency-key"]),
    attempt: Number(headers["task-attempt"]),
  };
}
