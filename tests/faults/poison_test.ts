/**
 * A message whose handling kills the process each time ends in tasks.failed by the broker's delivery
 * limit, and takes nobody with it.
 *
 * @module
 */
import assert from "node:assert/strict";
import amqplib from "amqplib";
import { withAmqp } from "../support/amqp.ts";
import type { Answer } from "../support/backend.ts";
import type { RabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { taskId, timesAsked, withScene } from "./scene.ts";

/** Takes the only message of `queue` and returns it, so many times, as relays that die with it do. */
async function age(
  { host, port, user, password }: RabbitAddress,
  queue: string,
  times: number,
): Promise<void> {
  const connection = await amqplib.connect({ hostname: host, port, username: user, password });
  const channel = await connection.createChannel();
  const done = Promise.withResolvers<void>();
  let returned = 0;
  await channel.prefetch(1);
  await channel.consume(queue, (message) => {
    if (message === null) return;
    channel.nack(message, false, true);
    if (++returned === times) done.resolve();
  });
  await done.promise;
  await connection.close();
}

Deno.test("a task whose handling kills the relay each time: it ends in tasks.failed, and 60 others that were held with it are delivered", async () => {
  await withScene({}, async (scene) => {
    const { relay, backend, rabbit, names } = scene;
    await relay.kill();
    const innocents = Array.from({ length: 60 }, (_, n) => `innocent-${n}`);
    await withAmqp(rabbit, async (amqp) => {
      await amqp.publishRaw(names.main, "0", { messageId: "poison" });
      await age(rabbit, names.main, 96);
      for (const messageId of innocents) await amqp.publishRaw(names.main, "1", { messageId });
    });
    ["poison", ...innocents].forEach((id) => scene.accepted.add(id));
    let deaths = 0;
    scene.answer = async (request): Promise<Answer> => {
      if (taskId(request) !== "poison") return { status: 200 };
      deaths++;
      await relay.kill();
      return { reset: true };
    };
    await withAmqp(rabbit, async (amqp) => {
      while (await amqp.depth(names.failed) === 0) {
        await relay.start({ ready: false });
        await Promise.race([
          relay.status,
          eventually(async () => assert.equal(await amqp.depth(names.failed), 1)),
        ]);
        await eventually(async () => assert.equal(await amqp.consumers(names.main), 0)).catch(
          () => {},
        );
      }
      await relay.kill();
      await relay.start();
      await eventually(() => assert.equal(timesAsked(backend).size, 61));
    });
    assert.ok(deaths >= 1 && deaths <= 12, `${deaths} deaths`);
    assert.equal(await relay.stop(), 0);
    const { failed, waiting } = await scene.count();
    assert.deepEqual([...failed.keys()], ["poison"]);
    assert.deepEqual([...waiting], []);
  });
});
