/**
 * A closed gate while the connection to the broker is cut, and while the relay is told to stop.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { type Scene, taskId, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

const PAUSE_MS = 4_000;

/** The first request is told to come back later, and nothing else is asked until then. */
async function toldToWait(scene: Scene): Promise<number> {
  const { promise: saidAt, resolve } = Promise.withResolvers<number>();
  scene.answer = (_request, n): Answer => {
    if (n > 1) return { status: 200 };
    resolve(performance.now());
    return { status: 503, headers: { "retry-after": String(PAUSE_MS / 1_000) } };
  };
  await scene.post(30);
  return await saidAt;
}

Deno.test("the connections are cut again and again while the gate is closed: it stays closed, and nobody pays for it", async () => {
  await withScene({ env: { CONCURRENCY: "1" } }, async (scene) => {
    const { relay, network, backend } = scene;
    const said = await toldToWait(scene);
    await relay.waitForLog(({ status }) => status === 503); // its next hop is confirmed
    const connections = (): number =>
      relay.logs.filter(({ message, connection }) =>
        message === "broker connected" && connection === "queue-relay consumer"
      ).length;
    while (performance.now() < said + PAUSE_MS - 1_000) {
      const before = connections();
      network.cut();
      await eventually(() => assert.ok(connections() > before));
    }
    await untilAllDelivered(scene);
    const [first, ...rest] = backend.requests;
    assert.ok(first);
    const early = rest.filter(({ at }) => at < said + PAUSE_MS);
    assert.deepEqual(early.map(taskId), []);
    const attempts = rest.map((request) => [taskId(request), request.headers["task-attempt"]]);
    for (const [id, attempt] of attempts) {
      assert.equal(attempt, id === taskId(first) ? "2" : "1");
    }
    assert.equal(timesAsked(backend).size, 30);
    await scene.count();
  });
});

Deno.test("SIGTERM while the gate is closed: exit 0 at once, everything is still there, and it stays closed after the start", async () => {
  await withScene({ env: { CONCURRENCY: "1" } }, async (scene) => {
    const { relay, backend } = scene;
    const said = await toldToWait(scene);
    await relay.waitForLog(({ status }) => status === 503);
    assert.equal(await relay.stop(), 0);
    assert.ok(performance.now() < said + PAUSE_MS, "it waited for the gate");
    await relay.start();
    await untilAllDelivered(scene);
    const early = backend.requests.slice(1).filter(({ at }) => at < said + PAUSE_MS);
    assert.deepEqual(early.map(taskId), []);
    await scene.count();
  });
});
