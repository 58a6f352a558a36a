/**
 * The failed queue beneath its routes: what is acknowledged leaves it, however soon the pass is over.
 *
 * @module
 */
import assert from "node:assert/strict";
import { FailedQueue } from "../../src/broker/failed_queue.ts";
import { systemClock } from "../../src/clock.ts";
import type { RawMessage } from "../../src/task.ts";
import { rabbitAddress } from "../support/environment.ts";
import { withStage } from "./stage.ts";

const TASKS = 1_200;
/** RabbitMQ loses acknowledgements in one of three or so when the channel is closed right after them. */
const ROUNDS = 6;

Deno.test("every second of 1,200 tasks is acknowledged, and the channel closed at once → so many have left, six times", async () => {
  await withStage({}, async ({ relay, amqp, queues: names }) => {
    const rabbit = { vhost: "/", ...rabbitAddress() };
    const queues = { prefix: relay.prefix, type: "quorum", singleActiveConsumer: true } as const;
    for (let round = 0; round < ROUNDS; round++) {
      const failed = new FailedQueue({ rabbit, queues, clock: systemClock });
      const publishing = Array.from(
        { length: TASKS },
        (_, n) => amqp.publishRaw(names.failed, String(n), { persistent: true }),
      );
      await Promise.all(publishing);
      let seen = 0;
      await failed.pass({
        expected: TASKS,
        look: () => seen++ % 2 === 0 ? "take" : "leave",
        isEnough: () => seen >= TASKS,
        settle: (taken: readonly RawMessage[]) => Promise.resolve(taken),
      });
      const left = await failed.purge();
      await failed.close();
      assert.deepEqual(left, { kind: "passed", total: TASKS / 2 });
    }
  });
});
