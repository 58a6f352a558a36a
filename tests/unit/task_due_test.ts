/** The moment before which a task is not delivered, on its way through a message. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { dueAt } from "../../src/consumer/report.ts";
import { type Content, readMessage, type Task, taskHeaders } from "../../src/task.ts";

const BODY = new TextEncoder().encode("{}");
const LADDER = [{ attempts: 2, delayMs: 0 }, { attempts: 1, delayMs: 3_000 }];

function read(headers: Record<string, unknown>): Content {
  return readMessage({ body: BODY, id: "id", contentType: "application/json", headers }, 5);
}

function taskOf(notBefore?: number): Task {
  const task = { id: "id", body: BODY, contentType: "application/json", attempt: 1 };
  return { ...task, enqueuedAt: 1_000, history: [], ...(notBefore !== undefined && { notBefore }) };
}

Deno.test("a task's moment is read back from its message, and absent when it has none", () => {
  fc.assert(fc.property(fc.option(fc.integer({ min: 1, max: 8.64e15 })), (moment) => {
    const task = taskOf(moment ?? undefined);
    const headers = taskHeaders(task);
    assert.equal(headers["relay-not-before"], moment ?? undefined);
    assert.deepEqual(read(headers), { kind: "task", task });
  }));
});

Deno.test("a message with junk for a moment can't be understood", () => {
  for (const junk of ["2026", "soon", -1, 0, 1.5, NaN, Infinity, 9e15, true, {}]) {
    const content = read({ "relay-not-before": junk });
    assert.ok(content.kind === "invalid", String(junk));
    assert.match(content.problem, /relay-not-before must be milliseconds/);
  }
});

Deno.test("the first attempt is due at that moment, later ones after their rung's delay", () => {
  assert.equal(dueAt(taskOf(), LADDER), 1_000);
  assert.equal(dueAt(taskOf(61_000), LADDER), 61_000);
  const history = [{ time: 61_500, ms: 20, outcome: "status" as const, status: 500 }];
  const third = { ...taskOf(61_000), attempt: 3, history };
  assert.equal(dueAt(third, LADDER), 61_520 + 3_000);
});
