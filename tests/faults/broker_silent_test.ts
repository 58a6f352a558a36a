/**
 * The broker is gone, or silent without closing anything: clients are answered in bounded time, the
 * relay closes in bounded time, and it heals by itself.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import { eventually } from "../support/eventually.ts";
import { residentMebibytes, type Scene, untilAllDelivered, withScene } from "./scene.ts";

/** Milliseconds that `fn` takes. */
async function timed(fn: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await fn();
  return performance.now() - start;
}

/** Posts a task that must be refused, and gives how long that took, in milliseconds. */
async function refused({ relay }: Scene, body = "1"): Promise<number> {
  return await timed(async () => {
    const { status, headers, text } = await relay.post(body);
    assert.equal(status, 503, text);
    assert.match(String(headers["retry-after"]), /^[1-9][0-9]*$/);
  });
}

Deno.test("a peer that goes silent without closing: posts are answered 503 in bounded time, /readyz tells it, and all heals by itself", async () => {
  await withScene({}, async (scene) => {
    const { relay, network } = scene;
    await scene.post(5);
    await untilAllDelivered(scene);
    network.blackhole();
    const times = await Promise.all(Array.from({ length: 20 }, () => refused(scene)));
    assert.ok(Math.max(...times) < 10_000, `answered after ${Math.max(...times)} ms`);
    await eventually(async () => assert.equal((await relay.get("/readyz")).status, 503), {
      within: 30_000,
    });
    assert.ok(await refused(scene) < 5_000, "known to be gone, and yet a post had to wait");
    network.heal();
    await relay.ready({ within: 30_000 });
    await scene.post(5);
    await untilAllDelivered(scene, { within: 30_000 });
    await withAmqp(scene.rabbit, async (amqp) => {
      await eventually(async () => assert.equal(await amqp.consumers(scene.names.main), 1), {
        within: 30_000,
      });
    });
    const { failed } = await scene.count();
    assert.equal(failed.size, 0);
  });
});

Deno.test("posts while the connection is down: each is answered 503 at once, and memory does not grow", async () => {
  await withScene({}, async (scene) => {
    const { relay, network } = scene;
    await scene.post(5);
    await untilAllDelivered(scene);
    network.refuse();
    network.cut();
    await eventually(async () => assert.equal((await relay.get("/readyz")).status, 503));
    const body = JSON.stringify("x".repeat(32 * 1024));
    const postMany = async (count: number): Promise<void> => {
      for (let left = count; left > 0; left -= 50) {
        await Promise.all(Array.from({ length: 50 }, () => refused(scene, body)));
      }
    };
    await postMany(500);
    const before = await residentMebibytes(relay.pid);
    await postMany(1500); // 48 MiB of payloads, if they stayed
    const grown = await residentMebibytes(relay.pid) - before;
    assert.ok(grown < 32, `grown by ${grown.toFixed(0)} MiB over 1500 refused posts`);
    await network.accept();
    await relay.ready();
    await scene.post(5);
    await untilAllDelivered(scene);
    await scene.count();
  });
});

Deno.test("SIGTERM while the broker is gone: the process exits with 0 within its grace", async () => {
  await withScene({ env: { SHUTDOWN_GRACE_SEC: "5" } }, async (scene) => {
    await scene.post(5);
    await untilAllDelivered(scene);
    scene.network.refuse();
    scene.network.cut();
    await eventually(async () => assert.equal((await scene.relay.get("/readyz")).status, 503));
    const took = await timed(async () => assert.equal(await scene.relay.stop(), 0));
    assert.ok(took < 8_000, `took ${took} ms`);
    await scene.count();
  });
});

Deno.test("SIGTERM while the broker is silent, with a request in flight: the process exits with 0, a little over its grace at most, and nothing is lost", async () => {
  const env = { SHUTDOWN_GRACE_SEC: "2", BACKEND_TIMEOUT: "60" };
  await withScene({ env }, async (scene) => {
    scene.answer = (): { hang: true } => ({ hang: true });
    await scene.post(3);
    await scene.backend.waitFor(3);
    scene.network.blackhole();
    const took = await timed(async () => assert.equal(await scene.relay.stop(), 0));
    assert.ok(took < 12_000, `took ${took} ms`);
    scene.network.cut();
    const { waiting } = await scene.count();
    assert.deepEqual(new Set(waiting.keys()), scene.accepted);
  });
});
