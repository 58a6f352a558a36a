/**
 * Messages of other producers in the main queue: what can be understood is a first attempt, what
 * can't is laid aside once, and neither is ever a loop or the end of the relay.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Options } from "amqplib";
import type { Answer, BackendRequest } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { requestsOf, withStage } from "./stage.ts";

interface Foreign {
  readonly title: string;
  readonly body?: string | Uint8Array;
  readonly properties?: Options.Publish;
}

function withHeaders(title: string, headers: Readonly<Record<string, unknown>>): Foreign {
  return { title, properties: { headers } };
}

/** About 56 KB of headers, with nested tables and arrays; amqplib sends no more than 64 KB. */
const HUGE_HEADERS: Readonly<Record<string, unknown>> = {
  ...Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`header-${n}`, "x".repeat(120)])),
  nested: { deep: { deeper: [1, 2, { end: true }] } },
  list: [[[["x"]]]],
};

/** As large as headers can be: with one more the message could not be published again. */
const FULL_HEADERS = { text: "€".repeat(21_800) };

/** An earlier life in other queues, as a shovel or a copying consumer leaves it on a message. */
const X_DEATH = {
  "x-death": [{ queue: "elsewhere", reason: "expired", count: 3, exchange: "" }],
  "x-first-death-queue": "elsewhere",
  "x-first-death-reason": "expired",
};

const INVALID: readonly Foreign[] = [
  { title: "not JSON", body: "hello" },
  { title: "JSON cut off", body: '{"a":' },
  { title: "an empty body", body: "" },
  { title: "a byte order mark", body: "\uFEFF{}" },
  { title: "invalid UTF-8", body: Uint8Array.of(0x22, 0xff, 0xfe, 0x22) },
  { title: "10,000 nested arrays", body: "[".repeat(10_000) + "]".repeat(10_000) },
  { title: "not JSON, huge headers", body: "?", properties: { headers: HUGE_HEADERS } },
  { title: "not JSON, full headers", body: "?", properties: { headers: FULL_HEADERS } },
  { title: "not JSON, x-death", body: "?", properties: { headers: X_DEATH } },
  withHeaders('relay-attempt "abc"', { "relay-attempt": "abc" }),
  withHeaders('relay-attempt "1"', { "relay-attempt": "1" }),
  withHeaders("relay-attempt -1", { "relay-attempt": -1 }),
  withHeaders("relay-attempt 0", { "relay-attempt": 0 }),
  withHeaders("relay-attempt 1.5", { "relay-attempt": 1.5 }),
  withHeaders("relay-attempt 1e9", { "relay-attempt": 1e9 }),
  withHeaders("relay-attempt 1e308", { "relay-attempt": 1e308 }),
  withHeaders("relay-attempt true", { "relay-attempt": true }),
  withHeaders("relay-attempt null", { "relay-attempt": null }),
  withHeaders("relay-attempt a table", { "relay-attempt": { value: 1 } }),
  withHeaders("relay-enqueued-at a word", { "relay-enqueued-at": "yesterday" }),
  withHeaders("relay-enqueued-at -1", { "relay-enqueued-at": -1 }),
  withHeaders("relay-enqueued-at 1e300", { "relay-enqueued-at": 1e300 }),
  withHeaders("idempotency-key with CRLF", { "idempotency-key": "a\r\nX-Injected: 1" }),
  withHeaders("idempotency-key a number", { "idempotency-key": 42 }),
  withHeaders("idempotency-key of 20,000", { "idempotency-key": "x".repeat(20_000) }),
  withHeaders("traceparent with NUL", { "traceparent": "00-\x00" }),
  withHeaders("tracestate with non-ASCII", { "tracestate": "vendor=ü" }),
  { title: "messageId with CRLF", properties: { messageId: "a\r\nX-Injected: 1" } },
  { title: "messageId with non-ASCII", properties: { messageId: "aufträge" } },
  { title: "type with CRLF", properties: { contentType: "application/json\r\nX-Injected: 1" } },
];

const VALID: readonly Foreign[] = [
  { title: "nothing but a body" },
  { title: "a transient message", properties: { persistent: false } },
  { title: "messageId of 255 characters", properties: { messageId: "i".repeat(255) } },
  { title: "another content type", properties: { contentType: "text/plain" } },
  { title: "huge headers", properties: { headers: HUGE_HEADERS } },
  { title: "full headers", properties: { headers: FULL_HEADERS } },
  withHeaders("x-death from elsewhere", X_DEATH),
  withHeaders("CC to a queue that isn't there", { CC: ["no such queue"] }),
  withHeaders("relay-attempts no JSON", { "relay-attempts": "[{" }),
  withHeaders("relay-attempts no list", { "relay-attempts": '{"a":1}' }),
  withHeaders("relay-attempts a list of anything", { "relay-attempts": "[null,1,{}]" }),
  withHeaders("relay-attempts and a key that fill the headers", {
    "relay-attempts": JSON.stringify([{
      time: 1,
      ms: 1,
      outcome: "ok",
      error: "x".repeat(57_200),
    }]),
    "idempotency-key": "k".repeat(8_192),
  }),
  withHeaders("relay-attempts a number", { "relay-attempts": 7 }),
  withHeaders("a reason from an earlier failure", { "relay-reason": "attempts_exhausted" }),
];

/** Each with a body of its own unless the body is the point, so that it can be told apart. */
function bodyOf({ title, body = JSON.stringify({ title }) }: Foreign): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body);
}

Deno.test("case 14: messages that can't be understood: each lies in failed once, untouched, and the relay goes on", async () => {
  await withStage({}, async ({ relay, backend, amqp, queues }) => {
    const before = Date.now();
    for (const foreign of INVALID) {
      await amqp.publishRaw(queues.main, bodyOf(foreign), foreign.properties);
    }
    const last = await relay.accept('"after them"');
    await eventually(() => assert.equal(requestsOf(backend, last).length, 1));
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), INVALID.length));
    const failed = await amqp.peekAll(queues.failed);

    assert.deepEqual(
      failed.map(({ body }) => Buffer.from(body).toString("base64")).sort(),
      INVALID.map((foreign) => bodyOf(foreign).toString("base64")).sort(),
    );
    for (const { id, headers, properties } of failed) {
      assert.match(id, /^[\x20-\x7e]{1,255}$/);
      assert.equal(headers["relay-reason"], "invalid_message");
      assert.ok(Number(headers["relay-failed-at"]) >= before);
      assert.notEqual(headers["relay-last-error"] ?? "", "");
      assert.deepEqual(Object.keys(headers).filter((name) => name.startsWith("x-")), []);
      assert.equal(properties.deliveryMode, 2);
    }
    assert.equal(backend.requests.length, 1);
    assert.equal(await amqp.depth(queues.main), 0);
    assert.equal(await relay.stop(), 0);
    const decided = relay.logs.filter(({ message }) => message === "invalid message set aside");
    assert.equal(decided.length, INVALID.length, "one line for each, not one for each try");
  });
});

Deno.test("case 14: messages of another producer with a payload: first attempts, retried and delivered as any task", async () => {
  const answer = ({ headers }: BackendRequest): Answer => ({
    status: headers["task-attempt"] === "1" ? 500 : 200,
  });
  await withStage({ answer }, async ({ relay, backend, amqp, queues }) => {
    for (const foreign of VALID) {
      await amqp.publishRaw(queues.main, bodyOf(foreign), foreign.properties);
    }
    await backend.waitFor(2 * VALID.length);
    for (const foreign of VALID) {
      const requests = backend.requests.filter(({ body }) => bodyOf(foreign).equals(body));
      const attempts = requests.map(({ headers }) => headers["task-attempt"]);
      assert.deepEqual(attempts, ["1", "2"], foreign.title);
      const [id, ...others] = new Set(requests.map(({ headers }) => headers["task-id"]));
      assert.equal(others.length, 0, `${foreign.title}: the task changed its id`);
      const { messageId, contentType = "application/json" } = foreign.properties ?? {};
      assert.ok(id && (messageId === undefined || messageId === id), foreign.title);
      assert.equal(requests[1]?.headers["content-type"], contentType, foreign.title);
    }
    assert.equal(await relay.stop(), 0);
    assert.deepEqual(Object.values(await amqp.depths(queues.all)), [0, 0, 0]);
  });
});
