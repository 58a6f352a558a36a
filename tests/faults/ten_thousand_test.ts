/**
 * The promise at its hardest: 10,000 tasks while everything dies again and again.
 *
 * @module
 */
import assert from "node:assert/strict";
import { startRabbit } from "../support/rabbitmq.ts";
import { TaskClient } from "../support/client.ts";
import { type Scene, settleTerms, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

const TASKS = 10_000;
const CLIENTS = 32;
const RELAY_KILLS = 5;
const BROKER_KILLS = 2;

/** Posts until so many tasks were accepted; what is refused or not answered is posted anew. */
async function postUntil(scene: Scene, url: string, count: number): Promise<void> {
  const client = new TaskClient(() => url);
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));
  const postOn = async (): Promise<void> => {
    while (scene.accepted.size < count) {
      const answer = await client.post(`{"n":${scene.accepted.size}}`).catch(() => undefined);
      if (answer?.status === 202) scene.accepted.add(String(answer.json["id"]));
      else await pause();
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, postOn));
  await client.close();
}

/** Settles when so many tasks were accepted. */
async function acceptedAtLeast({ accepted }: Scene, count: number): Promise<void> {
  while (accepted.size < count) await new Promise((resolve) => setTimeout(resolve, 5));
}

Deno.test("10,000 tasks posted while the relay is killed (-9) and started again 5 times and the broker twice: each that was answered 202 is delivered, none is missing", async () => {
  await using rabbit = await startRabbit();
  const env = {
    RABBIT_PORT: String(rabbit.port), // not by way of the test's own process: it is busy enough
    RATE_LIMIT_MAX_REQUESTS: "10000",
    PREFETCH_COUNT: "200",
  };
  await withScene({ rabbit, env }, async (scene) => {
    const { relay } = scene;
    await settleTerms(rabbit);
    const posting = postUntil(scene, relay.url, TASKS);
    const kills = RELAY_KILLS + BROKER_KILLS;
    for (let kill = 0; kill < kills; kill++) {
      await acceptedAtLeast(scene, Math.floor((kill + 0.5) * TASKS / (kills + 0.5)));
      if (kill % 3 === 2) {
        await settleTerms(rabbit);
        await rabbit.kill();
        await rabbit.start();
      } else {
        await relay.kill();
        await relay.start({ ready: false });
      }
    }
    await posting;
    await untilAllDelivered(scene, { every: 200 });
    // What RabbitMQ could not hand on from a rung, a broker killed under it, it tries again after 180 s.
    const { failed } = await scene.count({ within: 240_000 });
    assert.deepEqual([...failed], []);
    const repeated = [...timesAsked(scene.backend).values()].filter((times) => times > 1).length;
    // What was in somebody's hands at a kill may come again: the prefetch count, for each kill.
    assert.ok(repeated <= kills * 200, `${repeated} tasks came more than once`);
  });
});
