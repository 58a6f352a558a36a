/**
 * What a relay says of itself while its broker is away or a queue is missing, and that it heals
 * without anybody's help.
 *
 * @module
 */
import assert from "node:assert/strict";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import type { RelayProcess } from "../support/relay.ts";
import { withTcpRelay } from "../support/tcp_relay.ts";
import { requestsOf, withStage } from "./stage.ts";

/** Asserts the answer to a task that can't be taken now. */
async function assertRefused(relay: RelayProcess): Promise<void> {
  const { status, headers, json } = await relay.post('{"n":1}');
  assert.equal(status, 503);
  assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
  assert.match(String(headers["content-type"]), /^application\/problem\+json/);
  assert.match(String(json["detail"]), /not accepted.*again after \d+ seconds/i);
}

Deno.test("the broker is away at the start: alive and not ready, 503 to tasks; when it comes, ready by itself", async () => {
  const { host: targetHost, port: targetPort } = rabbitAddress();
  await withTcpRelay({ targetHost, targetPort }, async (network) => {
    network.refuse();
    const env = { RABBIT_HOST: network.hostname, RABBIT_PORT: String(network.port) };
    await withStage({ env, ready: false }, async ({ relay, backend }) => {
      await relay.waitForLog(({ message }) => message === "broker connection failed");
      const health = await relay.get("/healthz");
      assert.equal(health.status, 200);
      assert.equal(health.json["broker"], "disconnected");
      const readiness = await relay.get("/readyz");
      assert.equal(readiness.status, 503);
      for (const part of ["publisher", "consumer", "broker"]) {
        assert.equal(typeof readiness.json[part], "string", `${part} is not in ${readiness.text}`);
      }
      await assertRefused(relay);

      network.accept();
      await relay.ready();
      const id = await relay.accept('{"n":2}');
      await eventually(() => assert.equal(requestsOf(backend, id).length, 1));
      const parts = {
        publisher: "connected",
        consumer: "consuming",
        broker: "connected",
        ledger: "ready",
      };
      const { json } = await relay.get("/readyz");
      assert.deepEqual(json, { status: "ok", ...parts });
      assert.equal(backend.requests.length, 1, "a task that was answered 503 was delivered");
      assert.equal(await relay.stop(), 0);
    });
  });
});

Deno.test("case 11: the queue behind a confirm was deleted while the consumer is away: 503 and not 202, then it heals", async () => {
  const env = { RATE_LIMIT_MAX_REQUESTS: "1", RATE_LIMIT_WINDOW_SEC: "3600" };
  await withStage({ env }, async ({ relay, amqp, queues }) => {
    await relay.accept("1");
    await relay.accept("2");
    await relay.waitForLog(({ message }) => message.startsWith("consumer suspended"));
    await eventually(async () => assert.equal(await amqp.consumers(queues.main), 0));
    await amqp.deleteQueue(queues.main);
    await assertRefused(relay);
    await relay.waitForLog(({ level, queue }) => level === "ERROR" && queue === queues.main);
    const id = await eventually(() => relay.accept("3"));
    assert.deepEqual((await amqp.peekAll(queues.main)).map((message) => message.id), [id]);
  });
});
