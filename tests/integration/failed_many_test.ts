/**
 * 100,000 failed tasks: the first page comes soon, and the relay's memory does not grow with the queue.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withOperator } from "../support/operator.ts";
import { withStage } from "./stage.ts";

const TASKS = 100_000;
const PORTION = 5_000;
const FIRST_PAGE_MS = 1_000;
/** Held as objects the messages would take more than 100 MB. */
const MOST_GROWTH_MB = 100;

async function residentMb(pid: number): Promise<number> {
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "rss=", "-p", String(pid)] })
    .output();
  return Number(new TextDecoder().decode(stdout)) / 1024;
}

Deno.test("100,000 failed tasks: the first page within a second; the last is found, in flat memory", async () => {
  await withStage({ env: { OPS_PORT: "0" } }, async ({ relay, amqp, queues }) => {
    const payload = JSON.stringify("x".repeat(300));
    for (let from = 0; from < TASKS; from += PORTION) {
      await Promise.all(Array.from({ length: PORTION }, (_, n) => {
        const messageId = `task-${from + n}`;
        return amqp.publishRaw(queues.failed, payload, { messageId, persistent: true });
      }));
    }
    await withOperator(relay, async (operator) => {
      const before = await residentMb(relay.pid);
      const began = performance.now();
      const { total, tasks, next } = await operator.list();
      const tookMs = performance.now() - began;
      assert.deepEqual([total, tasks.length, next], [TASKS, 100, "task-99"]);
      assert.ok(tookMs < FIRST_PAGE_MS, `the first page took ${tookMs} ms`);
      assert.equal((await operator.get(`/failed/task-${TASKS - 1}`)).status, 200);
      const { tasks: [first] } = await operator.list("?limit=1");
      assert.equal(first?.id, "task-0");
      const grown = await residentMb(relay.pid) - before;
      assert.ok(grown < MOST_GROWTH_MB, `the relay's memory grew by ${grown} MB`);
    });
  });
});
