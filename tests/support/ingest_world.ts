/**
 * Ingest between a broker and a ledger that a test decides about, without sockets.
 *
 * @module
 */
import assert from "node:assert/strict";
import { createIngest, type Ingest, type IngestOptions } from "../../src/ingest/app.ts";
import type { PublishResult } from "../../src/ingest/ports.ts";
import { Ledger } from "../../src/ledger/ledger.ts";
import type { Task } from "../../src/task.ts";
import { MemoryStore } from "./memory_store.ts";

export const CONFIRMED: PublishResult = { kind: "confirmed" };
export const UNAVAILABLE: PublishResult = { kind: "unavailable", detail: "no connection" };
export const UNKNOWN: PublishResult = { kind: "unknown", detail: "no confirm within 5 s" };

/** Options of an ingest apart from its publisher and its health. */
export const LIMITS = {
  maxAttempts: 27,
  maxTaskBytes: 1_000,
  maxBatchTasks: 1_000,
  maxBatchBytes: 100_000,
  maxDelayMs: 604_800_000,
} as const;

/** An ingest and what is behind it. */
export interface IngestWorld {
  readonly ingest: Ingest;
  readonly ledger: Ledger;
  readonly store: MemoryStore;
  /** Every task that was handed over, whatever became of it. */
  readonly published: readonly Task[];
  /** What the broker does with a task from now on; at first it confirms. */
  broker: (task: Task) => PublishResult | Promise<PublishResult>;
  /** Posts a task, as JSON unless `headers` say otherwise. */
  post(body: BodyInit, headers?: Record<string, string>, path?: string): Promise<Answer>;
  ask(method: "GET" | "DELETE", path: string): Promise<Answer>;
}

/** An answer, read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Readonly<Record<string, unknown>>;
}

/** Runs `body` in a world of its own. */
export async function withIngest(
  options: Partial<IngestOptions>,
  body: (world: IngestWorld) => Promise<void>,
): Promise<void> {
  const published: Task[] = [];
  const store = new MemoryStore();
  const ledger = new Ledger(store);
  const publisher = {
    async publish(task: Task): Promise<PublishResult> {
      published.push(task);
      return await world.broker(task);
    },
  };
  const health = (): { ready: true; parts: Record<string, string> } => ({ ready: true, parts: {} });
  const ingest = createIngest({ publisher, ledger, health, ...LIMITS, ...options });
  const world: IngestWorld = {
    ingest,
    ledger,
    store,
    published,
    broker: () => CONFIRMED,
    async post(body, headers = {}, path = "/queue/tasks"): Promise<Answer> {
      const all = { "content-type": "application/json", ...headers };
      return await answerOf(ingest, path, { method: "POST", body, headers: all });
    },
    ask: (method, path) => answerOf(ingest, path, { method }),
  };
  try {
    await body(world);
  } finally {
    ingest.drain();
  }
}

/** Asserts that `answer` is a problem of `status` whose detail matches. */
export function assertProblem(answer: Answer, status: number, detail: RegExp): void {
  assert.equal(answer.status, status, JSON.stringify(answer.json));
  assert.equal(answer.headers.get("content-type"), "application/problem+json");
  assert.equal(answer.json["status"], status);
  assert.match(String(answer.json["detail"]), detail);
}

/** Asserts that `answer` says when to come again, in whole seconds. */
export function assertRetryAfter(answer: Answer): void {
  assert.match(answer.headers.get("retry-after") ?? "none", /^[1-9]\d*$/);
}

async function answerOf(ingest: Ingest, path: string, init: RequestInit): Promise<Answer> {
  const answer = await ingest.fetch(new Request(`http://relay.test${path}`, init));
  return { status: answer.status, headers: answer.headers, json: await answer.json() };
}
