/**
 * `/events` from a running relay, and operators that are slow, many or broken beside its tasks.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Stats, StatsSample } from "../../src/ops/stats.ts";
import { eventually } from "../support/eventually.ts";
import { withOperator } from "../support/operator.ts";
import { type Stage, withStage } from "./stage.ts";

/** An event of a stream. */
interface ServerEvent {
  readonly name: string;
  readonly data: unknown;
}

/** The events of a stream, as they come. */
async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  assert.ok(response.body);
  let text = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      if (name !== undefined && data !== undefined) yield { name, data: JSON.parse(data) };
    }
  }
}

/** Asks for something over a connection of its own and never reads the answer. */
async function neverRead(opsUrl: string, path: string): Promise<Deno.Conn> {
  const { hostname, port, host } = new URL(opsUrl);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const request = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  return connection;
}

/** Delivers so many tasks, and gives the seconds that took. */
async function secondsFor({ relay, backend }: Stage, count: number): Promise<number> {
  const before = backend.requests.length;
  const began = performance.now();
  const batch = `[${Array.from({ length: count }, () => "1").join(",")}]`;
  assert.equal((await relay.post(batch, {}, "/queue/tasks/batch")).status, 202);
  await backend.waitFor(before + count);
  return (performance.now() - began) / 1000;
}

Deno.test("events: all of /stats at first, each second without its history, and every sample", async () => {
  await withStage({ env: { OPS_PORT: "0" } }, async ({ relay, backend }) => {
    await relay.accept("{}");
    await backend.waitFor(1);
    const response = await fetch(`${relay.opsUrl}/events`);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const stats: Stats[] = [];
    const samples: StatsSample[] = [];
    for await (const { name, data } of eventsOf(response)) {
      if (name === "stats") stats.push(data as Stats);
      if (name === "sample") samples.push(data as StatsSample);
      if (samples.length === 1 && stats.length > 2) break;
    }
    const [first, second] = stats;
    assert.deepEqual(first?.history.stepSeconds, 5);
    assert.equal(first?.queuePrefix, relay.prefix);
    assert.equal(second?.history, undefined);
    assert.equal(Date.parse(second?.at ?? "") > Date.parse(first?.at ?? ""), true);
    assert.equal(stats.at(-1)?.totals.delivered, 1);
    assert.deepEqual(samples[0]?.statuses, { "200": 1 });
  });
});

Deno.test("shutdown with open streams, one of which nobody reads → they end, and it does not wait for them", async () => {
  await withStage({ env: { OPS_PORT: "0", SHUTDOWN_GRACE_SEC: "20" } }, async ({ relay }) => {
    const unread = await neverRead(relay.opsUrl, "/events");
    const events = eventsOf(await fetch(`${relay.opsUrl}/events`));
    assert.equal((await events.next()).value?.name, "stats");
    const began = performance.now();
    const ended = (async () => {
      for await (const _ of events);
      return true;
    })();
    assert.equal(await relay.stop(), 0);
    assert.ok(performance.now() - began < 5_000, "the streams held the shutdown up");
    assert.ok(await ended, "the stream ended in order");
    unread.close();
  });
});

Deno.test("a client goes → its place is free for another", async () => {
  await withStage({ env: { OPS_PORT: "0" } }, async ({ relay }) => {
    const connections = await Promise.all(
      Array.from({ length: 32 }, () => neverRead(relay.opsUrl, "/events")),
    );
    const status = async (): Promise<number> => {
      const response = await fetch(`${relay.opsUrl}/events`);
      await response.body?.cancel();
      return response.status;
    };
    await eventually(async () => assert.equal(await status(), 503));
    connections[0]?.close();
    await eventually(async () => assert.equal(await status(), 200));
    for (const connection of connections.slice(1)) connection.close();
  });
});

Deno.test("readers that never read, and scrapers that hang → tasks are as fast as before", async () => {
  const env = { OPS_PORT: "0", RATE_LIMIT_MAX_REQUESTS: "100000", CONCURRENCY: "20" };
  await withStage({ env }, async (stage) => {
    const { relay } = stage;
    await secondsFor(stage, 500); // the first of all are slower
    const alone = await secondsFor(stage, 1_000);
    const connections = await Promise.all(
      Array.from(
        { length: 30 },
        (_, n) => neverRead(relay.opsUrl, n % 2 === 0 ? "/events" : "/metrics"),
      ),
    );
    const beside = await secondsFor(stage, 1_000);
    assert.ok(beside < 2 * alone + 0.5, `${beside} s beside them, ${alone} s without`);
    await withOperator(relay, async (operator) => {
      await eventually(async () => {
        const { totals } = JSON.parse((await operator.get("/stats")).text) as Stats;
        assert.equal(totals.delivered, 2_500);
      });
    });
    for (const connection of connections) connection.close();
  });
});
