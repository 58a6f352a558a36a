/**
 * The broker dies and comes back: while tasks flow, and while the relay starts.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { ClientAnswer } from "../support/client.ts";
import { withAmqp } from "../support/amqp.ts";
import { eventually } from "../support/eventually.ts";
import { withOperator } from "../support/operator.ts";
import { startRabbit } from "../support/rabbitmq.ts";
import type { RelayProcess } from "../support/relay.ts";
import { type Scene, settleTerms, untilAllDelivered, withScene } from "./scene.ts";

/** Posts one task after another until `over` aborts, and keeps the ids of those answered 202. */
async function postOn({ relay, accepted }: Scene, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    const answer = await relay.post('{"under":"load"}');
    if (answer.status === 202) accepted.add(String(answer.json["id"]));
    else await pauseAfter(answer);
  }
}

/** Posts a task until it is accepted: a queue may be without a leader for a moment. */
async function acceptOne({ relay, accepted }: Scene): Promise<void> {
  await eventually(async () => accepted.add(await relay.accept("1")));
}

/** A refused client comes back after a moment; at once it would only take the broker's processor. */
async function pauseAfter({ status, text }: ClientAnswer): Promise<void> {
  assert.equal(status, 503, text);
  await new Promise((resolve) => setTimeout(resolve, 50));
}

/** The number of tasks accepted so far grows by `count`. */
async function acceptsAgain({ accepted }: Scene, count: number): Promise<void> {
  const before = accepted.size;
  await eventually(() => assert.ok(accepted.size >= before + count, "nothing is accepted"));
}

function problems({ logs }: RelayProcess): string[] {
  return logs.filter(({ level }) => level === "ERROR" || level === "FATAL").map((line) =>
    JSON.stringify(line)
  );
}

Deno.test("a broker that dies and comes back", async (t) => {
  await using rabbit = await startRabbit();
  await t.step(
    "a broker killed (-9) and started again while tasks flow: the relay reconnects by itself and nothing is lost",
    async () => {
      await withScene({ rabbit }, async (scene) => {
        const over = new AbortController();
        const clients = Array.from({ length: 8 }, () => postOn(scene, over.signal));
        await acceptsAgain(scene, 200);
        await settleTerms(rabbit);
        await rabbit.kill();
        await rabbit.start();
        await acceptsAgain(scene, 200);
        over.abort();
        await Promise.all(clients);
        await untilAllDelivered(scene);
        assert.deepEqual(problems(scene.relay), []);
        const { failed } = await scene.count();
        assert.equal(failed.size, 0);
      });
    },
  );
  await t.step(
    "a broker that is down while the relay starts: served as soon as it is there",
    async () => {
      await withScene({ rabbit }, async (scene) => {
        const { relay } = scene;
        await scene.post(5);
        await relay.kill();
        await settleTerms(rabbit);
        await rabbit.kill();
        await relay.start({ ready: false });
        await relay.waitForLog(({ message }) => message === "ingest listening");
        assert.equal((await relay.post("1")).status, 503);
        assert.equal((await relay.get("/healthz")).status, 200);
        await rabbit.start();
        await relay.ready();
        await scene.post(5);
        await untilAllDelivered(scene);
        const { failed } = await scene.count();
        assert.equal(failed.size, 0);
        await withAmqp(
          rabbit,
          async (amqp) => assert.equal(await amqp.consumers(scene.names.main), 0),
        );
      });
    },
  );
  await t.step(
    "paused, and the broker killed (-9) a moment later, the relay too: paused still, until it is resumed",
    async () => {
      await withScene({ rabbit, env: { OPS_PORT: "0" } }, async (scene) => {
        const { relay, backend } = scene;
        await scene.post(5);
        await untilAllDelivered(scene);
        await settleTerms(rabbit);
        await withOperator(relay, async (operator) => {
          await operator.setPaused(true);
          await rabbit.kill();
          await relay.kill();
          await rabbit.start();
          await relay.start({ ready: false });
          await relay.ready();
          await acceptOne(scene);
          await eventually(async () => {
            const { json } = await relay.get("/readyz");
            assert.equal(json["consumer"], "paused");
          });
          assert.equal(backend.requests.length, 5);
          await eventually(() => operator.setPaused(false), { every: 500 });
          await untilAllDelivered(scene);
        });
      });
    },
  );
});
