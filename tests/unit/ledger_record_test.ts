/**
 * The ledger's state machine: against a world in which everything may go wrong between any two
 * steps, and the cases by name that are easily got wrong.
 *
 * @module
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import * as attempts from "../../src/ledger/attempt.ts";
import type { Claim, Conclusion } from "../../src/ledger/attempt.ts";
import * as ledger from "../../src/ledger/record.ts";
import type {
  KeyedAcceptance,
  LeaseOwner,
  TaskRecord,
  Transition,
} from "../../src/ledger/record.ts";
import { statusOf } from "../../src/ledger/status.ts";
import { LedgerWorld } from "../support/ledger_world/world.ts";

const NOW = 1_000_000;
const OWNER: LeaseOwner = { relay: "a", run: "1" };
const STARTED_AGAIN: LeaseOwner = { relay: "a", run: "2" };
const ANOTHER: LeaseOwner = { relay: "b", run: "3" };

Deno.test("record: whatever dies and comes again, no task is lost, doubled, or sent once it is concluded", () => {
  const choices = fc.array(fc.nat(10_000), { minLength: 40, maxLength: 200, size: "max" });
  fc.assert(
    fc.property(choices, (steps) => {
      const world = new LedgerWorld((steps[0] ?? 0) % 4 === 0);
      steps.forEach((choice) => world.step(choice));
      world.drain();
    }),
    { numRuns: 5_000 },
  );
});

Deno.test("reserve: other payload under the key → mismatched, whatever became of the task", () => {
  const record = reserved();
  const other = { ...request("b"), fingerprint: "other" };
  assert.deepEqual(ledger.reserve(record, other, NOW).answer, { kind: "mismatched" });
  const delivered = concluded(claimed(record, 1), 1, { kind: "delivered", lastStatus: 200 });
  assert.deepEqual(ledger.reserve(delivered, other, NOW).answer, { kind: "mismatched" });
});

Deno.test("doubt: the next request with the key gets the same id, at once", () => {
  const record = changed(ledger.doubt(reserved(), NOW));
  assert.deepEqual(ledger.reserve(record, request("b"), NOW).answer, { kind: "reserved", id: "a" });
});

Deno.test("release after somebody else may have published under the key → the id stays with it", () => {
  const doubted = changed(ledger.doubt(reserved(), NOW));
  const takenUp = changed(ledger.reserve(doubted, request("b"), NOW));
  const released = changed(ledger.release(takenUp, NOW));
  assert.deepEqual(ledger.reserve(released, request("c"), NOW).answer, {
    kind: "reserved",
    id: "a",
  });
});

Deno.test("accept after the task was delivered already → it stays delivered", () => {
  const delivered = concluded(claimed(reserved(), 1), 1, { kind: "delivered", lastStatus: 201 });
  assert.equal(ledger.accept(delivered, request("a")).record, undefined);
});

Deno.test("claim while the attempt is being made → leased for the rest of the lease, then granted", () => {
  const record = claimed(undefined, 1);
  const leased = { kind: "leased", waitMs: 60 };
  assert.deepEqual(claim(record, 1, NOW + 40).answer, { ...leased, concluding: false });
  // The next copy is out, so the attempt is over, and about to be recorded.
  assert.deepEqual(claim(record, 2, NOW + 40).answer, { ...leased, concluding: true });
  assert.deepEqual(claim(record, 1, NOW + 100).answer, { kind: "granted", until: NOW + 200 });
});

Deno.test("claim while the lease of a killed relay holds → granted to it, started again; another one waits", () => {
  const record = claimed(undefined, 1);
  const leased = { kind: "leased", waitMs: 60, concluding: false };
  assert.deepEqual(claim(record, 1, NOW + 40, ANOTHER).answer, leased);
  const again = claim(record, 1, NOW + 40, STARTED_AGAIN);
  assert.deepEqual(again.answer, { kind: "granted", until: NOW + 140 });
  const { leaseUntil, owner, attempt, attempts: made } = changed(again);
  assert.deepEqual({ leaseUntil, owner }, { leaseUntil: NOW + 140, owner: STARTED_AGAIN });
  assert.deepEqual({ attempt, made }, { attempt: 1, made: 0 }, "the attempt was spent");
  // The copy that its next hop left is no other case.
  assert.equal(claim(record, 2, NOW + 40, STARTED_AGAIN).answer.kind, "granted");
});

Deno.test("claim while a lease holds whose owner is not known → leased, to everybody", () => {
  const { owner: _, ...record } = claimed(undefined, 1);
  const leased = { kind: "leased", waitMs: 60, concluding: false };
  for (const asking of [OWNER, STARTED_AGAIN, ANOTHER]) {
    assert.deepEqual(claim(record, 1, NOW + 40, asking).answer, leased);
  }
  assert.equal(claim(record, 1, NOW + 100, ANOTHER).answer.kind, "granted");
});

Deno.test("claim of what was cancelled while a relay died with it → cancelled, at once", () => {
  const record = changed(ledger.cancel(claimed(undefined, 1)));
  assert.equal(claim(record, 1, NOW + 40, ANOTHER).answer.kind, "leased");
  assert.equal(claim(record, 1, NOW + 40, STARTED_AGAIN).answer.kind, "cancelled");
});

Deno.test("abandon: the same attempt is granted to anybody, at once", () => {
  const record = changed(abandon(claimed(undefined, 1), OWNER));
  assert.equal(statusOf(record, NOW).status, "queued");
  assert.equal(claim(record, 1, NOW, ANOTHER).answer.kind, "granted");
});

Deno.test("abandon of a lease that another has followed, or that is over → nothing changes", () => {
  const record = claimed(undefined, 1);
  const followed = changed(claim(record, 1, NOW + 100));
  assert.equal(abandon(followed, OWNER).record, undefined);
  assert.equal(abandon(record, STARTED_AGAIN).record, undefined);
  const delivered = concluded(record, 1, { kind: "delivered", lastStatus: 200 });
  assert.equal(abandon(delivered, OWNER).record, undefined);
  assert.equal(abandon(undefined, OWNER).record, undefined);
});

Deno.test("what is concluded is leased to nobody", () => {
  for (const conclusion of [retry(NOW + 50), { kind: "delivered", lastStatus: 200 }] as const) {
    const { leaseUntil, owner } = concluded(claimed(undefined, 1), 1, conclusion);
    assert.deepEqual([leaseUntil, owner], [undefined, undefined]);
  }
});

Deno.test("conclude: a failure that comes while a later attempt is being made → that one decides", () => {
  const retried = concluded(claimed(undefined, 1), 1, retry(NOW + 50));
  const second = claimed(retried, 2);
  const failed = { kind: "failed" as const, last: { lastStatus: 422 } };
  assert.equal(conclude(second, 1, failed).record, undefined);
  assert.equal(concluded(second, 2, retry(NOW + 50)).state, "retrying");
});

Deno.test("conclude: a failed task that comes again and is claimed is not finished any more", () => {
  const failed = concluded(claimed(undefined, 1), 1, { kind: "failed", last: {} });
  assert.equal(failed.finishedAt, NOW);
  assert.equal(claimed(failed, 2).finishedAt, undefined);
});

Deno.test("statusOf: what a client sees at each stage", () => {
  const seen = (record: TaskRecord, now = NOW): string => statusOf(record, now).status;
  const delayed = changed(ledger.accept(undefined, { ...request("a"), notBefore: NOW + 10 }));
  const retrying = concluded(claimed(undefined, 1), 1, retry(NOW + 50));
  assert.equal(seen(reserved()), "queued");
  assert.equal(seen(delayed), "delayed");
  assert.equal(seen(delayed, NOW + 10), "queued");
  assert.equal(seen(claimed(delayed, 1)), "delivering");
  assert.equal(seen(claimed(undefined, 1), NOW + 100), "queued");
  assert.equal(seen(claimed(retrying, 2), NOW + 100), "retrying");
  assert.equal(seen(changed(ledger.cancel(retrying))), "cancelled");
  assert.deepEqual(statusOf(retrying, NOW), {
    id: "a",
    status: "retrying",
    attempts: 1,
    lastStatus: 500,
    enqueuedAt: NOW,
    nextAttemptAt: NOW + 50,
  });
  assert.equal(statusOf(retrying, NOW + 50).nextAttemptAt, undefined);
});

function request(id: string): KeyedAcceptance {
  return { id, key: "k", fingerprint: "f", enqueuedAt: NOW, leaseMs: 100 };
}

function reserved(): TaskRecord {
  return changed(ledger.reserve(undefined, request("a"), NOW));
}

function claim(
  record: TaskRecord | undefined,
  attempt: number,
  now: number,
  owner = OWNER,
): Transition<Claim> {
  return attempts.claim(record, { id: "a", attempt, enqueuedAt: NOW, leaseMs: 100, owner }, now);
}

/** Gives up the lease that was claimed at `NOW`. */
function abandon(record: TaskRecord | undefined, owner: LeaseOwner): Transition<void> {
  return attempts.abandon(record, { id: "a", until: NOW + 100, owner });
}

function claimed(record: TaskRecord | undefined, attempt: number): TaskRecord {
  const transition = claim(record, attempt, NOW);
  assert.equal(transition.answer.kind, "granted");
  return changed(transition);
}

function conclude(record: TaskRecord, attempt: number, conclusion: Conclusion): Transition<void> {
  return attempts.conclude(record, { id: "a", attempt, enqueuedAt: NOW, conclusion }, NOW);
}

function concluded(record: TaskRecord, attempt: number, conclusion: Conclusion): TaskRecord {
  return changed(conclude(record, attempt, conclusion));
}

function retry(nextAttemptAt: number): Conclusion {
  return { kind: "retried", nextAttemptAt, last: { lastStatus: 500 } };
}

/** The record that a transition leaves. @throws when it leaves it as it was, or removes it */
function changed({ record }: Transition<unknown>): TaskRecord {
  assert.ok(record, "the transition left no new record");
  return record;
}
