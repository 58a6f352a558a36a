/**
 * Reading what lies in the queue: the relay's own messages come back as they were, anybody else's
 * is a task or has a reason.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { HEADER, readMessage, taskHeaders, withAttempt } from "../../src/task.ts";
import type { Content, RawMessage, Task } from "../../src/task.ts";
import { anyTask, aTask } from "../support/tasks.ts";

const NOW = 1_764_504_000_000;
const JSON_BODY = new TextEncoder().encode('{"a":1}');

function read(message: Partial<RawMessage>): Content {
  const whole = { body: JSON_BODY, id: "t1", contentType: "application/json", headers: {} };
  return readMessage({ ...whole, ...message }, NOW);
}

function readTask(message: Partial<RawMessage>): Task {
  const content = read(message);
  assert.ok(content.kind === "task", JSON.stringify(content));
  return content.task;
}

function problemOf(message: Partial<RawMessage>): string {
  const content = read(message);
  assert.ok(content.kind === "invalid", "taken for a task");
  return content.problem;
}

Deno.test("any task, published and read → the same task, the same bytes", () => {
  fc.assert(
    fc.property(anyTask, (task) => {
      const { id, body, contentType } = task;
      const content = readMessage({ id, body, contentType, headers: taskHeaders(task) }, NOW);
      assert.deepEqual(content, { kind: "task", task });
      assert.ok(content.kind === "task" && content.task.body === body);
    }),
    { numRuns: 500 },
  );
});

Deno.test("anything as headers, id and content type → a task or a reason, never an exception", () => {
  const ownHeaders = fc.dictionary(
    fc.constantFrom(...Object.values(HEADER)),
    fc.oneof(fc.anything(), fc.constantFrom("abc", -1, 1e9, NaN, "[null]", "{", "[[]]")),
  );
  const headers = fc.oneof(ownHeaders, fc.dictionary(fc.string(), fc.anything()));
  fc.assert(
    fc.property(
      headers,
      fc.anything(),
      fc.anything(),
      fc.uint8Array(),
      (headers, id, type, body) => {
        const content = readMessage({ body, id, contentType: type, headers }, NOW);
        const known = content.kind === "task" ? content.task.id : content.id;
        assert.match(known, /^[\x20-\x7e]+$/);
        if (content.kind === "invalid") return assert.ok(content.problem.length > 0);
        const { attempt, enqueuedAt, history } = content.task;
        assert.ok(Number.isInteger(attempt) && attempt >= 1 && attempt <= 10_000);
        assert.ok(!Number.isNaN(new Date(enqueuedAt).getTime()));
        for (const { time, ms, outcome } of history) {
          assert.deepEqual([typeof time, typeof ms, typeof outcome], [
            "number",
            "number",
            "string",
          ]);
        }
        for (const value of Object.values(taskHeaders(content.task))) {
          if (typeof value === "string") continue;
          assert.ok(Number.isSafeInteger(value), String(value));
        }
      },
    ),
    { numRuns: 2_000 },
  );
});

Deno.test("case 14: a message with none of the headers → a first attempt, enqueued now", () => {
  assert.deepEqual(readTask({}), aTask({ id: "t1", body: JSON_BODY, enqueuedAt: NOW }));
});

Deno.test("case 14: without an id and a content type → an id of its own, application/json", () => {
  const task = readTask({ id: undefined, contentType: undefined });
  assert.match(task.id, /^[0-9a-f-]{36}$/);
  assert.equal(task.contentType, "application/json");
});

for (const attempt of ["abc", "3", -1, 0, 1.5, 1e9, NaN, Infinity, null, true, {}, [1]]) {
  Deno.test(`case 14: relay-attempt is ${JSON.stringify(attempt)} (${typeof attempt}) → a reason`, () => {
    assert.match(problemOf({ headers: { [HEADER.attempt]: attempt } }), /relay-attempt/);
  });
}

for (const enqueuedAt of ["yesterday", -5, 0, 1.5, 1e16, Infinity, null]) {
  Deno.test(`case 14: relay-enqueued-at is ${JSON.stringify(enqueuedAt)} (${typeof enqueuedAt}) → a reason`, () => {
    assert.match(problemOf({ headers: { [HEADER.enqueuedAt]: enqueuedAt } }), /relay-enqueued-at/);
  });
}

for (const body of ["", "not JSON", '{"a":', "\ufeff{}", "[".repeat(100_000)]) {
  Deno.test(`case 14: another producer's ${JSON.stringify(body.slice(0, 12))} → a reason`, () => {
    assert.ok(problemOf({ body: new TextEncoder().encode(body) }).length > 0);
  });
}

for (const name of [HEADER.idempotencyKey, HEADER.traceparent, HEADER.tracestate]) {
  Deno.test(`case 38: ${name} with a line end, NUL, non-ASCII or of another type → a reason`, () => {
    for (const value of ["a\r\nEvil: 1", "a\0", "ü", "", 7, null, ["a"], "x".repeat(8_193)]) {
      assert.match(problemOf({ headers: { [name]: value } }), new RegExp(name));
    }
  });
}

Deno.test("case 38: an id or content type that would be another header at the backend → a reason", () => {
  assert.match(problemOf({ id: "a\nEvil: 1" }), /messageId/);
  assert.match(problemOf({ id: "x".repeat(256) }), /messageId/);
  assert.match(problemOf({ contentType: "text/plain\r\nEvil: 1" }), /content type/);
});

Deno.test("case 14: a history that can't be read → the task goes on with an empty one", () => {
  for (
    const history of ["{", "null", '"text"', "[1,null,[]]", 7, '[{"time":1}]', "x".repeat(1e5)]
  ) {
    assert.deepEqual(readTask({ headers: { [HEADER.attempts]: history } }).history, []);
  }
});

Deno.test("withAttempt: one attempt further, the last 30 on record, the task itself unchanged", () => {
  const first = aTask();
  let task = first;
  for (let n = 1; n <= 40; n++) {
    task = withAttempt(task, { time: n, outcome: "status", ms: 1, status: 500 });
  }
  assert.equal(task.attempt, 41);
  assert.deepEqual(
    task.history.map(({ time }) => time),
    Array.from({ length: 30 }, (_, n) => n + 11),
  );
  assert.deepEqual(first, aTask());
});
