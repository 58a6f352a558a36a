/**
 * Operators look at failed tasks, send them again and delete them, at a real broker.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { TestAmqp } from "../support/amqp.ts";
import type { Answer, BackendRequest } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { type ListedTask, type Operator, withOperator } from "../support/operator.ts";
import { requestsOf, type Stage, type StageOptions, withStage } from "./stage.ts";

/** Runs `fn` on a stage with an operator. */
async function withOps(
  { env, ...options }: StageOptions,
  fn: (stage: Stage, operator: Operator) => Promise<void>,
): Promise<void> {
  await withStage(
    { ...options, env: { OPS_PORT: "0", ...env } },
    (stage) => withOperator(stage.relay, (operator) => fn(stage, operator)),
  );
}

/** What the backend answers until a test lets it do better. */
class Mood {
  status = 500;
  readonly answer = (_: BackendRequest): Answer => ({ status: this.status, body: "no" });
}

/** Lays messages into the failed queue as the relay does. */
async function fill(amqp: TestAmqp, queue: string, count: number): Promise<void> {
  const publishing = Array.from(
    { length: count },
    (_, n) =>
      amqp.publishRaw(queue, JSON.stringify({ n }), {
        messageId: `task-${n}`,
        contentType: "application/json",
        persistent: true,
        headers: {
          "relay-attempt": 3,
          "relay-enqueued-at": 1_700_000_000_000 + n,
          "relay-reason": n % 2 === 0 ? "attempts_exhausted" : "permanent_status",
          "relay-last-status": n % 2 === 0 ? 500 : 422,
          "relay-failed-at": 1_700_000_100_000 + n,
        },
      }),
  );
  await Promise.all(publishing);
}

function idsOf(tasks: readonly ListedTask[]): string[] {
  return tasks.map(({ id }) => id);
}

for (const ledger of ["on", "off"]) {
  Deno.test(`LEDGER=${ledger}: a failed task is listed, shown with its history, and sent again from its first attempt until it is delivered`, async () => {
    const mood = new Mood();
    await withOps({ answer: mood.answer, env: { LEDGER: ledger } }, async (stage, operator) => {
      const { relay, backend, amqp, queues } = stage;
      const body = '{"big":12345678901234567890, "a":1.0}\n';
      const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
      const headers = {
        "content-type": "application/vnd.order+json",
        "idempotency-key": "order-1",
        traceparent,
      };
      const id = await relay.accept(body, headers);
      await eventually(async () => assert.equal((await operator.list()).total, 1));

      const { tasks: [listed], next } = await operator.list();
      assert.equal(next, null);
      assert.deepEqual({ ...listed, enqueuedAt: 0, failedAt: 0 }, {
        id,
        reason: "attempts_exhausted",
        lastStatus: 500,
        lastError: "no",
        attempts: 2,
        enqueuedAt: 0,
        failedAt: 0,
        redriven: 0,
        bytes: body.length,
      });
      assert.ok(Date.parse(listed?.failedAt ?? "") >= Date.parse(listed?.enqueuedAt ?? ""));

      const { status, json } = await operator.get(`/failed/${id}`);
      assert.equal(status, 200);
      assert.equal(json["payload"], body);
      assert.equal(json["payloadEncoding"], "utf-8");
      assert.equal(json["contentType"], "application/vnd.order+json");
      assert.equal(json["idempotencyKey"], "order-1");
      const { history } = json;
      assert.ok(Array.isArray(history) && history.length === 2, JSON.stringify(history));

      mood.status = 200;
      assert.deepEqual(await operator.redrive({ ids: [id] }), { matched: 1, redriven: 1 });
      await eventually(() => assert.equal(requestsOf(backend, id).length, 3));
      const again = requestsOf(backend, id)[2];
      assert.equal(Buffer.from(again?.body ?? "").toString(), body);
      assert.equal(again?.headers["task-attempt"], "1");
      assert.equal(again?.headers["content-type"], "application/vnd.order+json");
      assert.equal(again?.headers["idempotency-key"], "order-1");
      assert.match(String(again?.headers["traceparent"]), /^00-0af7651916cd43dd8448eb211c80319c-/);
      if (ledger === "on") {
        await eventually(async () => {
          const { json } = await relay.get(`/queue/tasks/${id}`);
          assert.deepEqual([json["status"], json["attempts"]], ["delivered", 1]);
        });
      }
      await eventually(async () => assert.equal(await amqp.depth(queues.main), 0));
      assert.equal(await amqp.depth(queues.failed), 0);
    });
  });
}

Deno.test("a task that fails again after it was sent again → listed once, redriven 1, its history new; then it goes a second time", async () => {
  const mood = new Mood();
  await withOps({ answer: mood.answer }, async ({ relay, backend }, operator) => {
    const id = await relay.accept("1");
    const failedWith = async (redriven: number): Promise<void> => {
      const { tasks } = await operator.list();
      assert.deepEqual(tasks.map((task) => [task.id, task.redriven, task.attempts]), [
        [id, redriven, 2],
      ]);
    };
    await eventually(() => failedWith(0));
    await operator.redrive({ all: true });
    await eventually(() => failedWith(1));
    const { json } = await operator.get(`/failed/${id}`);
    assert.equal(JSON.parse(JSON.stringify(json["history"])).length, 2);
    await eventually(async () => {
      assert.equal((await relay.get(`/queue/tasks/${id}`)).json["status"], "failed");
    });
    mood.status = 200;
    await operator.redrive({ all: true });
    await eventually(() => assert.equal(requestsOf(backend, id).length, 5));
    await eventually(async () => assert.equal((await operator.list()).total, 0));
  });
});

for (const type of ["quorum", "classic"]) {
  Deno.test(`QUEUE_TYPE=${type}: 50 lists, pages, filters and shows of any depth leave order and content as they were`, async () => {
    await withOps({ env: { QUEUE_TYPE: type } }, async ({ amqp, queues }, operator) => {
      await fill(amqp, queues.failed, 1_200);
      const all = Array.from({ length: 1_200 }, (_, n) => `task-${n}`);
      const looks: readonly (() => Promise<void>)[] = [
        async () =>
          assert.deepEqual(idsOf((await operator.list("?limit=5")).tasks), all.slice(0, 5)),
        async () =>
          assert.deepEqual(idsOf((await operator.list("?limit=1000")).tasks), all.slice(0, 1_000)),
        async () => assert.equal((await operator.get("/failed/task-1111")).json["id"], "task-1111"),
        async () => {
          const { tasks, next } = await operator.list("?limit=10&after=task-699");
          assert.deepEqual([idsOf(tasks), next], [all.slice(700, 710), "task-709"]);
        },
        async () => {
          const { tasks } = await operator.list("?status=422&limit=1000");
          assert.deepEqual(idsOf(tasks), all.filter((_, n) => n % 2 === 1));
        },
      ];
      for (let n = 0; n < 50; n++) await looks[n % looks.length]?.();
      // The last answer comes before the queue has everything back.
      await eventually(async () => assert.equal(await amqp.depth(queues.failed), all.length));
      const left = await amqp.peekAll(queues.failed);
      assert.deepEqual(left.map(({ id }) => id), all);
      assert.deepEqual(
        left.map(({ body }) => Buffer.from(body).toString()),
        all.map((_, n) => JSON.stringify({ n })),
      );
    });
  });
}

Deno.test("pages by `next` with a filter: each match once; `after` that is gone → 404; what can't be understood → 400", async () => {
  await withOps({}, async ({ amqp, queues }, operator) => {
    await fill(amqp, queues.failed, 25);
    const seen: string[] = [];
    let next: string | null = null;
    do {
      const after: string = next === null ? "" : `&after=${next}`;
      const page = await operator.list(`?limit=4&reason=permanent_status${after}`);
      assert.equal(page.total, 25);
      seen.push(...idsOf(page.tasks));
      next = page.next;
    } while (next !== null);
    assert.deepEqual(seen, Array.from({ length: 12 }, (_, n) => `task-${2 * n + 1}`));
    assert.equal((await operator.get("/failed?after=nobody")).status, 404);
    for (const query of ["?limit=0", "?limit=1001", "?reason=whim", "?status=abc", "?page=2"]) {
      const { status, headers } = await operator.get(`/failed${query}`);
      assert.deepEqual([status, headers["content-type"]], [400, "application/problem+json"]);
    }
    const { text } = await operator.get("/failed?limit=abc&reason=whim");
    assert.match(text, /limit: must be a whole number from 1 to 1000; reason: must be one of atte/);
    const bodies = [{}, { ids: [], all: true }, { ids: ["a"], all: true }, { all: true, limt: 1 }];
    for (const body of bodies) {
      assert.equal((await operator.post("/failed/redrive", body)).status, 400);
    }
    assert.equal((await operator.delete("/failed")).status, 400, "all=true must be said");
    assert.equal((await operator.get("/failed/nobody")).status, 404);
    assert.equal((await operator.get("/nothing")).status, 404);
    assert.equal((await operator.get("/failed/redrive")).status, 405);
  });
});

Deno.test("redrive by filter, limit and dryRun: as many as matched, the others stay in their order", async () => {
  await withOps({}, async ({ backend, amqp, queues }, operator) => {
    await fill(amqp, queues.failed, 20);
    const dry = { all: true, status: 422, dryRun: true };
    assert.deepEqual(await operator.redrive(dry), { matched: 10, redriven: 0 });
    const some = { all: true, status: 422, limit: 3 };
    assert.deepEqual(await operator.redrive(some), { matched: 3, redriven: 3 });
    await backend.waitFor(3);
    const sent = backend.requests.map(({ headers }) => headers["task-id"]);
    assert.deepEqual(sent.toSorted(), ["task-1", "task-3", "task-5"]);
    const left = Array.from({ length: 20 }, (_, n) => n).filter((n) => ![1, 3, 5].includes(n));
    assert.deepEqual(idsOf((await operator.list()).tasks), left.map((n) => `task-${n}`));
  });
});

Deno.test("every second of 1,200 tasks is sent again: so many leave the queue, and the others lie there in their order", async () => {
  await withOps({}, async ({ backend, amqp, queues }, operator) => {
    await fill(amqp, queues.failed, 1_200);
    const selection = { all: true, reason: "permanent_status" };
    assert.equal((await operator.redrive(selection)).redriven, 600);
    await backend.waitFor(600);
    const { total, tasks } = await operator.list("?limit=1000");
    assert.equal(total, 600, "acknowledged, and there all the same");
    assert.deepEqual(idsOf(tasks), Array.from({ length: 600 }, (_, n) => `task-${2 * n}`));
  });
});

Deno.test("two redrives of 1,200 tasks at once, and lists between them: each task is sent once", async () => {
  await withOps({}, async ({ backend, amqp, queues }, operator) => {
    await fill(amqp, queues.failed, 1_200);
    const [one, two] = await Promise.all([
      operator.redrive({ all: true }),
      operator.redrive({ all: true }),
      operator.list(),
      operator.list("?limit=1000"),
    ]);
    assert.equal(one.redriven + two.redriven, 1_200);
    await backend.waitFor(1_200);
    await eventually(async () => assert.equal(await amqp.depth(queues.main), 0));
    const ids = backend.requests.map(({ headers }) => headers["task-id"]);
    assert.deepEqual([ids.length, new Set(ids).size], [1_200, 1_200]);
    assert.equal(await amqp.depth(queues.failed), 0);
  });
});

Deno.test("invalid messages are listed, shown and deleted; sent again they stay where they are", async () => {
  await withOps({}, async ({ backend, amqp, queues }, operator) => {
    await amqp.publishRaw(queues.main, Uint8Array.of(0x22, 0xff), { messageId: "odd/1" });
    await amqp.publishRaw(queues.main, "hello", { messageId: "2" });
    await eventually(async () => assert.equal((await operator.list()).total, 2));
    const { tasks } = await operator.list("?reason=invalid_message");
    assert.deepEqual(idsOf(tasks), ["odd/1", "2"]);
    const { json } = await operator.get("/failed/odd%2F1");
    assert.deepEqual([json["payload"], json["payloadEncoding"]], ["Iv8=", "base64"]);
    assert.deepEqual(await operator.redrive({ all: true }), { matched: 2, redriven: 0 });
    assert.equal((await operator.list()).total, 2);
    assert.equal((await operator.delete("/failed/odd%2F1")).status, 200);
    assert.equal((await operator.delete("/failed/odd%2F1")).status, 404);
    assert.deepEqual(idsOf((await operator.list()).tasks), ["2"]);
    assert.deepEqual((await operator.delete("/failed?all=true")).json, { deleted: 1 });
    assert.equal((await operator.list()).total, 0);
    assert.equal(backend.requests.length, 0);
  });
});

Deno.test("what the broker dead-lettered counts as delivery_limit, and is sent again without x-death", async () => {
  await withOps({ env: { RETRY_LADDER: "1x0s,1x60s" } }, async (stage, operator) => {
    const { backend, amqp, queues } = stage;
    await amqp.publishRaw(queues.failed, '{"a":1}', {
      messageId: "killer",
      headers: {
        "relay-attempt": 1,
        "relay-enqueued-at": 1_700_000_000_000,
        "x-delivery-count": 101,
        "x-death": [{ queue: queues.main, reason: "delivery_limit", count: 1, exchange: "" }],
      },
    });
    const { tasks: [task] } = await operator.list();
    assert.deepEqual([task?.id, task?.reason, task?.attempts], ["killer", "delivery_limit", 0]);
    backend.answer = () => ({ status: 500 });
    assert.deepEqual(await operator.redrive({ all: true }), { matched: 1, redriven: 1 });
    const rung = queues.retries[0] ?? "";
    await eventually(async () => assert.equal(await amqp.depth(rung), 1));
    const [copy] = await amqp.peekAll(rung);
    const names = Object.keys(copy?.headers ?? {});
    assert.deepEqual(names.filter((name) => name.startsWith("x-")), []);
    assert.equal(copy?.headers["relay-redriven"], 1);
  });
});
