/**
 * Delays in a real broker: on time, side by side, and the levels there only when they are needed.
 *
 * What follows for 90 s and for 7 days is shown by construction, see tests/unit/delay_levels_test.ts.
 */
import assert from "node:assert/strict";
import amqplib from "amqplib";
import { withAmqp } from "../support/amqp.ts";
import { taskDueIn, withDelayedTasks } from "../support/delayed_tasks.ts";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";

/** What a busy machine may add. */
const SLACK_MS = 1_500;

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

Deno.test("delays from 1 to 7 s published at once, longest first: none comes early, none waits for another, all are exact to a second", async () => {
  await withDelayedTasks(rabbitAddress(), async ({ publish, consume, arrivals, names, prefix }) => {
    await consume();
    await withAmqp(rabbitAddress(), async (amqp) => {
      const before = Object.values(await amqp.depths(names.delays));
      assert.ok(before.every((depth) => depth === undefined), "levels before any is needed");
    });
    // Warm: the levels are declared while these wait, all of them by the same declaration.
    await Promise.all(Array.from({ length: 20 }, () => publish(60_000)));
    const delays = [7_000, 6_500, 6_000, 5_000, 5_000, 5_000, 4_000, 3_700, 3_000, 2_000, 1_000];
    const tasks = await Promise.all(Array.from({ length: 10 }, () => delays).flat().map(publish));
    await eventually(() => {
      for (const { id } of tasks) assert.ok(arrivals.has(id), "not all have come");
    });
    const late: number[] = [];
    for (const { id, notBefore = NaN } of tasks) {
      const { at, message } = arrivals.get(id) ?? assert.fail();
      assert.ok(at >= notBefore, `${notBefore - at} ms early`);
      assert.ok(at <= notBefore + 1_000 + SLACK_MS, `${at - notBefore} ms late`);
      assert.equal(message.properties.headers?.["relay-not-before"], notBefore);
      late.push(at - notBefore);
    }
    // The middle of many, because a busy machine may hold up single ones.
    assert.ok(median(late) < 1_000, `${median(late)} ms late`);
    assert.equal(arrivals.size, tasks.length, "what is due in a minute has not come");
    await withAmqp(rabbitAddress(), async (amqp) => {
      const waiting = await amqp.depth(`${prefix}.delay.32s`);
      assert.equal(waiting, 20);
    });
  });
});

Deno.test("a moment that has passed until the levels are declared → into the main queue at once", async () => {
  await withDelayedTasks(rabbitAddress(), async ({ publish, consume, arrivals }) => {
    await consume();
    const { id } = await publish(1);
    await eventually(() => assert.ok(arrivals.has(id)));
  });
});

Deno.test("a level exists with other arguments → delayed tasks are refused, plain ones are taken", async () => {
  const { host: hostname, port, user: username, password } = rabbitAddress();
  await withDelayedTasks(rabbitAddress(), async ({ publisher, prefix, publish }) => {
    const connection = await amqplib.connect({ hostname, port, username, password });
    try {
      const channel = await connection.createChannel();
      await channel.assertQueue(`${prefix}.delay.4s`, { durable: true });
      const result = await publisher.publish(taskDueIn(4_000));
      assert.equal(result.kind, "unavailable");
      assert.match("detail" in result ? result.detail : "", new RegExp(`${prefix}.delay.4s`));
      const { notBefore: _, ...plain } = taskDueIn(0);
      assert.deepEqual(await publisher.publish(plain), { kind: "confirmed" });
      assert.ok(publisher.health.ready);
      await channel.deleteQueue(`${prefix}.delay.4s`);
      await publish(4_000);
    } finally {
      await connection.close();
    }
  });
});

Deno.test("a level is deleted while the relay runs → declared again, and delayed tasks are taken", async () => {
  const { host: hostname, port, user: username, password } = rabbitAddress();
  await withDelayedTasks(
    rabbitAddress(),
    async ({ publisher, prefix, publish, consume, arrivals }) => {
      await consume();
      await publish(1_000);
      const connection = await amqplib.connect({ hostname, port, username, password });
      try {
        const channel = await connection.createChannel();
        await channel.deleteQueue(`${prefix}.delay.2s`);
        await channel.deleteExchange(`${prefix}.delay.8s`);
      } finally {
        await connection.close();
      }
      for (const delayMs of [2_000, 8_000]) {
        await eventually(async () => {
          assert.equal((await publisher.publish(taskDueIn(delayMs))).kind, "confirmed");
        });
      }
      const { id } = await publish(2_000);
      await eventually(() => assert.ok(arrivals.has(id)));
    },
  );
});

Deno.test("tasks.main is deleted and declared again while delayed tasks wait → they come when they are due", async () => {
  const { host: hostname, port, user: username, password } = rabbitAddress();
  await withDelayedTasks(
    rabbitAddress(),
    async ({ publisher, publish, consume, arrivals, names }) => {
      const tasks = await Promise.all([2_000, 3_000, 4_000].map(publish));
      const connection = await amqplib.connect({ hostname, port, username, password });
      try {
        const channel = await connection.createChannel();
        await channel.deleteQueue(names.main);
      } finally {
        await connection.close();
      }
      const { notBefore: _, ...plain } = taskDueIn(0);
      await eventually(async () =>
        assert.equal((await publisher.publish(plain)).kind, "confirmed")
      );
      await consume();
      await eventually(() => {
        for (const { id } of tasks) assert.ok(arrivals.has(id));
      });
    },
  );
});
