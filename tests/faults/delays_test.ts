/** Delayed tasks and a broker that is killed while they wait. */
import assert from "node:assert/strict";
import { withDelayedTasks } from "../support/delayed_tasks.ts";
import { eventually } from "../support/eventually.ts";
import { startRabbit } from "../support/rabbitmq.ts";

Deno.test("the broker is killed (-9) and started again while tasks are delayed: each comes, none before its time", async () => {
  await using rabbit = await startRabbit();
  await withDelayedTasks(rabbit, async (tasks) => {
    // Some are due while the broker is down, some are between two levels, some long after it.
    const delays = [1_000, 3_000, 3_000, 5_000, 7_000, 11_000, 13_000];
    const published = await Promise.all(
      Array.from({ length: 10 }, () => delays).flat().map(tasks.publish),
    );
    await rabbit.kill();
    await rabbit.start();
    await eventually(() => tasks.consume());
    await eventually(() => {
      const missing = published.filter(({ id }) => !tasks.arrivals.has(id));
      assert.equal(missing.length, 0, `${missing.length} of ${published.length} have not come`);
    });
    for (const { id, notBefore = NaN } of published) {
      const { at } = tasks.arrivals.get(id) ?? assert.fail();
      assert.ok(at >= notBefore, `${notBefore - at} ms early`);
    }
    await eventually(() => assert.ok(tasks.publisher.health.ready));
    const { id } = await tasks.publish(2_000);
    await eventually(() => assert.ok(tasks.arrivals.has(id)));
  });
});
