/**
 * The relay is killed (-9) while it sends 1,000 failed tasks again, at random moments, and asked again
 * until it is done: none is lost, and none is delivered again but what a kill cut off in flight.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type TestAmqp, withAmqp } from "../support/amqp.ts";
import { withBackend } from "../support/backend.ts";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { withOperator } from "../support/operator.ts";
import { queueNames } from "../support/queues.ts";
import { withRelay } from "../support/relay.ts";

const TASKS = 1_000;
const KILLS = 5;
/** A redrive of all takes about so long here; a kill comes somewhere in it. */
const LATEST_KILL_MS = 400;
const PREFETCH = 20;
const LADDER = "2x0s";

async function fill(amqp: TestAmqp, queue: string): Promise<void> {
  await Promise.all(Array.from({ length: TASKS }, (_, n) =>
    amqp.publishRaw(queue, String(n), {
      messageId: `task-${n}`,
      persistent: true,
      headers: {
        "relay-attempt": 3,
        "relay-enqueued-at": 1_700_000_000_000,
        "relay-reason": "attempts_exhausted",
      },
    })));
}

Deno.test("killed (-9) five times while it sends 1,000 failed tasks again: failed, queued and delivered are always all; in the end each was delivered", async () => {
  const rabbit = rabbitAddress();
  await withBackend(async (backend) => {
    const env = {
      BACKEND_BASE_URL: backend.url,
      OPS_PORT: "0",
      PREFETCH_COUNT: String(PREFETCH),
      RATE_LIMIT_MAX_REQUESTS: "1000",
      RATE_LIMIT_WINDOW_SEC: "1",
      RETRY_LADDER: LADDER,
    };
    await withRelay({ rabbit, env }, (relay) =>
      withAmqp(rabbit, async (amqp) => {
        const names = queueNames(relay.prefix, LADDER);
        const all = Array.from({ length: TASKS }, (_, n) => `task-${n}`).sort();
        const called = (): string[] => backend.requests.map((r) => String(r.headers["task-id"]));
        await fill(amqp, names.failed);
        let kills = 0;
        await withOperator(relay, async (operator) => {
          for (; kills < KILLS; kills++) {
            const cut = operator.redrive({ all: true }).then(() => {}, () => {});
            const moment = Math.random() * LATEST_KILL_MS;
            await new Promise((resolve) => setTimeout(resolve, moment));
            await relay.kill();
            await cut;
            await amqp.census(names, ({ waiting, failed }) => {
              const known = new Set([...waiting.keys(), ...failed.keys(), ...called()]);
              assert.deepEqual([...known].sort(), all, `after ${moment} ms`);
            });
            await relay.start();
          }
          await eventually(async () => {
            await operator.redrive({ all: true });
            const depths = [await amqp.depth(names.failed), await amqp.depth(names.main)];
            assert.deepEqual(depths, [0, 0]);
            assert.deepEqual([...new Set(called())].sort(), all);
          }, { every: 500 });
        });
        assert.equal(await relay.stop(), 0);
        assert.deepEqual(await amqp.depths(names.all), { [names.main]: 0, [names.failed]: 0 });
        const repeats = called().length - TASKS;
        assert.ok(repeats <= kills * PREFETCH, `${repeats} deliveries were repeated`);
      }));
  });
});
