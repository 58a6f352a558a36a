/**
 * The broker lives and refuses: a memory alarm that blocks publishers, and a channel that it closes
 * because of its own timeout.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { type Rabbit, startRabbit } from "../support/rabbitmq.ts";
import { publishesTask } from "../support/task_frames.ts";
import { PLAIN, type Scene, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

async function raiseAlarm(rabbit: Rabbit): Promise<void> {
  await rabbit.ctl("set_vm_memory_high_watermark", "0.00001");
}

async function clearAlarm(rabbit: Rabbit): Promise<void> {
  await rabbit.ctl("set_vm_memory_high_watermark", "0.4");
}

/** Posts until one is refused: the broker tells a connection that it is blocked when it publishes. */
async function refusesPosts({ relay, accepted }: Scene): Promise<void> {
  await eventually(async () => {
    const { status, headers, json } = await relay.post("1");
    if (status === 202) accepted.add(String(json["id"]));
    assert.equal(status, 503);
    assert.match(String(headers["retry-after"]), /^[1-9][0-9]*$/);
  }, { every: 200 });
}

Deno.test("a broker that lives and refuses", async (t) => {
  await using rabbit = await startRabbit();
  await t.step(
    "a memory alarm blocks publishers: posts are answered 503 with Retry-After, /readyz says why, what is queued is delivered and acknowledged, and a hop that can't be published is not lost",
    async () => {
      const env = { RETRY_LADDER: "1x0s,4x0.2s", PREFETCH_COUNT: "5", BACKEND_TIMEOUT: "60" };
      await withScene({ rabbit, env }, async (scene) => {
        const { relay, backend, names } = scene;
        const gate = Promise.withResolvers<void>();
        const doomed = new Set<string>();
        scene.answer = async ({ headers }): Promise<Answer> => {
          await gate.promise;
          const fails = doomed.has(String(headers["task-id"])) && headers["task-attempt"] === "1";
          return { status: fails ? 500 : 200 };
        };
        const ids = await scene.post(40);
        ids.slice(0, 2).forEach((id) => doomed.add(id));
        await backend.waitFor(5);
        await raiseAlarm(rabbit);
        await refusesPosts(scene);
        const readiness = await relay.get("/readyz");
        assert.equal(readiness.status, 503);
        assert.match(readiness.text, /blocked/);

        gate.resolve();
        await eventually(() => {
          const done = relay.logs.filter(({ disposition }) => disposition === "delivered");
          assert.ok(done.length >= 38, `${done.length} delivered while the alarm lasts`);
        });
        await withAmqp(rabbit, async (amqp) => {
          await eventually(async () => assert.equal(await amqp.depth(names.main), 0));
        });

        await clearAlarm(rabbit);
        await relay.ready();
        await scene.post(5);
        await untilAllDelivered(scene);
        await eventually(() =>
          doomed.forEach((id) => assert.equal(timesAsked(backend).get(id), 2))
        );
        assert.equal(await relay.stop(), 0);
        const { messages } = await scene.count();
        assert.equal(messages.length, 0);
      });
    },
  );
  await t.step(
    "a memory alarm while the relay is started again: what is queued is delivered all the same",
    async () => {
      await withScene({ rabbit, env: { RATE_LIMIT_WINDOW_SEC: "0.2" } }, async (scene) => {
        const { relay } = scene;
        scene.answer = (): Answer => ({ hang: true });
        await scene.post(20);
        await scene.backend.waitFor(1);
        await relay.kill();
        scene.answer = (): Answer => ({ status: 200 });
        await raiseAlarm(rabbit);
        try {
          await relay.start({ ready: false });
          await untilAllDelivered(scene);
          // Looks for a pause are blocked, and are no reason to connect again and again.
          const lost = relay.logs.filter(({ message }) => message === "broker connection lost");
          assert.deepEqual(lost, []);
        } finally {
          await clearAlarm(rabbit);
        }
      });
    },
  );
  await t.step(
    "SIGTERM while the broker blocks the next hop of a failed task: the process exits with 0, a little over its grace at most, and the task is not lost",
    async () => {
      const env = { RETRY_LADDER: "1x0s,4x0.2s", SHUTDOWN_GRACE_SEC: "1", BACKEND_TIMEOUT: "60" };
      await withScene({ rabbit, env }, async (scene) => {
        const { relay, backend, network } = scene;
        await scene.post(1);
        await untilAllDelivered(scene);
        const blocked = Promise.withResolvers<Answer>();
        scene.answer = (): Promise<Answer> => blocked.promise;
        await scene.post(3);
        await backend.waitFor(4);
        await raiseAlarm(rabbit);
        try {
          await refusesPosts(scene);
          const hop = Promise.withResolvers<void>();
          network.onFrame = (frame) => {
            if (publishesTask(frame)) hop.resolve();
          };
          blocked.resolve({ status: 500 });
          await hop.promise;
          const start = performance.now();
          assert.equal(await relay.stop(), 0);
          const took = performance.now() - start;
          assert.ok(took < 10_000, `took ${took.toFixed(0)} ms`);
        } finally {
          await clearAlarm(rabbit);
        }
        await scene.count();
      });
    },
  );
  await t.step(
    "the broker closes the consumer's channel (its consumer_timeout) while the connection lives: a new channel, consuming again, nothing lost",
    async () => {
      await rabbit.ctl("eval", "application:set_env(rabbit, consumer_timeout, 1000).");
      await rabbit.ctl("eval", "application:set_env(rabbit, channel_tick_interval, 500).");
      // With the ledger the copies would wait until the hanging requests are over.
      const env = { ...PLAIN, BACKEND_TIMEOUT: "60" };
      await withScene({ rabbit, env }, async (scene) => {
        const { relay, backend, names } = scene;
        scene.answer = (): Answer => ({ hang: true });
        await scene.post(5);
        await relay.waitForLog(({ message }) => message === "consuming channel failed");
        scene.answer = (): Answer => ({ status: 200 });
        await backend.waitFor(10);
        await scene.post(5);
        await untilAllDelivered(scene);
        const lost = relay.logs.filter(({ message }) => message === "broker connection lost");
        assert.deepEqual(lost, [], "the connection was not to be given up");
        await withAmqp(rabbit, async (amqp) => {
          assert.equal(await amqp.consumers(names.main), 1);
          await eventually(async () => assert.equal(await amqp.depth(names.main), 0));
        });
        await scene.count();
      });
    },
  );
});
