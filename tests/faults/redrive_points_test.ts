/**
 * The relay is killed (-9) at each step of a redrive of 1,000 tasks. Where it is killed is decided by
 * the frame that passes between it and the broker:
 *
 *     read ─(1)─ publish ─(2)─ confirm ─(3)─ acknowledge
 *                 └──── in failed and in main ────┘
 *
 * Meanwhile the backend answers nothing, so that what is published can be counted where it lies. The
 * one case in which a copy too many may come is (2) and (3): the next redrive finds the failed copy
 * still there. With the ledger it knows of all that was confirmed, and no copy is called twice.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Stock, TestAmqp } from "../support/amqp.ts";
import { withAmqp } from "../support/amqp.ts";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { withOperator } from "../support/operator.ts";
import { publishesTask } from "../support/task_frames.ts";
import type { PassingFrame } from "../support/tcp_relay.ts";
import { type Scene, taskId, timesAsked, withScene } from "./scene.ts";

const TASKS = 1_000;

type Where = (frame: PassingFrame) => boolean;

/** The steps, and how many frames of that kind pass before the kill. */
const POINTS: readonly (readonly [step: string, where: Where, passing: number])[] = [
  ["reading the failed tasks", ({ name }) => name === "basic.deliver", 200],
  ["publishing", publishesTask, 150],
  [
    "confirming",
    ({ name, direction }) => name === "basic.ack" && direction === "toClient",
    0,
  ],
  [
    "acknowledging",
    ({ name, direction }) => name === "basic.ack" && direction === "toServer",
    0,
  ],
];

/** Kills the relay when so many such frames have passed and one more is about to; that one is lost. */
function killAt({ relay, network }: Scene, where: Where, passing: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let passed = 0;
  network.onFrame = async (frame) => {
    if (!where(frame) || passed++ < passing) return "pass";
    network.onFrame = undefined;
    await relay.kill();
    resolve();
    return "cut-before";
  };
  return promise;
}

async function fill(amqp: TestAmqp, queue: string): Promise<Set<string>> {
  const ids = Array.from({ length: TASKS }, (_, n) => `task-${n}`);
  const headers = {
    "relay-attempt": 7,
    "relay-enqueued-at": 1_700_000_000_000,
    "relay-reason": "attempts_exhausted",
  };
  await Promise.all(
    ids.map((id) => amqp.publishRaw(queue, id, { messageId: id, persistent: true, headers })),
  );
  return new Set(ids);
}

/** The ids of which more than one message lies in `queue`. */
function twiceIn({ messages }: Stock, queue: string): string[] {
  const seen = new Set<string>();
  const twice = messages.filter((message) => message.queue === queue)
    .filter(({ id }) => seen.size === seen.add(id).size);
  return twice.map(({ id }) => id);
}

/** Each is in a queue, or was called; all messages that the queues hold are seen. */
async function assertAllThere(
  { names, backend }: Scene,
  amqp: TestAmqp,
  all: ReadonlySet<string>,
): Promise<Stock> {
  const depths = await amqp.depths(names.all);
  const ready = Object.values(depths).reduce<number>((sum, depth) => sum + (depth ?? 0), 0);
  return await amqp.census(names, ({ waiting, failed, messages }) => {
    assert.ok(messages.length >= ready, `${messages.length} of ${ready} messages were seen`);
    const called = backend.requests.map(taskId);
    assert.deepEqual(new Set([...waiting.keys(), ...failed.keys(), ...called]), all);
  });
}

for (const LEDGER of ["on", "off"] as const) {
  Deno.test(`LEDGER=${LEDGER}, killed (-9) at each step of a redrive of 1,000: none is lost, none is twice in a queue but what was not acknowledged`, async () => {
    const env = { LEDGER, OPS_PORT: "0", PREFETCH_COUNT: "20", BACKEND_TIMEOUT: "60" };
    await withScene(
      { env },
      (scene) =>
        withAmqp(scene.rabbit, (amqp) =>
          withOperator(scene.relay, async (operator) => {
            const { relay, names, backend } = scene;
            const opened = Promise.withResolvers<Answer>();
            scene.answer = () => opened.promise;
            const all = await fill(amqp, names.failed);
            /** Those that a kill left in the failed queue although their copy was published. */
            const unacknowledged = new Set<string>();
            let stock: Stock | undefined;
            for (const [step, where, passing] of POINTS) {
              const killed = killAt(scene, where, passing);
              const redrive = operator.redrive({ all: true }).then(() => {}, () => {});
              await Promise.all([killed, redrive]);
              stock = await assertAllThere(scene, amqp, all);
              const { waiting, failed } = stock;
              assert.deepEqual(twiceIn(stock, names.failed), [], step);
              const excess = twiceIn(stock, names.main).filter((id) => !unacknowledged.has(id));
              assert.deepEqual(excess, [], step);
              for (const id of failed.keys()) if (waiting.has(id)) unacknowledged.add(id);
              await relay.start();
            }
            assert.ok(
              unacknowledged.size > 0,
              "no kill came between a publish and its acknowledgement",
            );
            await eventually(async () => {
              await operator.redrive({ all: true });
              assert.equal(await amqp.depth(names.failed), 0);
            });
            /** What kills may have cut off; such a request is made again. */
            const cut = new Set(backend.requests.map(taskId));
            opened.resolve({ status: 200 });
            const empty = Object.fromEntries(names.all.map((name) => [name, 0]));
            await eventually(async () => assert.deepEqual(await amqp.depths(names.all), empty));
            assert.equal(await relay.stop(), 0);
            assert.deepEqual(await amqp.depths(names.all), empty);
            assert.deepEqual(scene.delivered, all);
            const excused = LEDGER === "on" ? cut : cut.union(unacknowledged);
            const repeated = [...timesAsked(backend)].filter(([, times]) => times > 1);
            assert.deepEqual(repeated.filter(([id]) => !excused.has(id)), []);
          })),
    );
  });
}
