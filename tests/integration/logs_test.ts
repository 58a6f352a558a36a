/**
 * The log of a relay that has every secret and a payload worth hiding: one wide line an attempt, and
 * nothing in it that is nobody's business.
 *
 * @module
 */
import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import { attemptLines, withStage } from "./stage.ts";

const SECRETS = {
  INGEST_TOKEN: "ingest-s3cret",
  OPS_TOKEN: "ops-s3cret",
  BACKEND_AUTHORIZATION: "Bearer backend-s3cret",
  SIGNING_SECRET: "whsec_c2lnbmluZy1zM2NyZXQtb2YtYS1yZWxheQ==",
};
const HIDDEN = /s3cret|c2lnbmluZy1zM2|p4yl0ad|4nswer/;

const AUTHORIZED = { authorization: "Bearer ingest-s3cret" };

Deno.test("a task that fails and is delivered, one that fails, one that is refused → a line an attempt, no secret, no payload", async () => {
  const env = { ...SECRETS, OPS_PORT: "0", LOG_LEVEL: "debug", PERMANENT_STATUSES: "422" };
  const answer = ({ body, headers }: { body: Uint8Array; headers: Record<string, unknown> }) => {
    if (new TextDecoder().decode(body).includes("bad")) return { status: 422, body: "4nswer" };
    return { status: headers["task-attempt"] === "1" ? 500 : 200, body: "4nswer" };
  };
  await withStage({ env, answer }, async ({ relay, amqp, queues }) => {
    const id = await relay.accept('{"p4yl0ad":1}', { ...AUTHORIZED, "idempotency-key": "order-1" });
    const bad = await relay.accept('{"p4yl0ad":"bad"}', AUTHORIZED);
    assert.equal((await relay.post('{"p4yl0ad"', AUTHORIZED)).status, 400);
    assert.equal(
      (await relay.post('{"p4yl0ad":1}', { authorization: "Bearer wr0ng" })).status,
      401,
    );
    await amqp.publishRaw(queues.main, "p4yl0ad, and no JSON", {});
    await eventually(() => assert.equal(attemptLines(relay).length, 3));
    await relay.waitForLog(({ message }) => message === "invalid message set aside");

    const [first, second] = attemptLines(relay, id);
    const about = { task_id: id, idempotency_key: "order-1", max_attempts: 2 };
    assertLine(first, {
      ...about,
      attempt: 1,
      status: 500,
      outcome: "status",
      disposition: "retried",
      next_queue: queues.retries[0],
    });
    assertLine(second, {
      ...about,
      attempt: 2,
      status: 200,
      outcome: "ok",
      disposition: "delivered",
      next_queue: undefined,
    });
    assertLine(attemptLines(relay, bad)[0], {
      task_id: bad,
      idempotency_key: undefined,
      attempt: 1,
      max_attempts: 2,
      status: 422,
      outcome: "status",
      disposition: "failed",
      next_queue: queues.failed,
    });
    assert.equal(await relay.stop(), 0);
    assert.doesNotMatch(JSON.stringify(relay.logs) + relay.output, HIDDEN);
    assert.doesNotMatch(JSON.stringify(relay.logs) + relay.output, /wr0ng/);
  });
});

/** Asserts the properties of a line, and that its times are numbers. */
function assertLine(
  line: Readonly<Record<string, unknown>> | undefined,
  expected: Readonly<Record<string, unknown>>,
): void {
  assert.ok(line);
  const found = Object.keys(expected).map((name) => [name, line[name]]);
  assert.deepEqual(Object.fromEntries(found), expected);
  for (const name of ["queue_age_ms", "limiter_wait_ms", "duration_ms"]) {
    assert.equal(typeof line[name], "number", name);
  }
}

Deno.test("LOG_FORMAT=pretty → one line an attempt as well, no secret, no payload", async () => {
  const env = { ...SECRETS, LOG_FORMAT: "pretty", LOG_LEVEL: "debug", INBOUND_PORT: "0" };
  await withStage({ env, ready: false }, async ({ relay, backend }) => {
    const address = await eventually(() => {
      const found = /ingest listening.*host=(\S+) port=(\d+)/.exec(relay.output);
      assert.ok(found);
      return `http://${found[1]}:${found[2]}/queue/tasks`;
    });
    const headers = { ...AUTHORIZED, "content-type": "application/json" };
    await eventually(async () => {
      const response = await fetch(address, { method: "POST", headers, body: '{"p4yl0ad":1}' });
      await response.body?.cancel();
      assert.equal(response.status, 202);
    });
    await backend.waitFor(1);
    await eventually(() => assert.match(relay.output, /attempt .*disposition=delivered/));
    const lines = relay.output.split("\n").filter((line) => line.includes("disposition="));
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /task_id=\S+ .*attempt=1 .*status=200 duration_ms=\d+ outcome=ok/);
    assert.doesNotMatch(relay.output, HIDDEN);
  });
});
