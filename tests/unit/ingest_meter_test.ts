/**
 * What ingest counts: tasks that are enqueued, and tasks that are refused, by status.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { IngestOptions } from "../../src/ingest/app.ts";
import { type IngestWorld, UNAVAILABLE, withIngest } from "../support/ingest_world.ts";

const BATCH = "/queue/tasks/batch";

/** What was counted: `accepted`, and each status. */
type Counted = Record<string, number>;

async function counting(
  body: (world: IngestWorld, counted: Counted) => Promise<void>,
  options: Partial<IngestOptions> = {},
): Promise<void> {
  const counted: Counted = {};
  const add = (what: string, count: number): void =>
    void (counted[what] = (counted[what] ?? 0) + count);
  const meter = {
    accepted: (count: number): void => add("accepted", count),
    rejected: (status: number, count: number): void => add(String(status), count),
  };
  await withIngest({ meter, ...options }, (world) => body(world, counted));
}

Deno.test("a task → accepted; a repeat of its key → nothing, as nothing was enqueued", async () => {
  await counting(async (world, counted) => {
    await world.post("{}");
    await world.post("{}", { "idempotency-key": "a" });
    await world.post("{}", { "idempotency-key": "a" });
    assert.deepEqual(counted, { accepted: 2 });
    await world.post("[]", { "idempotency-key": "a" });
    assert.deepEqual(counted, { accepted: 2, 422: 1 });
  });
});

Deno.test("refused → by status: not JSON, another type, too large, no confirm, no token", async () => {
  await counting(async (world, counted) => {
    await world.post("{");
    await world.post("{}", { "content-type": "text/plain" });
    await world.post(`"${"x".repeat(1_000)}"`);
    world.broker = () => UNAVAILABLE;
    await world.post("{}");
    assert.deepEqual(counted, { 400: 1, 413: 1, 415: 1, 503: 1 });
  });
  await counting(async (world, counted) => {
    await world.post("{}");
    await world.ask("GET", "/queue/tasks/x");
    assert.deepEqual(counted, { 401: 1 }, "who asks for a status posts no task");
  }, { token: "secret" });
});

Deno.test("a batch → each of its tasks; refused as a whole before they are counted → one", async () => {
  await counting(async (world, counted) => {
    await world.post(`[1, 2, "${"x".repeat(1_000)}"]`, {}, BATCH);
    assert.deepEqual(counted, { accepted: 2, 413: 1 });
    await world.post("[1, 2", {}, BATCH);
    assert.deepEqual(counted, { accepted: 2, 413: 1, 400: 1 });
    world.broker = () => UNAVAILABLE;
    await world.post("[1, 2, 3]", {}, BATCH);
    assert.deepEqual(counted, { accepted: 2, 413: 1, 400: 1, 503: 3 });
  });
});

Deno.test("a batch whose keys came before → nothing is accepted once more", async () => {
  await counting(async (world, counted) => {
    await world.post("[1, 2]", { "idempotency-key": "a" }, BATCH);
    await world.post("[1, 2]", { "idempotency-key": "a" }, BATCH);
    assert.deepEqual(counted, { accepted: 2 });
  });
});
