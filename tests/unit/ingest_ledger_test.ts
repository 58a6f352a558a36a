/** Idempotency-Key, the status of a task and its cancellation, with a ledger that tests decide about. */
import assert from "node:assert/strict";
import { configure, type LogRecord, reset } from "@logtape/logtape";
import { PUBLISH_DEADLINE_MS, type PublishResult } from "../../src/ingest/ports.ts";
import { RETRY_AFTER_SEC } from "../../src/http/refusals.ts";
import {
  assertProblem,
  assertRetryAfter,
  CONFIRMED,
  UNAVAILABLE,
  UNKNOWN,
  withIngest,
} from "../support/ingest_world.ts";

const KEY = { "idempotency-key": "order-17" };

Deno.test("a key that comes again with its body → 202 with the first id, marked, nothing enqueued", async () => {
  await withIngest({}, async ({ post, published }) => {
    const first = await post('{"a":1}', KEY);
    const second = await post('{"a":1}', { "idempotency-key": '"order-17"' });
    assert.deepEqual([first.status, second.status], [202, 202]);
    assert.deepEqual(second.json, first.json);
    assert.equal(first.headers.get("idempotency-replayed"), null);
    assert.equal(second.headers.get("idempotency-replayed"), "true");
    assert.equal(second.headers.get("location"), `/queue/tasks/${first.json["id"]}`);
    assert.deepEqual(published.map(({ id }) => id), [first.json["id"]]);
    assert.equal(published[0]?.idempotencyKey, "order-17");
  });
});

Deno.test("a key that comes again with another body, if only by a space → 422, nothing enqueued", async () => {
  await withIngest({}, async ({ post, published }) => {
    await post('{"a":1}', KEY);
    assertProblem(await post('{"a": 1}', KEY), 422, /another payload.*new key/);
    assert.equal((await post('{"a": 1}', { "idempotency-key": "order-18" })).status, 202);
    assert.equal(published.length, 2);
  });
});

Deno.test("a key whose first request is still being accepted → 409 with Retry-After, also with another body 422", async () => {
  await withIngest({}, async (world) => {
    const confirm = Promise.withResolvers<PublishResult>();
    const published = Promise.withResolvers<void>();
    world.broker = () => {
      published.resolve();
      return confirm.promise;
    };
    const first = world.post("1", KEY);
    await published.promise;
    const second = await world.post("1", KEY);
    assertProblem(second, 409, /still being accepted/);
    assertRetryAfter(second);
    assertProblem(await world.post("2", KEY), 422, /another payload/);
    confirm.resolve(CONFIRMED);
    assert.equal((await first).status, 202);
    assert.equal((await world.post("1", KEY)).json["id"], (await first).json["id"]);
    assert.equal(world.published.length, 1);
  });
});

Deno.test("a publish that surely failed → 503, the key is free: a new body is accepted with it", async () => {
  await withIngest({}, async (world) => {
    world.broker = () => UNAVAILABLE;
    const refused = await world.post("1", KEY);
    assertProblem(refused, 503, /not accepted/);
    assertRetryAfter(refused);
    assert.equal(world.store.records.size, 0);
    world.broker = () => CONFIRMED;
    assert.equal((await world.post("2", KEY)).status, 202);
  });
});

Deno.test("a publish of which nobody knows → 503, and the same id is published when the key comes again", async () => {
  await withIngest({}, async (world) => {
    world.broker = () => UNKNOWN;
    assertProblem(await world.post("1", KEY), 503, /may have been accepted.*same Idempotency-Key/);
    assertProblem(await world.post("2", KEY), 422, /another payload/);
    // Surely refused now, but the first publish may have gone through: the id must stay.
    world.broker = () => UNAVAILABLE;
    assertProblem(await world.post("1", KEY), 503, /not accepted/);
    world.broker = () => CONFIRMED;
    const accepted = await world.post("1", KEY);
    assert.equal(accepted.status, 202);
    assert.equal(accepted.headers.get("idempotency-replayed"), null);
    assert.equal(world.published.length, 3);
    for (const { id } of world.published) assert.equal(id, accepted.json["id"]);
  });
});

Deno.test("a request that died between reserving and publishing → its id is published after the lease, not before", async () => {
  await withIngest({}, async (world) => {
    const start = Date.now();
    let passed = 0;
    world.store.now = () => start + passed;
    world.broker = () => new Promise(() => {});
    world.post("1", KEY);
    const waiting = await world.post("1", KEY);
    assertProblem(waiting, 409, /still being accepted/);
    const lease = Number(waiting.headers.get("retry-after")) * 1000;
    assert.ok(lease > PUBLISH_DEADLINE_MS, "two publishes under one key could overlap");
    world.broker = () => CONFIRMED;
    passed = lease - 1;
    assert.equal((await world.post("1", KEY)).status, 409);
    passed = lease;
    const accepted = await world.post("1", KEY);
    assert.equal(accepted.status, 202);
    assert.equal(world.published.length, 2);
    assert.equal(new Set(world.published.map(({ id }) => id)).size, 1);
  });
});

Deno.test("ledger down: keyed → 503 with Retry-After and nothing published, without a key → 202", async () => {
  await withIngest({}, async ({ post, ask, store, published }) => {
    store.down = true;
    const refused = await post("1", KEY);
    assertProblem(refused, 503, /ledger/);
    assert.equal(refused.headers.get("retry-after"), String(RETRY_AFTER_SEC));
    assert.equal(published.length, 0);
    const { status, json } = await post("1");
    assert.equal(status, 202);
    for (const method of ["GET", "DELETE"] as const) {
      const answer = await ask(method, `/queue/tasks/${json["id"]}`);
      assertProblem(answer, 503, /ledger/);
      assertRetryAfter(answer);
    }
  });
});

Deno.test("ledger lost between reserving and accepting: the task that was confirmed is answered 202", async () => {
  await withIngest({}, async (world) => {
    world.broker = () => {
      world.store.down = true;
      return CONFIRMED;
    };
    const { status, json } = await world.post("1", KEY);
    assert.equal(status, 202);
    world.store.down = false;
    world.store.now = () => Date.now() + 60_000;
    world.broker = () => CONFIRMED;
    assert.equal((await world.post("1", KEY)).json["id"], json["id"], "never a second task");
  });
});

Deno.test("ledger failing on hundreds of tasks → logged once a second, every task accepted", async () => {
  const records: LogRecord[] = [];
  await configure({
    reset: true,
    sinks: { memory: (record) => records.push(record) },
    loggers: [
      { category: "relay", sinks: ["memory"], lowestLevel: "info" },
      { category: ["logtape", "meta"], sinks: [] },
    ],
  });
  try {
    await withIngest({}, async ({ post, store }) => {
      store.down = true;
      const began = performance.now();
      const answers = await Promise.all(Array.from({ length: 300 }, () => post("1")));
      const seconds = Math.ceil((performance.now() - began) / 1000);
      assert.ok(answers.every(({ status }) => status === 202));
      assert.ok(records.length >= 1 && records.length <= seconds, `${records.length} lines`);
    });
  } finally {
    await reset();
  }
});

Deno.test("GET right after the 202 finds the task, with every field of the contract", async () => {
  const now = Date.UTC(2026, 10, 30, 21, 40, 0, 7);
  await withIngest({ now: () => now }, async ({ post, ask }) => {
    for (const headers of [{}, KEY]) {
      const { json } = await post("1", headers);
      const answer = await ask("GET", `/queue/tasks/${json["id"]}`);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("content-type"), "application/json");
      assert.equal(answer.headers.get("cache-control"), "no-store");
      assert.deepEqual(answer.json, {
        id: json["id"],
        status: "queued",
        attempts: 0,
        maxAttempts: 27,
        lastStatus: null,
        lastError: null,
        enqueuedAt: "2026-11-30T21:40:00.007Z",
        nextAttemptAt: null,
        finishedAt: null,
      });
      const order =
        "id status attempts maxAttempts lastStatus lastError enqueuedAt nextAttemptAt finishedAt";
      assert.equal(Object.keys(answer.json).join(" "), order);
    }
  });
});

Deno.test("GET follows a task: delayed, retrying with its error and its next attempt, failed", async () => {
  await withIngest({}, async ({ post, ask, ledger, published }) => {
    const { json } = await post("1", { "task-delay": "60" });
    const path = `/queue/tasks/${json["id"]}`;
    const delayed = await ask("GET", path);
    const { id = "", enqueuedAt = 0, notBefore = 0 } = published[0] ?? {};
    assert.equal(delayed.json["status"], "delayed");
    assert.equal(delayed.json["nextAttemptAt"], new Date(notBefore).toISOString());
    const owner = { relay: "a", run: "1" };
    await ledger.claim({ id, attempt: 1, enqueuedAt, leaseMs: 1_000, owner });
    assert.equal((await ask("GET", path)).json["status"], "delivering");
    const last = { lastStatus: 502, lastError: "status 502" };
    const nextAttemptAt = Date.now() + 15_000;
    const retried = { kind: "retried", nextAttemptAt, last } as const;
    await ledger.conclude({ id, attempt: 1, enqueuedAt, conclusion: retried });
    const retrying = (await ask("GET", path)).json;
    assert.equal(retrying["status"], "retrying");
    assert.equal(retrying["attempts"], 1);
    assert.equal(retrying["lastStatus"], 502);
    assert.equal(retrying["lastError"], "status 502");
    assert.equal(retrying["nextAttemptAt"], new Date(nextAttemptAt).toISOString());
    await ledger.conclude({ id, attempt: 2, enqueuedAt, conclusion: { kind: "failed", last } });
    const failed = (await ask("GET", path)).json;
    assert.equal(failed["status"], "failed");
    assert.equal(failed["nextAttemptAt"], null);
    assert.match(String(failed["finishedAt"]), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });
});

Deno.test("DELETE → 202 with the status, again 202; finished → 409; unknown → 404", async () => {
  await withIngest({}, async ({ post, ask, ledger, published }) => {
    const path = `/queue/tasks/${(await post("1")).json["id"]}`;
    for (let time = 0; time < 2; time++) {
      const cancelled = await ask("DELETE", path);
      assert.equal(cancelled.status, 202);
      assert.equal(cancelled.json["status"], "cancelled");
    }
    assert.equal((await ask("GET", path)).json["status"], "cancelled");

    const done = `/queue/tasks/${(await post("2")).json["id"]}`;
    const { id = "", enqueuedAt = 0 } = published[1] ?? {};
    const conclusion = { kind: "delivered", lastStatus: 200 } as const;
    await ledger.conclude({ id, attempt: 1, enqueuedAt, conclusion });
    assertProblem(await ask("DELETE", done), 409, /finished/);
    assert.equal((await ask("GET", done)).json["status"], "delivered");

    for (const method of ["GET", "DELETE"] as const) {
      for (const id of ["nothing", crypto.randomUUID(), "%00", "x".repeat(5_000), "%E0%A4%A"]) {
        assertProblem(await ask(method, `/queue/tasks/${id}`), 404, /no task with this id/);
      }
    }
  });
});

Deno.test("with a token set, the status of a task and its cancellation need it", async () => {
  await withIngest({ token: "secret" }, async ({ post, ask }) => {
    const headers = { authorization: "Bearer secret" };
    const { json } = await post("1", headers);
    for (const method of ["GET", "DELETE"] as const) {
      assertProblem(await ask(method, `/queue/tasks/${json["id"]}`), 401, /token/);
    }
    assertProblem(await post("[1]", {}, "/queue/tasks/batch"), 401, /token/);
  });
});

Deno.test("LEDGER=off: keys are checked and passed on, not kept; a task's status → 404 that says why", async () => {
  await withIngest({ ledger: undefined }, async ({ post, ask, published }) => {
    const first = await post("1", KEY);
    const second = await post("2", KEY);
    assert.deepEqual([first.status, second.status], [202, 202]);
    assert.deepEqual(published.map(({ idempotencyKey }) => idempotencyKey), [
      "order-17",
      "order-17",
    ]);
    assertProblem(await post("1", { "idempotency-key": '"x' }), 400, /Idempotency-Key/);
    for (const method of ["GET", "DELETE"] as const) {
      assertProblem(await ask(method, `/queue/tasks/${first.json["id"]}`), 404, /LEDGER=off/);
    }
  });
});

Deno.test("the paths of single tasks: other methods → 405 with Allow, OPTIONS → 204", async () => {
  await withIngest({}, async ({ ingest }) => {
    const ask = async (method: string, path: string): Promise<[number, string | null]> => {
      const answer = await ingest.fetch(new Request(`http://relay.test${path}`, { method }));
      await answer.body?.cancel();
      return [answer.status, answer.headers.get("allow")];
    };
    for (const method of ["POST", "PUT", "PATCH"]) {
      assert.deepEqual(await ask(method, "/queue/tasks/abc"), [405, "GET, HEAD, DELETE"]);
    }
    assert.deepEqual(await ask("OPTIONS", "/queue/tasks/abc"), [204, "GET, HEAD, DELETE"]);
    assert.deepEqual(await ask("HEAD", "/queue/tasks/abc"), [404, null]);
    for (const method of ["GET", "DELETE", "PUT"]) {
      assert.deepEqual(await ask(method, "/queue/tasks/batch"), [405, "POST"]);
    }
    assert.deepEqual(await ask("OPTIONS", "/queue/tasks/batch"), [204, "POST"]);
    for (const path of ["/queue/tasks/", "/queue/tasks/a/b", "/queue/tasks//"]) {
      assert.equal((await ask("GET", path))[0], 404, path);
    }
  });
});

Deno.test("Task-Delay and Task-Not-Before travel as the moment before which the task is not delivered", async () => {
  const now = Date.UTC(2026, 10, 30, 21, 40);
  await withIngest({ now: () => now, maxDelayMs: 60_000 }, async ({ post, published }) => {
    const answers = [
      await post("1", { "task-delay": "1.5" }),
      await post("1", { "task-not-before": "2026-11-30T21:41:00Z" }),
      await post("1", { "task-not-before": "2026-11-30T21:39:00Z" }),
      await post("1", { "task-delay": "0" }),
    ];
    assert.ok(answers.every(({ status, json }) => status === 202 && json["status"] === "queued"));
    const due = published.map(({ notBefore }) => notBefore);
    assert.deepEqual(due, [now + 1_500, now + 60_000, undefined, undefined]);
    assertProblem(await post("1", { "task-delay": "61" }), 400, /60 seconds/);
    assertProblem(await post("1", { "task-delay": "soon" }), 400, /Task-Delay/);
    assertProblem(await post("1", { "task-not-before": "120" }), 400, /Task-Not-Before/);
    const both = { "task-delay": "1", "task-not-before": "2026-11-30T21:41:00Z" };
    assertProblem(await post("1", both), 400, /both/);
    assert.equal(published.length, 4);
  });
});
