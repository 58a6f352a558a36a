/**
 * A limit so slow that the broker would time a held message out: what can't be sent for a long time
 * is not held but waits in the broker.
 *
 * @module
 */
import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import type { RelayProcess } from "../support/relay.ts";
import { type Stage, withStage } from "./stage.ts";

const ONE_AN_HOUR = {
  RATE_LIMIT_MAX_REQUESTS: "1",
  RATE_LIMIT_WINDOW_SEC: "3600",
  PREFETCH_COUNT: "20",
};

/** Where the tasks lie that nobody holds, when the consumer is suspended. */
async function readyTasks({ amqp, queues }: Stage): Promise<Record<string, number>> {
  const depths = await amqp.depths([...queues.all, ...queues.delays]);
  const filled = Object.entries(depths).filter(([, depth]) => depth !== undefined && depth > 0);
  return Object.fromEntries(filled.map(([queue, depth]) => [queue, depth ?? 0]));
}

async function suspended(relay: RelayProcess): Promise<void> {
  const line = await relay.waitForLog(({ message }) => message.startsWith("consumer suspended"));
  const ms = Number(line["resumes_in_ms"]);
  assert.ok(ms > 3_500_000 && ms <= 3_608_000, `resumes in ${ms} ms`);
}

/** Asserts that the second task is in the level for 2048 s, the rest in main, and nobody holds any. */
async function assertNoneHeld(stage: Stage): Promise<void> {
  const { relay, amqp, queues } = stage;
  await eventually(async () => {
    assert.deepEqual(await readyTasks(stage), {
      [queues.main]: 3,
      [`${relay.prefix}.delay.2048s`]: 1,
    });
    assert.equal(await amqp.consumers(queues.main), 0);
  });
}

Deno.test("case 27: a limit of 1 per hour with prefetch 20: one is delivered, none is held, none is lost, and a restart spends nothing", async () => {
  await withStage({ env: ONE_AN_HOUR }, async (stage) => {
    const { relay, backend, amqp, queues } = stage;
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push(await relay.accept(String(n)));
    await backend.waitFor(1);
    await suspended(relay);
    await assertNoneHeld(stage);
    assert.equal((await relay.get("/readyz")).status, 200);
    assert.equal((await relay.get("/readyz")).json["consumer"], "suspended");
    assert.equal(await relay.stop(), 0);
    const [first = "", ...rest] = ids;
    assert.deepEqual(backend.requests.map(({ headers }) => headers["task-id"]), [first]);

    await relay.start();
    await suspended(relay);
    await eventually(async () => {
      const tasks = await readyTasks(stage);
      assert.equal(Object.values(tasks).reduce((sum, depth) => sum + depth, 0), 4);
      assert.equal(await amqp.consumers(queues.main), 0);
    });
    assert.equal(await relay.stop(), 0);
    assert.equal(backend.requests.length, 1);
    const { messages } = await amqp.census(queues, ({ waiting, failed }) => {
      assert.deepEqual([...waiting.keys()].sort(), rest.toSorted());
      assert.equal(failed.size, 0);
    });
    assert.deepEqual(messages.map(({ headers }) => headers["relay-attempt"]), [1, 1, 1, 1]);
  });
});
