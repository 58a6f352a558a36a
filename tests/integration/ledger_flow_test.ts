/**
 * What the ledger is to those who post: a key that is known after a restart, a task that can be
 * asked about and taken back, and a relay that waits when the ledger is away.
 */
import assert from "node:assert/strict";
import type { Answer } from "../support/backend.ts";
import type { ClientAnswer } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { type LedgerStage, withLedgerStage } from "../support/ledger_stage.ts";
import type { LogLine } from "../support/relay.ts";
import { readAcknowledgements } from "../support/task_frames.ts";

const KEY = { "idempotency-key": "order-17" };

/** One attempt, and another so much later. */
const ladder = (seconds: number): { RETRY_LADDER: string } => ({
  RETRY_LADDER: `1x0s,1x${seconds}s`,
});

function isReplayed({ status, headers }: ClientAnswer): boolean {
  return status === 202 && headers["idempotency-replayed"] === "true";
}

function attemptsOf(stage: LedgerStage, id: string): unknown[] {
  return stage.requestsOf(id).map(({ headers }) => headers["task-attempt"]);
}

/** Waits until a delivery was dropped; one before it may be a copy, when the relay was killed. */
async function untilCancelled(stage: LedgerStage, id: string): Promise<void> {
  await eventually(() => {
    const dispositions = stage.passed(id).map(({ disposition }) => disposition);
    assert.ok(dispositions.includes("cancelled"), `dropped as ${dispositions}`);
  });
}

/** Fails first attempts. */
function failsFirst(stage: LedgerStage): void {
  stage.backend.answer = ({ headers }): Answer => ({
    status: headers["task-attempt"] === "1" ? 503 : 200,
  });
}

/** Posts a task and waits for it, so that all that was in the queue before it has been handled. */
async function untilHandled(stage: LedgerStage): Promise<void> {
  await stage.untilStatus(await stage.relay.accept('"last"'), "delivered");
}

Deno.test("a key is posted again after a restart, and after a kill -9: the first id, nothing enqueued; another body is refused", async () => {
  await withLedgerStage({}, async (stage) => {
    const { relay } = stage;
    const id = await relay.accept("1", KEY);
    await stage.untilStatus(id, "delivered");
    for (const end of [() => relay.stop(), () => relay.kill()]) {
      await end();
      await relay.start();
      const again = await relay.post("1", KEY);
      assert.ok(isReplayed(again), again.text);
      assert.equal(again.json["id"], id);
      assert.equal(again.headers["location"], `/queue/tasks/${id}`);
      assert.equal((await relay.post("2", KEY)).status, 422);
    }
    await untilHandled(stage);
    assert.equal(stage.backend.requests.length, 2);
    await stage.assertNothingLeft();
  });
});

Deno.test("a task fails once: its status goes queued, delivering, retrying, delivered, and nextAttemptAt is when the backend is asked again", async () => {
  const delayMs = 2_000;
  await withLedgerStage({ env: ladder(delayMs / 1000) }, async (stage) => {
    const { relay, backend } = stage;
    const answer = Promise.withResolvers<void>();
    // The only place in flight is taken first.
    backend.answer = async ({ headers }): Promise<Answer> => {
      await answer.promise;
      return { status: headers["task-attempt"] === "1" ? 503 : 200 };
    };
    const postedAt = Date.now();
    const id = await relay.accept("1");
    const queued = await eventually(() => stage.status(id));
    assert.ok(["queued", "delivering"].includes(String(queued["status"])));
    const enqueuedAt = Date.parse(String(queued["enqueuedAt"]));
    assert.ok(enqueuedAt >= postedAt && enqueuedAt <= Date.now());
    await backend.waitFor(1);
    const delivering = await stage.status(id);
    assert.deepEqual(delivering, {
      id,
      status: "delivering",
      attempts: 0,
      maxAttempts: 2,
      lastStatus: null,
      lastError: null,
      enqueuedAt: queued["enqueuedAt"],
      nextAttemptAt: null,
      finishedAt: null,
    });
    answer.resolve();
    const retrying = await stage.untilStatus(id, "retrying");
    assert.equal(retrying["attempts"], 1);
    assert.equal(retrying["lastStatus"], 503);
    const nextAttemptAt = Date.parse(String(retrying["nextAttemptAt"]));
    await backend.waitFor(2);
    const off = (backend.requests[1]?.wallAt ?? NaN) - nextAttemptAt;
    assert.ok(Math.abs(off) <= delayMs * 0.05 + 100, `asked ${off} ms after nextAttemptAt`);
    const delivered = await stage.untilStatus(id, "delivered");
    assert.equal(delivered["attempts"], 2);
    assert.equal(delivered["lastStatus"], 200);
    assert.equal(delivered["nextAttemptAt"], null);
    assert.ok(Date.parse(String(delivered["finishedAt"])) >= nextAttemptAt - 100);
  });
});

Deno.test("a waiting task is deleted: cancelled, never sent; its key replays", async () => {
  await withLedgerStage({ env: { PREFETCH_COUNT: "1" } }, async (stage) => {
    const { relay, backend } = stage;
    const free = Promise.withResolvers<void>();
    backend.answer = async (): Promise<Answer> => {
      await free.promise;
      return { status: 200 };
    };
    await relay.accept('"in front"');
    await backend.waitFor(1);
    const id = await relay.accept("1", KEY);
    assert.equal((await stage.status(id))["status"], "queued");
    const deleted = await relay.delete(`/queue/tasks/${id}`);
    assert.equal(deleted.status, 202, deleted.text);
    assert.equal(deleted.json["status"], "cancelled");
    free.resolve();
    await untilHandled(stage);
    assert.deepEqual(attemptsOf(stage, id), []);
    const { finishedAt } = await stage.status(id);
    assert.ok(Date.parse(String(finishedAt)) > 0, "it has not ended when its delivery was dropped");
    await untilCancelled(stage, id);
    const again = await relay.delete(`/queue/tasks/${id}`);
    assert.equal(again.status, 202, "deleting is idempotent");
    const replayed = await relay.post("1", KEY);
    assert.ok(isReplayed(replayed) && replayed.json["id"] === id, replayed.text);
    await stage.assertNothingLeft();
  });
});

Deno.test("a task that waits for its next attempt is deleted, after a restart of the relay: not sent again", async () => {
  await withLedgerStage({ env: ladder(3) }, async (stage) => {
    const { relay } = stage;
    failsFirst(stage);
    const id = await relay.accept("1");
    await stage.untilStatus(id, "retrying");
    await relay.kill();
    await relay.start();
    assert.equal((await stage.status(id))["status"], "retrying");
    const deleted = await relay.delete(`/queue/tasks/${id}`);
    assert.equal(deleted.status, 202, deleted.text);
    assert.equal(deleted.json["status"], "cancelled");
    await untilCancelled(stage, id);
    assert.deepEqual(attemptsOf(stage, id), ["1"]);
    await stage.assertNothingLeft();
  });
});

Deno.test("a delayed task is deleted: it is never sent", async () => {
  await withLedgerStage({}, async (stage) => {
    const { relay } = stage;
    // The first delayed task of all waits for the levels to be declared.
    await relay.accept("1", { "task-delay": "0.5" });
    const id = await relay.accept("1", { "task-delay": "2" });
    const delayed = await stage.untilStatus(id, "delayed");
    const due = Date.parse(String(delayed["nextAttemptAt"]));
    const enqueued = Date.parse(String(delayed["enqueuedAt"]));
    assert.ok(Math.abs(due - enqueued - 2_000) <= 100, `due after ${due - enqueued} ms`);
    assert.equal((await relay.delete(`/queue/tasks/${id}`)).status, 202);
    assert.equal((await stage.status(id))["status"], "cancelled");
    await untilCancelled(stage, id);
    assert.deepEqual(attemptsOf(stage, id), []);
    await stage.assertNothingLeft();
  });
});

Deno.test("a task is deleted while the backend works on it and answers 503: not sent again; 200: it was delivered", async () => {
  for (const [status, end] of [[503, "cancelled"], [200, "delivered"]] as const) {
    await withLedgerStage({}, async (stage) => {
      const { relay, backend } = stage;
      const answer = Promise.withResolvers<Answer>();
      backend.answer = (): Promise<Answer> => answer.promise;
      const id = await relay.accept("1");
      await backend.waitFor(1);
      const deleted = await relay.delete(`/queue/tasks/${id}`);
      assert.equal(deleted.status, 202, deleted.text);
      answer.resolve({ status });
      const { finishedAt } = await eventually(async () => {
        const json = await stage.status(id);
        assert.equal(json["status"], end);
        assert.ok(json["finishedAt"]);
        return json;
      });
      assert.ok(finishedAt);
      assert.deepEqual(attemptsOf(stage, id), ["1"]);
      await stage.assertNothingLeft();
    });
  }
});

Deno.test("a delivered and a failed task are deleted: 409; an unknown one: 404", async () => {
  await withLedgerStage({ env: ladder(0.1) }, async (stage) => {
    const { relay, backend } = stage;
    backend.answer = ({ body }): Answer => ({ status: body.length === 1 ? 200 : 500 });
    for (const [payload, end] of [["1", "delivered"], ["22", "failed"]] as const) {
      const id = await relay.accept(payload);
      await stage.untilStatus(id, end);
      const { status, json } = await relay.delete(`/queue/tasks/${id}`);
      assert.equal(status, 409);
      assert.match(String(json["detail"]), /finished|already/);
      assert.equal((await stage.status(id))["status"], end);
    }
    const unknown = `/queue/tasks/${crypto.randomUUID()}`;
    assert.equal((await relay.delete(unknown)).status, 404);
    assert.equal((await relay.get(unknown)).status, 404);
  });
});

Deno.test("the ledger's Redis is away: keyed posts 503, others 202, no call is made; it comes back: everything goes on by itself", async () => {
  await withLedgerStage({ store: "redis" }, async (stage) => {
    const { relay, backend, redis } = stage;
    const first = await relay.accept("1", KEY);
    await stage.untilStatus(first, "delivered");
    const { pid } = relay;
    await redis.kill();
    const keyed = await relay.post("2", { "idempotency-key": "other" });
    assert.equal(keyed.status, 503, keyed.text);
    assert.match(String(keyed.headers["retry-after"]), /^[1-9]\d*$/);
    assert.equal((await relay.get(`/queue/tasks/${first}`)).status, 503);
    assert.equal((await relay.delete(`/queue/tasks/${first}`)).status, 503);
    const ids = await Promise.all(Array.from({ length: 30 }, () => relay.accept("3")));
    await relay.waitForLog(({ message }) => message === "nothing is sent: the limit is not known");
    // As long as it takes to ask ten times more.
    for (let n = 0; n < 10; n++) {
      assert.equal((await relay.post("2", { "idempotency-key": `other-${n}` })).status, 503);
    }
    assert.equal(backend.requests.length, 1, "called blind");

    await redis.start();
    for (const id of ids) await stage.untilStatus(id, "delivered");
    assert.equal(backend.requests.length, 31);
    await relay.waitForLog(({ message }) => message === "the limit in Redis can be used again");
    const replayed = await relay.post("1", KEY);
    assert.ok(isReplayed(replayed) && replayed.json["id"] === first, replayed.text);
    const accepted = await relay.accept("2", { "idempotency-key": "other" });
    await stage.untilStatus(accepted, "delivered");
    assert.equal(relay.pid, pid);
    assert.deepEqual(relay.logs.filter(({ message }) => message.includes("died")), []);
    await stage.assertNothingLeft();
  });
});

Deno.test("the ledger's Redis goes away while requests are in flight: what the backend has answered is not acknowledged before it is recorded, and not asked again", async () => {
  await withLedgerStage({ store: "redis" }, async (stage) => {
    const { relay, backend, network, redis } = stage;
    const acknowledgements = new Set<string>();
    const acknowledged = readAcknowledgements();
    network.onFrame = (frame) => {
      const id = acknowledged(frame);
      if (id !== undefined) acknowledgements.add(id);
    };
    const answer = Promise.withResolvers<Answer>();
    backend.answer = (): Promise<Answer> => answer.promise;
    const ids = await Promise.all(Array.from({ length: 5 }, () => relay.accept("1")));
    await backend.waitFor(5);
    await redis.kill();
    answer.resolve({ status: 200 });
    await relay.waitForLog(({ message }) => message === "deliveries wait for the ledger");
    assert.deepEqual([...acknowledgements], [], "acknowledged before it was recorded");
    network.cut();
    const consumes = ({ message, connection }: LogLine): boolean =>
      message === "broker connected" && connection === "queue-relay consumer";
    await eventually(() => assert.equal(relay.logs.filter(consumes).length, 2));
    await redis.start();
    for (const id of ids) await stage.untilStatus(id, "delivered");
    await stage.assertNothingLeft();
    assert.deepEqual([...acknowledgements].toSorted(), ids.toSorted());
    assert.equal(backend.requests.length, 5);
  });
});

Deno.test("LEDGER=off: tasks are delivered and retried with the client's key, nothing is known of them, and a key that comes twice is two tasks", async () => {
  await withLedgerStage({ env: { LEDGER: "off" } }, async (stage) => {
    const { relay, backend } = stage;
    failsFirst(stage);
    const ids = [await relay.accept("1", KEY), await relay.accept("1", KEY)];
    await backend.waitFor(4);
    assert.equal(new Set(ids).size, 2);
    for (const id of ids) {
      assert.deepEqual(attemptsOf(stage, id), ["1", "2"]);
      const keys = stage.requestsOf(id).map(({ headers }) => headers["idempotency-key"]);
      assert.deepEqual(keys, ["order-17", "order-17"]);
      const { status, json } = await relay.get(`/queue/tasks/${id}`);
      assert.equal(status, 404);
      assert.match(String(json["detail"]), /LEDGER/);
      assert.equal((await relay.delete(`/queue/tasks/${id}`)).status, 404);
    }
    await stage.assertNothingLeft();
    const files = [...Deno.readDirSync(relay.dataDir)].map(({ name }) => name);
    assert.deepEqual(files.filter((name) => name.includes("ledger")), []);
  });
});

for (const store of ["sqlite", "redis"] as const) {
  Deno.test(`LEDGER_RETENTION_SEC is over, ledger in ${store}: the record is gone and its key is free; but not before the task has ended`, async () => {
    const retentionMs = 1_000;
    const env = { ...ladder(3), LEDGER_RETENTION_SEC: String(retentionMs / 1000) };
    await withLedgerStage({ store, env }, async (stage) => {
      const { relay } = stage;
      failsFirst(stage);
      const id = await relay.accept("1", KEY);
      const { nextAttemptAt } = await stage.untilStatus(id, "retrying");
      // From long before to right before its last attempt: known.
      await eventually(async () => {
        const replayed = await relay.post("1", KEY);
        assert.ok(isReplayed(replayed) && replayed.json["id"] === id, replayed.text);
        const left = Date.parse(String(nextAttemptAt)) - Date.now();
        assert.ok(left < 500, "later");
      });
      assert.equal((await stage.status(id))["status"], "retrying");
      const { finishedAt } = await stage.untilStatus(id, "delivered");
      await eventually(async () => {
        assert.equal((await relay.get(`/queue/tasks/${id}`)).status, 404);
      });
      const kept = Date.now() - Date.parse(String(finishedAt));
      assert.ok(kept >= retentionMs, `gone after ${kept} ms`);
      const anew = await relay.accept("2", KEY);
      assert.notEqual(anew, id);
      await stage.untilStatus(anew, "delivered");
      await stage.assertNothingLeft();
    });
  });
}

Deno.test("two copies of one task lie in the queue: one call, and the other is a duplicate", async () => {
  await withLedgerStage({ env: { BACKEND_TIMEOUT: "1" } }, async (stage) => {
    const { amqp, backend, names } = stage;
    const id = crypto.randomUUID();
    const message = { messageId: id, contentType: "application/json" };
    await Promise.all([1, 2, 3].map(() => amqp.publishRaw(names.main, "1", message)));
    await eventually(() => {
      const duplicates = stage.passed(id).filter(({ reason }) => reason === "duplicate");
      assert.equal(duplicates.length, 2);
      for (const { disposition } of duplicates) assert.equal(disposition, "duplicate");
    });
    assert.deepEqual(attemptsOf(stage, id), ["1"]);
    assert.equal(backend.requests.length, 1);
    assert.equal((await stage.status(id))["status"], "delivered");
    await stage.assertNothingLeft();
  });
});

Deno.test("a copy of an attempt that is over comes again: dropped as stale, and the attempts go on in their order", async () => {
  await withLedgerStage({ env: ladder(1) }, async (stage) => {
    const { amqp, names } = stage;
    failsFirst(stage);
    const id = await stage.relay.accept("1");
    await stage.untilStatus(id, "retrying");
    await amqp.publishRaw(names.main, "1", { messageId: id, contentType: "application/json" });
    await eventually(() => assert.equal(stage.passed(id)[0]?.["reason"], "stale"));
    await stage.untilStatus(id, "delivered");
    assert.deepEqual(attemptsOf(stage, id), ["1", "2"]);
    await stage.assertNothingLeft();
  });
});
