/**
 * The depths of the queues: asked for without a trace, on queues that may not be there, and of a
 * broker that may not answer.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { QueueStats, Stats } from "../../src/ops/stats.ts";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { valueIn } from "../support/metrics.ts";
import { type Operator, withOperator } from "../support/operator.ts";
import { withTcpRelay } from "../support/tcp_relay.ts";
import { withStage } from "./stage.ts";

/** No task is delivered, so that depths stay. */
const IDLE_CONSUMER = { RATE_LIMIT_MAX_REQUESTS: "1", RATE_LIMIT_WINDOW_SEC: "3600" };

async function statsOf(operator: Operator): Promise<Stats> {
  return JSON.parse((await operator.get("/stats")).text) as Stats;
}

/** The messages of each queue, by its name after the prefix; waits until they are so. */
async function assertDepths(
  operator: Operator,
  expected: Readonly<Record<string, number | null>>,
): Promise<readonly QueueStats[]> {
  return await eventually(async () => {
    const { queues, queuePrefix } = await statsOf(operator);
    const found = queues.map((
      { name, messages },
    ) => [name.slice(queuePrefix.length + 1), messages]);
    assert.deepEqual(Object.fromEntries(found), expected);
    return queues;
  });
}

Deno.test("delays that nobody needed are neither declared nor shown by being looked at; once needed they are", async () => {
  await withStage({ env: { OPS_PORT: "0", RETRY_LADDER: "1x0s,1x60s" } }, async (stage) => {
    const { relay, amqp, queues } = stage;
    await withOperator(relay, async (operator) => {
      await assertDepths(operator, { main: 0, "retry.60s": 0, failed: 0 });
      const found = Object.values(await amqp.depths(queues.delays));
      assert.deepEqual(found.filter((depth) => depth !== undefined), []);
      await relay.accept("{}", { "task-delay": "3000" });
      const [, , delay] = await assertDepths(operator, {
        main: 0,
        "retry.60s": 0,
        "delay.2048s": 1,
        failed: 0,
      });
      assert.deepEqual([delay?.role, delay?.delaySeconds], ["delay", 2048]);
    });
    await relay.stop();
    await relay.start();
    await withOperator(relay, async (operator) => {
      // Nobody has needed them since the start, and they are there.
      await assertDepths(operator, { main: 0, "retry.60s": 0, "delay.2048s": 1, failed: 0 });
    });
  });
});

Deno.test("a queue is deleted → null, the others go on; declared again, it has a depth again", async () => {
  await withStage({ env: { OPS_PORT: "0", ...IDLE_CONSUMER } }, async ({ relay, amqp, queues }) => {
    await withOperator(relay, async (operator) => {
      await assertDepths(operator, { main: 0, "retry.0.1s": 0, failed: 0 });
      // Until it consumes it looks for its queues, and declares what is missing.
      await eventually(async () => {
        assert.equal((await statsOf(operator)).replica.consumer, "consuming");
      });
      await amqp.deleteQueue(queues.failed);
      await assertDepths(operator, { main: 0, "retry.0.1s": 0, failed: null });
      await relay.kill();
      await relay.start();
    });
    await withOperator(
      relay,
      (operator) => assertDepths(operator, { main: 0, "retry.0.1s": 0, failed: 0 }).then(() => {}),
    );
  });
});

Deno.test("the broker falls silent or goes away → answered all the same, depths unknown; back again, known", async () => {
  const { host: targetHost, port: targetPort } = rabbitAddress();
  await withTcpRelay({ targetHost, targetPort, amqp: true }, async (network) => {
    const env = {
      OPS_PORT: "0",
      RABBIT_HOST: network.hostname,
      RABBIT_PORT: String(network.port),
      ...IDLE_CONSUMER,
    };
    await withStage({ env }, async ({ relay, queues }) => {
      await withOperator(relay, async (operator) => {
        await assertDepths(operator, { main: 0, "retry.0.1s": 0, failed: 0 });
        network.blackhole();
        const asked = performance.now();
        await assertDepths(operator, { main: null, "retry.0.1s": null, failed: null });
        assert.ok(performance.now() - asked < 8_000, "an operator waits for a silent broker");
        const { text } = await operator.get("/metrics");
        assert.equal(valueIn(text, `queue_messages{queue="${queues.main}"}`), undefined);
        assert.equal(valueIn(text, "drain_seconds"), undefined);
        network.heal();
        await assertDepths(operator, { main: 0, "retry.0.1s": 0, failed: 0 });
      });
    });
  });
});
