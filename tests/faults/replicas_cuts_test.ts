/**
 * Three relays on one limit in Redis, of which one is cut off or dies, or all lose Redis: the limit
 * holds, nothing is lost, and all goes on by itself.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Backend } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import type { RelayProcess } from "../support/relay.ts";
import { keptTheLimit, post, shares, SLACK_MS, WINDOW_MS, withReplicas } from "./replicas.ts";
import { timesAsked } from "./scene.ts";

Deno.test("one of three relays loses Redis, then RabbitMQ, then all lose Redis, then one is killed (-9): the limit holds, nothing is lost, and all goes on by itself", async () => {
  await withReplicas(async (replicas) => {
    const { backend, relays: [first, , third], toRedis, toRabbit, redis } = replicas;
    const goesOn = (count: number): Promise<unknown> =>
      backend.waitFor(backend.requests.length + count);
    // Enough for each step, however long one takes on a busy machine.
    const backlog = (): Promise<void> => post({ ...replicas, relays: [first] }, 90);
    await backlog();
    await goesOn(20);
    await backlog();

    toRedis.refuse();
    toRedis.cut();
    await untilReadyz(third, 503, /limit.*unavailable: Redis at /);
    const whileCut = backend.requests.length;
    await goesOn(30);
    assert.equal(shares(backend, whileCut)[2], 0, "sent without Redis");
    await toRedis.accept();
    await untilReadyz(third, 200, /"limit":"ready"/);
    await untilSends(backend, 2);

    await backlog();
    toRabbit.cut();
    await goesOn(20);
    await untilSends(backend, 2);

    await backlog();
    await redis.kill();
    const killedAt = performance.now();
    await Promise.all(replicas.relays.map((relay) => untilReadyz(relay, 503, /unavailable/)));
    const startedAt = performance.now();
    await redis.start();
    await goesOn(20);
    const blind = backend.requests.filter(({ at }) =>
      at > killedAt + SLACK_MS && at < startedAt + WINDOW_MS - SLACK_MS
    );
    assert.equal(blind.length, 0, "sent without Redis, or within a window of its start");

    await first.kill();
    await eventually(() => {
      const asked = timesAsked(backend);
      assert.ok([...replicas.accepted].every((id) => asked.has(id)));
    }, { within: 180_000 });
    keptTheLimit(backend);
  });
});

async function untilReadyz(relay: RelayProcess, status: number, body: RegExp): Promise<void> {
  await eventually(async () => {
    const answer = await relay.get("/readyz");
    assert.equal(answer.status, status);
    assert.match(JSON.stringify(answer.json), body);
  });
}

/** Waits until the relay of this number sends. */
async function untilSends(backend: Backend, relay: number): Promise<void> {
  const from = backend.requests.length;
  await eventually(() => assert.ok((shares(backend, from)[relay] ?? 0) > 0));
}
