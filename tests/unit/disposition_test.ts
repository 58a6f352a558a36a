/**
 * Where a task goes after each answer, and what is kept of the attempt.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { parseLadder } from "../../src/config.ts";
import { dispose, disposeExhausted, disposeInvalid } from "../../src/consumer/disposition.ts";
import type { Rules } from "../../src/consumer/disposition.ts";
import type { Answer } from "../../src/consumer/outcome.ts";
import type { Settlement } from "../../src/consumer/ports.ts";
import { withJitter } from "../../src/rungs.ts";
import { taskHeaders } from "../../src/task.ts";
import type { Task } from "../../src/task.ts";
import { aTask } from "../support/tasks.ts";

const RULES: Rules = { ladder: parseLadder("2x0s,1x3s"), permanentStatuses: [422] };
const BEGAN_AT = 1_764_504_000_000.25;

function after(answer: Answer, task: Task = aTask(), rules = RULES, random = 0.5): Settlement {
  return dispose(task, { beganAt: BEGAN_AT, durationMs: 12.6, answer }, rules, random);
}

function status(code: number, text = ""): Answer {
  return { kind: "status", status: code, text };
}

const TIMEOUT: Answer = { kind: "failure", outcome: "timeout", error: "no answer in time" };

/** The task as a settlement sends it on. */
function sentOn(settlement: Settlement): Task {
  assert.ok(settlement.to === "rung" || settlement.to === "failed");
  assert.ok(settlement.task !== undefined);
  return settlement.task;
}

Deno.test("delivered → done, whatever the number of the attempt", () => {
  for (const attempt of [1, 3, 99]) {
    assert.deepEqual(after(status(204), aTask({ attempt })), { to: "done" });
  }
});

Deno.test("a failed attempt → the next rung, one attempt further, the attempt on record", () => {
  const record = {
    time: 1_764_504_000_000,
    outcome: "status",
    ms: 13,
    status: 500,
    error: "oh no",
  };
  assert.deepEqual(after(status(500, "oh\r\nno\n")), {
    to: "rung",
    delayMs: 0,
    task: aTask({ attempt: 2, history: [{ ...record, outcome: "status" }] }),
  });
  const second = after(TIMEOUT, aTask({ attempt: 2 }));
  assert.equal(second.to === "rung" && second.delayMs, 3_000);
  assert.equal(sentOn(second).history[0]?.outcome, "timeout");
});

Deno.test("the last attempt fails → the failed queue, with the last status and error", () => {
  const task = aTask({ attempt: 3 });
  const settlement = after(status(503, "busy"), task);
  assert.deepEqual(settlement, {
    to: "failed",
    task: sentOn(settlement),
    failure: {
      reason: "attempts_exhausted",
      failedAt: BEGAN_AT + 13,
      lastStatus: 503,
      lastError: "busy",
    },
  });
  assert.equal(sentOn(settlement).history.length, 1);
  const { failure } = after(TIMEOUT, task) as Extract<Settlement, { to: "failed" }>;
  assert.deepEqual([failure.lastStatus, failure.lastError], [undefined, "no answer in time"]);
});

Deno.test("a status of PERMANENT_STATUSES → failed at the first attempt", () => {
  const settlement = after(status(422));
  assert.ok(settlement.to === "failed");
  assert.deepEqual(settlement.failure, {
    reason: "permanent_status",
    failedAt: BEGAN_AT + 13,
    lastStatus: 422,
    lastError: "status 422",
  });
});

Deno.test("case 16: the whole default ladder → 27 attempts, each on record, then failed", () => {
  const ladder = parseLadder("2x0s,5x3s,5x15s,5x60s,5x120s,5x240s");
  let task = aTask();
  for (let attempts = 1;; attempts++) {
    const settlement = after(status(500), task, { ...RULES, ladder, permanentStatuses: [] });
    task = sentOn(settlement);
    if (settlement.to === "rung") continue;
    assert.equal(attempts, 27);
    assert.equal(task.history.length, 27);
    return;
  }
});

Deno.test("a task beyond a ladder that was shortened → failed, with what its history says", () => {
  const last = { time: 5, outcome: "status", ms: 1, status: 502, error: "bad gateway" } as const;
  assert.deepEqual(disposeExhausted(aTask({ attempt: 40, history: [last] }), 7), {
    to: "failed",
    task: aTask({ attempt: 40, history: [last] }),
    failure: {
      reason: "attempts_exhausted",
      failedAt: 7,
      lastStatus: 502,
      lastError: "bad gateway",
    },
  });
  const bare = disposeExhausted(aTask({ attempt: 40 }), 7);
  assert.ok(bare.to === "failed");
  assert.deepEqual(bare.failure, { reason: "attempts_exhausted", failedAt: 7 });
});

Deno.test("an invalid message → failed without a task, the problem as its error", () => {
  const failure = { reason: "invalid_message", failedAt: 7, lastError: "not JSON" } as const;
  assert.deepEqual(disposeInvalid("not JSON", 7), { to: "failed", failure });
});

Deno.test("answers of any text, ladder after ladder → the headers of the task stay under 64 KiB", () => {
  const anyText = fc.oneof(
    fc.string({ unit: "binary", maxLength: 4_000, size: "max" }),
    fc.constantFrom('"', "\\", "€", "😀", "\u0000").map((character) => character.repeat(4_000)),
  );
  const ladder = parseLadder("100x0s");
  fc.assert(
    fc.property(anyText, fc.boolean(), (text, answered) => {
      const answer = answered ? status(500, text) : { ...TIMEOUT, error: text };
      const longest = "k".repeat(8_192);
      let task = aTask({ idempotencyKey: longest, traceparent: longest, tracestate: longest });
      let settlement = after(answer, task, { ...RULES, ladder, permanentStatuses: [] });
      while (settlement.to === "rung") {
        task = settlement.task;
        settlement = after(answer, task, { ...RULES, ladder, permanentStatuses: [] });
      }
      assert.ok(settlement.to === "failed");
      assert.equal(sentOn(settlement).history.length, 30);
      const headers = { ...taskHeaders(sentOn(settlement)), ...settlement.failure };
      assert.ok(Buffer.byteLength(Object.entries(headers).flat().join("")) < 65_000);
    }),
    { numRuns: 30 },
  );
});

const ASKED: Answer = { kind: "status", status: 429, text: "", retryAfterMs: 5_000 };

Deno.test("Retry-After or the rung, whichever is longer", () => {
  const shorter = after({ ...ASKED, retryAfterMs: 2_000 }, aTask({ attempt: 2 }));
  assert.ok(shorter.to === "rung" && shorter.delayMs === 3_000);
  const longer = after(ASKED, aTask({ attempt: 2 }));
  assert.ok(longer.to === "delay" && longer.delayMs === 5_000);
  assert.equal(longer.task.attempt, 3);
  assert.equal(longer.task.notBefore, Math.round(BEGAN_AT + 12.6 + 5_000));
  const last = after(ASKED, aTask({ attempt: 3 }));
  assert.ok(last.to === "failed" && last.failure.reason === "attempts_exhausted");
});

Deno.test("Retry-After with a permanent status → the backend wants it again", () => {
  const settlement = after(ASKED, aTask(), { ...RULES, permanentStatuses: [429] });
  assert.equal(settlement.to, "delay");
});

Deno.test("RETRY_JITTER only ever adds, up to its share of the rung; a rung of 0 stays at once", () => {
  const rules = { ...RULES, ladder: withJitter(RULES.ladder, 0.5) };
  for (const [random, delayMs] of [[0, 3_047], [0.5, 3_797], [0.999_999, 4_453]] as const) {
    const settlement = after(status(500), aTask({ attempt: 2 }), rules, random);
    assert.ok(settlement.to === "rung");
    assert.equal(settlement.delayMs, delayMs);
    assert.equal(settlement.task.notBefore, Math.round(BEGAN_AT + 12.6 + delayMs));
  }
  const atOnce = after(status(500), aTask(), rules);
  assert.ok(atOnce.to === "rung" && atOnce.delayMs === 0);
});
