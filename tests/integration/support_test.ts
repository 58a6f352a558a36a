/**
 * Tests of the test support that need a RabbitMQ: the counting that every fault test ends with, and
 * the cuts that are exact to the frame.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import amqplib from "amqplib";
import { type Stock, type TestAmqp, withAmqp } from "../support/amqp.ts";
import { selfSignedCertificate } from "../support/certificate.ts";
import { queueNames } from "../support/queues.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { type TcpRelay, withTcpRelay } from "../support/tcp_relay.ts";

const LADDER = "1x0s,2x0.2s";

/** Queues as a relay declares them, and their removal afterwards. */
async function withQueues(
  fn: (amqp: TestAmqp, names: ReturnType<typeof queueNames>) => Promise<void>,
): Promise<void> {
  const rabbit = rabbitAddress();
  const prefix = uniquePrefix();
  const names = queueNames(prefix, LADDER);
  const connection = await amqplib.connect({ hostname: rabbit.host, port: rabbit.port });
  const channel = await connection.createChannel();
  const quorum = { "x-queue-type": "quorum" };
  const toMain = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": names.main };
  await channel.assertQueue(names.main, {
    arguments: { ...quorum, "x-single-active-consumer": true },
  });
  await channel.assertQueue(names.failed, { arguments: quorum });
  for (const retry of names.retries) {
    await channel.assertQueue(retry, {
      arguments: { ...quorum, ...toMain, "x-message-ttl": 200 },
    });
  }
  await connection.close();
  await withAmqp(rabbit, async (amqp) => {
    try {
      await fn(amqp, names);
    } finally {
      await amqp.deletePrefix(prefix, LADDER);
    }
    assert.deepEqual(
      Object.values(await amqp.depths(names.all)),
      [undefined, undefined, undefined],
    );
  });
}

Deno.test("peekAll shows every message in order, again and again; drain takes them", async () => {
  await withQueues(async (amqp, { main }) => {
    const ids = Array.from({ length: 3000 }, (_, i) => String(i));
    await Promise.all(
      ids.map((messageId) => amqp.publishRaw(main, `[${messageId}]`, { messageId })),
    );
    for (let reading = 0; reading < 3; reading++) {
      assert.deepEqual((await amqp.peekAll(main)).map(({ id }) => id), ids);
    }
    assert.equal(await amqp.depth(main), 3000);
    const bodies = (await amqp.drain(main)).map(({ body }) => new TextDecoder().decode(body));
    assert.deepEqual(bodies, ids.map((id) => `[${id}]`));
    assert.equal(await amqp.depth(main), 0);
  });
});

Deno.test("census: finds tasks that are on their way from a rung to the main queue", async () => {
  await withQueues(async (amqp, names) => {
    const [retry = ""] = names.retries;
    const ids = Array.from({ length: 200 }, (_, i) => `task-${i}`);
    for (const messageId of ids) await amqp.publishRaw(retry, "1", { messageId });
    const headers = { "relay-reason": "attempts_exhausted" };
    await amqp.publishRaw(names.failed, "1", { messageId: "lost cause", headers });
    const complete = (stock: Stock): void => {
      assert.deepEqual([...stock.waiting.keys()].sort(), ids.toSorted());
      assert.deepEqual([...stock.failed], [["lost cause", "attempts_exhausted"]]);
    };
    const stock = await amqp.census(names, complete);
    assert.equal(stock.messages.length, 201);
    await assert.rejects(
      amqp.census(names, ({ failed }) => assert.equal(failed.size, 2), { within: 100 }),
      /not true within/,
    );
    await eventually(async () => assert.equal(await amqp.depth(names.main), 200));
  });
});

/** A confirm channel through `relay`, and a publish that tells whether it was confirmed. */
async function publishThrough(relay: TcpRelay, queue: string, id: string): Promise<boolean> {
  const connection = await amqplib.connect({ hostname: relay.hostname, port: relay.port });
  connection.on("error", () => {});
  const gone = new Promise<false>((resolve) => connection.once("close", () => resolve(false)));
  const channel = await connection.createConfirmChannel();
  channel.on("error", () => {});
  channel.sendToQueue(queue, Buffer.from(id), { messageId: id });
  const confirmed = channel.waitForConfirms().then(() => true, () => false);
  const result = await Promise.race([gone, confirmed]);
  if (result) await connection.close();
  return result;
}

Deno.test("tcp relay: cuts exactly before a publish, after it, and before its confirm", async () => {
  const { host: targetHost, port: targetPort } = rabbitAddress();
  await withQueues(async (amqp, { failed: queue }) => {
    await withTcpRelay({ targetHost, targetPort, amqp: true }, async (relay) => {
      relay.onFrame = ({ name }) => name === "basic.publish" ? "cut-before" : "pass";
      assert.equal(await publishThrough(relay, queue, "cut before the publish"), false);
      relay.onFrame = ({ type, direction }) =>
        type === "body" && direction === "toServer" ? "cut-after" : "pass";
      assert.equal(await publishThrough(relay, queue, "cut after the body"), false);
      relay.onFrame = ({ name, direction }) =>
        name === "basic.ack" && direction === "toClient" ? "cut-before" : "pass";
      assert.equal(await publishThrough(relay, queue, "cut before the confirm"), false);
      relay.onFrame = undefined;
      assert.equal(await publishThrough(relay, queue, "no cut"), true);
    });
    await eventually(async () => assert.equal(await amqp.depth(queue), 3));
    assert.deepEqual(
      (await amqp.peekAll(queue)).map(({ id }) => id),
      ["cut after the body", "cut before the confirm", "no cut"],
    );
  });
});

Deno.test("tcp relay: with TLS it stands for a broker that speaks TLS", async () => {
  const { host: targetHost, port: targetPort, user, password } = rabbitAddress();
  const tls = await selfSignedCertificate();
  await withTcpRelay({ targetHost, targetPort, tls, amqp: true }, async ({ port }) => {
    const rabbit = { host: "localhost", port, user, password, tls: { ca: tls.cert } };
    const missing = await withAmqp(rabbit, (amqp) => amqp.depths(["no such queue"]));
    assert.deepEqual(missing, { "no such queue": undefined });
    await assert.rejects(withAmqp({ ...rabbit, tls: {} }, () => {}), /self-signed/);
  });
});
