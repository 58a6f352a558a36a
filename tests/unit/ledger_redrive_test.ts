/**
 * The ledger when a failed task is sent again: what each crash leaves, and what comes of it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { claim, conclude } from "../../src/ledger/attempt.ts";
import type { TaskRecord } from "../../src/ledger/record.ts";
import { confirmRedrive, redrive, type RedriveRequest } from "../../src/ledger/redrive.ts";
import { statusOf } from "../../src/ledger/status.ts";

const NOW = 1_000_000;
const owner = { relay: "a", run: "a1" };
const FAILED: TaskRecord = {
  id: "t",
  key: "k",
  fingerprint: "f",
  state: "failed",
  attempt: 28,
  attempts: 27,
  lastStatus: 500,
  lastError: "no",
  enqueuedAt: 5,
  finishedAt: NOW - 10,
};

function ask(changes: Partial<RedriveRequest> = {}): RedriveRequest {
  return { id: "t", enqueuedAt: 5, redriven: 0, deadLettered: false, ...changes };
}

function begun(record: TaskRecord | undefined = FAILED): TaskRecord {
  const { record: next } = redrive(record, ask(), NOW);
  assert.ok(next);
  return next;
}

function confirmed(record = begun()): TaskRecord {
  const { record: next } = confirmRedrive(record, 1);
  assert.ok(next);
  return next;
}

Deno.test("redrive of a failed task → queued for its first attempt, with its key, nothing of its past", () => {
  const { answer, record } = redrive(FAILED, ask(), NOW);
  assert.deepEqual(answer, { kind: "granted", redriven: 1 });
  assert.deepEqual(record, {
    id: "t",
    key: "k",
    fingerprint: "f",
    state: "queued",
    attempt: 1,
    attempts: 0,
    redriven: 1,
    redriving: true,
    enqueuedAt: 5,
  });
  assert.ok(record);
  assert.deepEqual(statusOf(record, NOW), {
    id: "t",
    status: "queued",
    attempts: 0,
    enqueuedAt: 5,
  });
});

Deno.test("the process dies before the copy is published → the next redrive is granted, as the same one", () => {
  assert.deepEqual(redrive(begun(), ask(), NOW), { answer: { kind: "granted", redriven: 1 } });
});

Deno.test("a confirm that comes late, after the next redrive was granted → that one is not taken for published", () => {
  const failedAgain: TaskRecord = { ...FAILED, redriven: 1 };
  const { record } = redrive(failedAgain, ask({ redriven: 1 }), NOW);
  assert.equal(record?.redriven, 2);
  assert.equal(confirmRedrive(record, 1).record, undefined);
  assert.equal(confirmRedrive(record, 2).record?.redriving, undefined);
});

Deno.test("the process dies before the failed copy is acknowledged → superseded, wherever the new copy is", () => {
  const queued = confirmed();
  const request = { id: "t", attempt: 1, redriven: 1, enqueuedAt: 5, leaseMs: 100, owner };
  const delivering = claim(queued, request, NOW).record;
  assert.ok(delivering);
  const last = { lastStatus: 500 };
  const retrying = conclude(delivering, {
    ...request,
    conclusion: { kind: "retried", nextAttemptAt: NOW + 1, last },
  }, NOW).record;
  const failed = conclude(delivering, { ...request, conclusion: { kind: "failed", last } }, NOW)
    .record;
  const delivered = conclude(delivering, {
    ...request,
    conclusion: { kind: "delivered", lastStatus: 200 },
  }, NOW).record;
  for (const record of [queued, delivering, retrying, failed, delivered]) {
    assert.ok(record);
    assert.deepEqual(redrive(record, ask(), NOW), { answer: { kind: "superseded" } }, record.state);
  }
  assert.ok(failed);
  const again = redrive(failed, ask({ redriven: 1 }), NOW).answer;
  assert.deepEqual(again, { kind: "granted", redriven: 2 }, "its own copy can be sent again");
});

Deno.test("the copy arrives before its confirm is recorded, and is claimed → it needs no second one", () => {
  const request = { id: "t", attempt: 1, redriven: 1, enqueuedAt: 5, leaseMs: 100, owner };
  const delivering = claim(begun(), request, NOW).record;
  assert.ok(delivering);
  assert.deepEqual(redrive(delivering, ask(), NOW).answer, { kind: "superseded" });
});

Deno.test("a copy from before the redrive is stale, whatever its attempt; its conclusion changes nothing", () => {
  const record = confirmed();
  const request = { id: "t", attempt: 27, enqueuedAt: 5, leaseMs: 100, owner };
  assert.deepEqual(claim(record, request, NOW).answer, { kind: "stale" });
  const conclusion = { kind: "failed" as const, last: { lastStatus: 500 } };
  const { record: changed } = conclude(record, { ...request, conclusion }, NOW);
  assert.equal(changed, undefined);
});

Deno.test("delivered or cancelled meanwhile → superseded: it goes, and nothing is sent", () => {
  for (const state of ["delivered", "cancelled"] as const) {
    const { answer, record } = redrive({ ...FAILED, state }, ask(), NOW);
    assert.deepEqual([answer, record], [{ kind: "superseded" }, undefined]);
  }
});

Deno.test("another copy of it is under way → it stays; dead-lettered by the broker there is none", () => {
  const { finishedAt: _, ...unfinished } = FAILED;
  const delivering: TaskRecord = {
    ...unfinished,
    state: "delivering",
    attempt: 3,
    leaseUntil: NOW + 50,
    owner,
  };
  const deadLettered = ask({ deadLettered: true });
  assert.deepEqual(redrive(delivering, ask(), NOW).answer, { kind: "under-way" });
  assert.deepEqual(redrive(delivering, deadLettered, NOW).answer, { kind: "under-way" });
  assert.equal(redrive(delivering, deadLettered, NOW + 50).answer.kind, "granted");
  const retrying: TaskRecord = { ...unfinished, state: "retrying", attempt: 3 };
  assert.deepEqual(redrive(retrying, ask(), NOW).answer, { kind: "under-way" });
  assert.equal(redrive(retrying, deadLettered, NOW).answer.kind, "granted");
});

Deno.test("no record any more, or one from before LEDGER=off → granted; its copy is claimed and not stale", () => {
  assert.equal(redrive(undefined, ask({ redriven: 4 }), NOW).record?.redriven, 5);
  const request = { id: "t", attempt: 1, redriven: 2, enqueuedAt: 5, leaseMs: 100, owner };
  const { answer, record } = claim(FAILED, request, NOW);
  assert.equal(answer.kind, "granted");
  assert.deepEqual([record?.attempt, record?.redriven], [1, 2]);
});
