/**
 * The relay's memory while tasks wait in the broker. As a program: the figure for 200,000 of them;
 * the fault tests ask the same of fewer.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import amqplib from "amqplib";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { withAmqp } from "../support/amqp.ts";
import { residentMebibytes, type Scene, withScene } from "../faults/scene.ts";

const BATCH = 5_000;
/** Long enough for the relay to have fetched all that it would ever fetch. */
const MEASURED_AFTER_REQUESTS = 30;

/** Puts so many small tasks into a queue, as fast as the broker confirms them. */
async function fill(queue: string, count: number): Promise<void> {
  const { host: hostname, port, user: username, password } = rabbitAddress();
  const connection = await amqplib.connect({ hostname, port, username, password });
  const channel = await connection.createConfirmChannel();
  for (let sent = 0; sent < count; sent += BATCH) {
    for (let n = sent; n < sent + BATCH; n++) {
      channel.sendToQueue(queue, Buffer.from(`{"n":${n}}`), { persistent: true });
    }
    await channel.waitForConfirms();
  }
  await connection.close();
}

/** The relay's memory after it was started again and has made some requests, in MiB. */
async function memoryAtWork({ relay, backend }: Scene): Promise<number> {
  await relay.kill();
  await relay.start();
  await backend.waitFor(backend.requests.length + MEASURED_AFTER_REQUESTS);
  return await residentMebibytes(relay.pid);
}

/** What a measurement gives: MiB with almost no task waiting, and with all of them. */
export interface WaitingMemory {
  readonly before: number;
  readonly full: number;
}

/** Measures it with so many tasks, and checks that the queue has only lost what was delivered. */
export async function measureWaiting(tasks: number): Promise<WaitingMemory> {
  const env = { RATE_LIMIT_MAX_REQUESTS: "10", RATE_LIMIT_WINDOW_SEC: "1" };
  let measured: WaitingMemory | undefined;
  await withScene({ env }, async (scene) => {
    const { main } = scene.names;
    await fill(main, BATCH);
    const before = await memoryAtWork(scene);
    await fill(main, tasks);
    const full = await memoryAtWork(scene);
    await scene.relay.kill();
    await withAmqp(rabbitAddress(), async (amqp) => {
      await eventually(async () => {
        const gone = BATCH + tasks - await amqp.depth(main);
        assert.ok(gone <= scene.backend.requests.length, `${gone} left the queue`);
      });
    });
    measured = { before, full };
  });
  assert.ok(measured);
  return measured;
}

if (import.meta.main) {
  const { before, full } = await measureWaiting(200_000);
  console.log(`${before.toFixed(0)} MiB; with 200,000 tasks waiting ${full.toFixed(0)} MiB`);
}
