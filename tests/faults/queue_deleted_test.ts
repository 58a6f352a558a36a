/**
 * Somebody deletes a queue under the running relay: it is declared again, and told in the log.
 *
 * @module
 */
import assert from "node:assert/strict";
import amqplib from "amqplib";
import { withAmqp } from "../support/amqp.ts";
import type { Answer } from "../support/backend.ts";
import type { RabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { type Scene, taskId, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

async function deleteQueue(
  { host, port, user, password }: RabbitAddress,
  queue: string,
): Promise<void> {
  const connection = await amqplib.connect({ hostname: host, port, username: user, password });
  const channel = await connection.createChannel();
  await channel.deleteQueue(queue);
  await connection.close();
}

/** One task goes all its way, so that every connection of the relay is up. */
async function serves(scene: Scene): Promise<void> {
  await scene.post(1);
  await untilAllDelivered(scene);
}

Deno.test("tasks.main deleted under the running consumer: an error is logged, and tasks are taken and delivered again", async () => {
  await withScene({}, async (scene) => {
    const { relay, rabbit, names } = scene;
    await scene.post(10);
    await untilAllDelivered(scene);
    await deleteQueue(rabbit, names.main);
    await relay.waitForLog(({ level, queue }) => level === "ERROR" && queue === names.main);
    await withAmqp(rabbit, async (amqp) => {
      await eventually(async () => assert.equal(await amqp.consumers(names.main), 1));
    });
    await scene.post(10);
    await untilAllDelivered(scene);
    assert.deepEqual(new Set(timesAsked(scene.backend).values()), new Set([1]));
    await scene.count();
  });
});

Deno.test("tasks.main deleted while tasks wait in a rung: the rung gives them to the new tasks.main", async () => {
  await withScene({ env: { RETRY_LADDER: "1x0s,3x2s" } }, async (scene) => {
    const { relay, rabbit, names, backend } = scene;
    scene.answer = ({ headers }): Answer => ({
      status: headers["task-attempt"] === "1" ? 500 : 200,
    });
    const ids = await scene.post(10);
    await withAmqp(rabbit, async (amqp) => {
      const [rung = ""] = names.retries;
      await eventually(async () => assert.equal(await amqp.depth(rung), 10));
      await deleteQueue(rabbit, names.main);
    });
    await backend.waitFor(20);
    const again = backend.requests.slice(10).map(taskId);
    assert.deepEqual(again.toSorted(), ids.toSorted());
    assert.equal(await relay.stop(), 0);
    const { messages } = await scene.count();
    assert.equal(messages.length, 0);
  });
});

Deno.test("a rung deleted under the running relay: it is declared again by the next task that fails, which is not lost", async () => {
  await withScene({ env: { RETRY_LADDER: "1x0s,3x0.2s" } }, async (scene) => {
    const { relay, rabbit, names, backend } = scene;
    const [rung = ""] = names.retries;
    await serves(scene);
    await deleteQueue(rabbit, rung);
    scene.answer = ({ headers }): Answer => ({
      status: headers["task-attempt"] === "1" ? 500 : 200,
    });
    await scene.post(10);
    await backend.waitFor(21);
    assert.deepEqual([...timesAsked(backend).values()], [1, ...Array(10).fill(2)]);
    assert.ok(await relay.waitForLog(({ level, queue }) => level === "ERROR" && queue === rung));
    assert.equal(await relay.stop(), 0);
    const { messages } = await scene.count();
    assert.equal(messages.length, 0);
  });
});

Deno.test("tasks.failed deleted under the running relay: it is declared again, and what fails lies in it", async () => {
  await withScene({ env: { RETRY_LADDER: "1x0s" } }, async (scene) => {
    const { relay, rabbit, names } = scene;
    await serves(scene);
    await deleteQueue(rabbit, names.failed);
    scene.answer = (): Answer => ({ status: 500 });
    const ids = await scene.post(10);
    await withAmqp(rabbit, async (amqp) => {
      await eventually(async () => assert.equal(await amqp.depth(names.failed), 10));
    });
    assert.ok(
      await relay.waitForLog(({ level, queue }) => level === "ERROR" && queue === names.failed),
    );
    assert.equal(await relay.stop(), 0); // after the acknowledgements
    const { failed, messages } = await scene.count();
    assert.deepEqual([...failed.keys()].toSorted(), ids.toSorted());
    assert.equal(messages.length, 10);
  });
});

Deno.test("all queues deleted at once under load: declared again, and what is accepted from then on is delivered", async () => {
  await withScene({}, async (scene) => {
    const { relay, rabbit, names } = scene;
    await scene.post(100);
    await untilAllDelivered(scene);
    for (const queue of names.all) await deleteQueue(rabbit, queue);
    await eventually(async () => assert.equal((await relay.post("1")).status, 202));
    await withAmqp(rabbit, async (amqp) => {
      await eventually(async () => assert.equal(await amqp.consumers(names.main), 1));
    });
    await scene.post(100);
    await untilAllDelivered(scene);
    await scene.count();
  });
});
