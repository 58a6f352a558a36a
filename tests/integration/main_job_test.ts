/**
 * The main job with nothing in its way: what a client posts, what lies in RabbitMQ, what the backend
 * gets, what the log says of it and what it must never say.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Answer, BackendRequest } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { attemptLines, requestsOf, type Stage, withStage } from "./stage.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CHILD_OF_TRACEPARENT = /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/;
const ISO_DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The one request that the backend got for the task `id`. */
async function onlyRequest({ backend }: Stage, id: string): Promise<BackendRequest> {
  return await eventually(() => {
    const [request, ...more] = requestsOf(backend, id);
    assert.ok(request, "the task did not reach the backend");
    assert.equal(more.length, 0);
    return request;
  });
}

Deno.test("a posted task is answered 202 and reaches the backend with the contract's headers", async () => {
  const env = { BACKEND_AUTHORIZATION: "Basic YTpi", BACKEND_PATH: "/tasks?from=relay" };
  await withStage({ env }, async (stage) => {
    const { relay, backend } = stage;
    const before = Date.now();
    const answer = await relay.post('{"n":1}', {
      "content-type": "application/vnd.api+json; charset=utf-8",
      "idempotency-key": "order 4711",
      "traceparent": TRACEPARENT,
      "tracestate": "vendor=1",
      "authorization": "Bearer of the client",
      "cookie": "client=1",
    });
    const id = String(answer.json["id"]);
    assert.equal(answer.status, 202);
    assert.deepEqual(answer.json, { id, status: "queued" });
    assert.equal(answer.headers["location"], `/queue/tasks/${id}`);
    assert.match(String(answer.headers["content-type"]), /^application\/json\b/);

    const { headers, method, url, wallAt } = await onlyRequest(stage, id);
    assert.equal(`${method} ${url}`, "POST /tasks?from=relay");
    const { "task-enqueued-at": enqueuedAt = "", traceparent, connection: _, ...rest } = headers;
    assert.match(String(traceparent), CHILD_OF_TRACEPARENT);
    assert.notEqual(traceparent, TRACEPARENT);
    assert.deepEqual(rest, {
      "host": `127.0.0.1:${backend.port}`,
      "content-length": "7",
      "content-type": "application/vnd.api+json; charset=utf-8",
      "task-id": id,
      "task-attempt": "1",
      "task-max-attempts": "2",
      "idempotency-key": "order 4711",
      "tracestate": "vendor=1",
      "authorization": "Basic YTpi",
    });
    assert.match(enqueuedAt, ISO_DATE);
    assert.ok(before <= Date.parse(enqueuedAt) && Date.parse(enqueuedAt) <= wallAt);
  });
});

Deno.test("a task without a key or a trace: its id is the key, and nothing else is made up", async () => {
  await withStage({}, async (stage) => {
    const id = await stage.relay.accept("{}");
    const { headers } = await onlyRequest(stage, id);
    assert.equal(headers["idempotency-key"], id);
    assert.equal(headers["content-type"], "application/json");
    const names = Object.keys(headers).filter((name) => name !== "connection").sort();
    assert.deepEqual(names, [
      "content-length",
      "content-type",
      "host",
      "idempotency-key",
      "task-attempt",
      "task-enqueued-at",
      "task-id",
      "task-max-attempts",
    ]);
  });
});

Deno.test("a waiting task lies in RabbitMQ as the contract says, and is persistent", async () => {
  const hold = (): Answer => ({ hang: true });
  const env = { PREFETCH_COUNT: "1", BACKEND_TIMEOUT: "60" };
  await withStage({ env, answer: hold }, async ({ relay, backend, amqp, queues }) => {
    await relay.accept('"holds the one place at the backend"');
    await backend.waitFor(1);
    const before = Date.now();
    const id = await relay.accept(' {"a":1}\n', {
      "idempotency-key": '"quoted \\"key\\""',
      "traceparent": TRACEPARENT,
      "tracestate": "vendor=1",
    });
    const plain = await relay.accept("1", { "content-type": "application/problem+json" });
    const after = Date.now();
    await relay.kill();
    await eventually(async () => assert.equal(await amqp.depth(queues.main), 3));
    const messages = await amqp.peekAll(queues.main);
    const [keyed, bare] = [id, plain].map((wanted) => messages.find((m) => m.id === wanted));
    assert.ok(keyed && bare);

    assert.deepEqual(new TextDecoder().decode(keyed.body), ' {"a":1}\n');
    const { "relay-enqueued-at": enqueuedAt, ...headers } = keyed.headers;
    assert.deepEqual(headers, {
      "relay-attempt": 1,
      "idempotency-key": 'quoted "key"',
      "traceparent": TRACEPARENT,
      "tracestate": "vendor=1",
    });
    assert.ok(typeof enqueuedAt === "number" && before <= enqueuedAt && enqueuedAt <= after);
    assert.equal(keyed.properties.timestamp, Math.floor(enqueuedAt / 1000));
    assert.equal(keyed.properties.contentType, "application/json");
    assert.equal(keyed.properties.deliveryMode, 2);

    assert.deepEqual(Object.keys(bare.headers).sort(), ["relay-attempt", "relay-enqueued-at"]);
    assert.equal(bare.properties.contentType, "application/problem+json");
  });
});

/** Texts that a re-serialising relay would change. */
const EXACT_PAYLOADS = [
  '{"id":12345678901234567890,"a":1.0,"a":2}',
  '  {"id":12345678901234567890, "a":1.0, "a":2} \r\n\n',
  '{"__proto__":{"x":1},"constructor":null}',
  '"\\ud800 lone, \\u0000 null, \\/ slash, ü, 𝒳"',
  "1E400",
  "-0.0",
  "null",
  "[]\t",
];

Deno.test("case 17: numbers beyond 2^53, repeated names, spaces: the same bytes at the backend, also after a retry", async () => {
  const answer = ({ headers }: BackendRequest): Answer => ({
    status: headers["task-attempt"] === "1" ? 500 : 200,
  });
  await withStage({ answer }, async ({ relay, backend }) => {
    const large = new TextEncoder().encode(JSON.stringify("x".repeat(262_144 - 2)));
    const payloads = [...EXACT_PAYLOADS.map((text) => new TextEncoder().encode(text)), large];
    const ids = await Promise.all(payloads.map((bytes) => relay.accept(bytes)));
    await backend.waitFor(2 * payloads.length);
    for (const [n, payload] of payloads.entries()) {
      const bodies = requestsOf(backend, ids[n] ?? "").map(({ body }) => Buffer.from(body));
      assert.equal(bodies.length, 2);
      const text = EXACT_PAYLOADS[n] ?? "the largest payload";
      for (const body of bodies) assert.ok(body.equals(payload), `changed on its way: ${text}`);
    }
  });
});

Deno.test("each attempt is one log line with the contract's fields, in numbers and words a query can use", async () => {
  let status = 503;
  await withStage({ answer: () => ({ status }) }, async ({ relay, queues }) => {
    const id = await relay.accept("1", { "idempotency-key": "key-1" });
    await relay.waitForLog(({ task_id }) => task_id === id);
    status = 200;
    await relay.waitForLog(({ attempt }) => attempt === 2);
    const [first, second, ...more] = attemptLines(relay, id).map(measured);
    assert.deepEqual(more, []);
    const shared = {
      level: "INFO",
      message: "attempt",
      task_id: id,
      idempotency_key: "key-1",
      max_attempts: 2,
      queue_age_ms: "ms",
      limiter_wait_ms: "ms",
      duration_ms: "ms",
    };
    assert.deepEqual(first, {
      ...shared,
      attempt: 1,
      status: 503,
      outcome: "status",
      disposition: "retried",
      next_queue: queues.retries[0],
    });
    assert.deepEqual(second, {
      ...shared,
      attempt: 2,
      status: 200,
      outcome: "ok",
      disposition: "delivered",
    });
  });
});

/** The line without what every line has, its durations replaced: whole, and not below zero. */
function measured(
  { "@timestamp": _at, logger: _from, ...line }: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const entries = Object.entries(line).map(([name, value]) => {
    const isDuration = name.endsWith("_ms") && Number.isSafeInteger(value) && Number(value) >= 0;
    return [name, isDuration ? "ms" : value];
  });
  return Object.fromEntries(entries);
}

Deno.test("no payload and no secret is in any line of the log, at LOG_LEVEL=debug", async () => {
  const env = {
    LOG_LEVEL: "debug",
    INGEST_TOKEN: "SECRET-ingest",
    BACKEND_AUTHORIZATION: "Bearer SECRET-backend",
    SIGNING_SECRET: "whsec_SECRETsigningSECRETsigningSECRET",
    MAX_TASK_BYTES: "1000",
  };
  const echo = ({ body }: BackendRequest): Answer => ({ status: 500, body });
  await withStage({ env, answer: echo }, async ({ relay, backend, amqp, queues }) => {
    const token = { authorization: "Bearer SECRET-ingest" };
    await relay.accept('{"payload":"MARKER"}', token);
    await backend.waitFor(1);
    assert.equal(backend.requests[0]?.headers["authorization"], "Bearer SECRET-backend");
    assert.equal((await relay.post('"MARKER"')).status, 401);
    assert.equal((await relay.post('"MARKER"', { authorization: "Bearer MARKER" })).status, 401);
    assert.equal((await relay.post('{"MARKER"', token)).status, 400);
    assert.equal((await relay.post("MARKER", { ...token, "content-type": "a/b" })).status, 415);
    assert.equal((await relay.post(`"${"MARKER".repeat(200)}"`, token)).status, 413);
    await amqp.publishRaw(queues.main, "MARKER, not JSON", { messageId: "foreign" });
    await backend.waitFor(2);
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), 2));
    backend.answer = (): Answer => ({ raw: "MARKER is no HTTP\r\n\r\n", thenClose: true });
    await relay.accept('"MARKER"', token);
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), 3));
    assert.equal(await relay.stop(), 0);

    const everything = relay.logs.map((line) => JSON.stringify(line)).join("\n") + relay.output;
    assert.match(everything, /"task_id":"foreign"/);
    assert.doesNotMatch(everything, /MARKER|SECRET|guest/);
  });
});

Deno.test("a password that RabbitMQ refuses is in no line of the log", async () => {
  const env = { LOG_LEVEL: "debug", RABBIT_PASSWORD: "SECRET-rabbit ü" };
  await withStage({ env, ready: false }, async ({ relay }) => {
    await relay.waitForLog(({ message }) => message === "broker connection failed");
    assert.equal(await relay.stop(), 0);
    const everything = relay.logs.map((line) => JSON.stringify(line)).join("\n") + relay.output;
    assert.doesNotMatch(everything, /SECRET/);
  });
});
