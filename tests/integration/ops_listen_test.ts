/**
 * The operators' listener: apart from ingest's, for whom it answers, and what it does without a broker.
 *
 * @module
 */
import assert from "node:assert/strict";
import { request } from "undici";
import { withOperator } from "../support/operator.ts";
import { runToEnd, withStage } from "./stage.ts";

async function statusOf(url: string, headers: Record<string, string> = {}): Promise<number> {
  const { statusCode, body } = await request(`${url}/failed`, { headers });
  await body.dump();
  return statusCode;
}

Deno.test("without a token: the own machine is answered; a page of another origin, or by a name of its own, is not", async () => {
  await withStage({ env: { OPS_PORT: "0" } }, async ({ relay }) => {
    assert.match(relay.opsUrl, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.notEqual(relay.opsUrl, relay.url);
    assert.equal(await statusOf(relay.opsUrl), 200);
    assert.equal(await statusOf(relay.opsUrl, { host: "evil.example:8081" }), 403);
    assert.equal(await statusOf(relay.opsUrl, { origin: "https://evil.example" }), 403);
    assert.equal(await statusOf(relay.opsUrl, { "sec-fetch-site": "cross-site" }), 403);
    assert.equal((await relay.get("/failed")).status, 404, "not at ingest's");
    assert.equal(await relay.stop(), 0);
  });
});

Deno.test("with OPS_TOKEN only who has it is answered, and it is never logged", async () => {
  const env = { OPS_PORT: "0", OPS_TOKEN: "0perat0r", LOG_LEVEL: "debug" };
  await withStage({ env }, async ({ relay }) => {
    assert.equal(await statusOf(relay.opsUrl), 401);
    assert.equal(await statusOf(relay.opsUrl, { authorization: "Bearer wrong" }), 401);
    assert.equal(await statusOf(relay.opsUrl, { authorization: "Bearer 0perat0r" }), 200);
    assert.doesNotMatch(JSON.stringify(relay.logs) + relay.output, /0perat0r/);
  });
});

Deno.test("OPS_HOST that is not loopback without OPS_TOKEN → a configuration error, exit 2", async () => {
  const { status, output } = await runToEnd({ env: { OPS_HOST: "0.0.0.0", OPS_PORT: "0" } });
  assert.equal(status, 2);
  assert.match(output, /OPS_TOKEN must be set/);
});

Deno.test("OPS_PORT is in use → says which and what to do, exit 1", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const { status, output } = await runToEnd({ env: { OPS_PORT: String(port) } });
  assert.equal(status, 1);
  assert.match(output, new RegExp(`operators on 127\\.0\\.0\\.1 port ${port}.*in use.*OPS_PORT`));
});

Deno.test("the failed queue is not there → 503 with Retry-After, a problem", async () => {
  await withStage({ env: { OPS_PORT: "0" } }, async ({ relay, amqp, queues }) => {
    await amqp.deleteQueue(queues.failed);
    await withOperator(relay, async (operator) => {
      const { status, headers } = await operator.get("/failed");
      assert.deepEqual([status, headers["retry-after"]], [503, "5"]);
      assert.equal(headers["content-type"], "application/problem+json");
    });
  });
});
