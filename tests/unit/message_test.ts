/**
 * What is published again: a task as it is, a message that can't be understood as far as it is safe.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Message } from "amqplib";
import fc from "fast-check";
import { failedMessage, failedTask, rawMessage, taskMessage } from "../../src/broker/message.ts";
import type { OutgoingMessage } from "../../src/broker/publisher.ts";
import { HEADER, readMessage } from "../../src/task.ts";
import { anyTask, aTask } from "../support/tasks.ts";

const FAILURE = {
  reason: "attempts_exhausted",
  failedAt: 1_764_504_000_000,
  lastStatus: 500,
  lastError: "no",
} as const;
const INVALID = { reason: "invalid_message", failedAt: 7, lastError: "not JSON" } as const;

/** A message as amqplib delivers it. */
function delivered(
  headers: Record<string, unknown>,
  contentType: unknown = "text/plain",
): Message {
  const none = {
    contentEncoding: undefined,
    deliveryMode: undefined,
    priority: undefined,
    correlationId: undefined,
    replyTo: undefined,
    expiration: undefined,
    messageId: undefined,
    timestamp: undefined,
    type: undefined,
    userId: undefined,
    appId: undefined,
    clusterId: undefined,
  };
  return {
    content: Buffer.from("what is this?"),
    fields: { deliveryTag: 1, redelivered: false, exchange: "", routingKey: "tasks.main" },
    properties: { ...none, contentType, headers },
  };
}

function failed(headers: Record<string, unknown>, contentType?: unknown): OutgoingMessage {
  return failedMessage("t1", delivered(headers, contentType), INVALID);
}

/** What amqplib refuses to encode, or RabbitMQ to take: then it would be tried again for ever. */
function assertPublishable({ options }: OutgoingMessage): void {
  const { headers = {}, contentType = "", messageId } = options;
  assert.ok(Buffer.byteLength(String(contentType)) <= 255, "content type");
  assert.ok(Buffer.byteLength(messageId) <= 255, "id");
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    assert.ok(!name.startsWith("x-"), `${name} is published again`);
    assert.ok(Buffer.byteLength(name) <= 255, "name of a header");
    assert.ok(typeof value === "string" || Number.isSafeInteger(value), `${name}: ${value}`);
    bytes += Buffer.byteLength(name) + Buffer.byteLength(String(value)) + 16;
  }
  assert.ok(bytes <= 65_536, `${bytes} bytes of headers`);
}

Deno.test("any task → a message from which it is read again", () => {
  fc.assert(
    fc.property(anyTask, (task) => {
      const message = taskMessage(task);
      assertPublishable(message);
      const { messageId, contentType, headers } = message.options;
      const raw = { body: message.body, id: messageId, contentType, headers: headers ?? {} };
      assert.deepEqual(readMessage(raw, 0), { kind: "task", task });
    }),
  );
});

Deno.test("a failed task → its own headers and the reason", () => {
  const { options, body } = failedTask(aTask({ attempt: 28 }), FAILURE);
  assert.deepEqual(options.headers, {
    "relay-attempt": 28,
    "relay-enqueued-at": aTask().enqueuedAt,
    "relay-reason": "attempts_exhausted",
    "relay-failed-at": 1_764_504_000_000,
    "relay-last-status": 500,
    "relay-last-error": "no",
  });
  assert.deepEqual(body, aTask().body);
});

Deno.test("an invalid message → its bytes, its id, its harmless headers, and the reason", () => {
  const { body, options } = failed({ "relay-attempt": "abc", trace: "7", tries: 3 });
  assert.equal(new TextDecoder().decode(body), "what is this?");
  assert.deepEqual(options, {
    messageId: "t1",
    contentType: "text/plain",
    headers: {
      "relay-attempt": "abc",
      trace: "7",
      tries: 3,
      "relay-reason": "invalid_message",
      "relay-failed-at": 7,
      "relay-last-error": "not JSON",
    },
  });
});

Deno.test("case 16: x-death and other x- headers of an invalid message → not published again", () => {
  const { options } = failed({ "x-death": "x", "x-delivery-count": 3, "x-first-death-queue": "q" });
  const names = Object.keys(options.headers ?? {});
  assert.deepEqual(names, ["relay-reason", "relay-failed-at", "relay-last-error"]);
});

Deno.test("Infinity, NaN, null, objects in the headers of an invalid message → left out", () => {
  const { options } = failed({
    a: Infinity,
    b: NaN,
    c: null,
    d: { e: 1 },
    f: [1],
    g: 1.5,
    h: 2e16,
  });
  const names = Object.keys(options.headers ?? {});
  assert.deepEqual(names, ["relay-reason", "relay-failed-at", "relay-last-error"]);
});

Deno.test("an invalid message that claims to have failed before → its claim is replaced", () => {
  const { options } = failed({ [HEADER.reason]: "permanent_status", [HEADER.failedAt]: 1 });
  assert.equal(options.headers?.[HEADER.reason], "invalid_message");
  assert.equal(options.headers?.[HEADER.failedAt], 7);
});

Deno.test("an invalid message with anything in headers and content type → can be published", () => {
  const names = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("x-death", "é".repeat(200)),
  );
  const values = fc.oneof(
    fc.anything(),
    fc.constantFrom("€".repeat(12_000), "x".repeat(40_000), "\0".repeat(30_000)),
  );
  const types = fc.oneof(fc.anything(), fc.constant("\ufffd".repeat(255)));
  fc.assert(
    fc.property(fc.dictionary(names, values), types, (headers, contentType) => {
      assertPublishable(failed(headers, contentType));
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("a message without properties → read as one without headers", () => {
  const bare = delivered({});
  bare.properties.headers = undefined;
  assert.deepEqual(rawMessage(bare).headers, {});
  assert.ok(failedMessage("t1", bare, INVALID).options.headers);
});
