/**
 * The retry ladder end to end: each rung's delay, the numbers of the attempts, and what lies in the
 * failed queue when the ladder is at its end.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { QueuedMessage, TestAmqp } from "../support/amqp.ts";
import { type Answer, type Backend, withBackend } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { queueNames } from "../support/queues.ts";
import { withRelay } from "../support/relay.ts";
import { relayEnv, requestsOf, withPrefix, withStage } from "./stage.ts";

/** The 27 attempts of the default ladder on its six rungs, in 1.5 s. */
const ALL_27 = "2x0s,5x0.02s,5x0.04s,5x0.06s,5x0.08s,5x0.1s";

/** What lies in the failed queue, as soon as `count` messages do. */
async function failedTasks(
  amqp: TestAmqp,
  queue: string,
  count: number,
): Promise<QueuedMessage[]> {
  await eventually(async () => assert.equal(await amqp.depth(queue), count));
  return await amqp.peekAll(queue);
}

/** `relay-attempts`, read. */
function historyOf({ headers }: QueuedMessage): Record<string, unknown>[] {
  return JSON.parse(String(headers["relay-attempts"])) as Record<string, unknown>[];
}

function attemptsAt(backend: Backend, id: string): number[] {
  return requestsOf(backend, id).map(({ headers }) => Number(headers["task-attempt"]));
}

function countedTo(last: number): number[] {
  return Array.from({ length: last }, (_, n) => n + 1);
}

/** Milliseconds between a task's arrivals at the backend. */
function pauses(backend: Backend, id: string): number[] {
  const times = requestsOf(backend, id).map(({ at }) => at);
  return times.slice(1).map((time, n) => time - (times[n] ?? 0));
}

Deno.test("a task that fails each time makes every attempt of the ladder, after its delays, and lies in failed with its reason", async () => {
  const env = { RETRY_LADDER: "2x0s,2x0.3s,2x0.6s" };
  const delays = [0, 300, 300, 600, 600];
  const answer = (): Answer => ({ status: 502, body: "out\nof\x00order" });
  await withStage({ env, answer }, async ({ relay, backend, amqp, queues }) => {
    await relay.accept('"the first makes the connections"');
    await failedTasks(amqp, queues.failed, 1);
    await amqp.drain(queues.failed);
    const before = Date.now();
    const ids = await Promise.all(countedTo(9).map((n) => relay.accept(String(n))));
    const failed = await failedTasks(amqp, queues.failed, ids.length);
    for (const id of ids) {
      assert.deepEqual(attemptsAt(backend, id), countedTo(6));
      const maxima = requestsOf(backend, id).map(({ headers }) => headers["task-max-attempts"]);
      assert.deepEqual(new Set(maxima), new Set(["6"]));
    }
    for (const [n, delay] of delays.entries()) {
      const taken = ids.map((id) => pauses(backend, id)[n] ?? NaN);
      assert.ok(Math.min(...taken) >= delay, `attempt ${n + 2} came early: ${taken}`);
      // The quickest of nine, because a busy machine may hold up any of them for any time.
      assert.ok(Math.min(...taken) <= delay * 1.05 + 100, `attempt ${n + 2} came late: ${taken}`);
    }
    for (const task of failed) {
      const { "relay-attempts": _, "relay-enqueued-at": enqueuedAt, ...headers } = task.headers;
      const failedAt = Number(headers["relay-failed-at"]);
      assert.ok(before <= Number(enqueuedAt) && Number(enqueuedAt) < failedAt, `${failedAt}`);
      assert.ok(failedAt <= Date.now(), `${failedAt}`);
      assert.deepEqual(headers, {
        "relay-attempt": 7,
        "relay-reason": "attempts_exhausted",
        "relay-last-status": 502,
        "relay-last-error": "out of order",
        "relay-failed-at": failedAt,
      });
      assert.equal(task.properties.deliveryMode, 2);
      assert.equal(new TextDecoder().decode(task.body), String(ids.indexOf(task.id) + 1));
    }
  });
});

Deno.test("case 16: a task that has travelled the whole ladder of 27 attempts: counted right, its history whole, no x-death", async () => {
  const env = { RETRY_LADDER: ALL_27 };
  const answer = (): Answer => ({ status: 500 });
  await withStage({ env, answer }, async ({ relay, backend, amqp, queues }) => {
    const id = await relay.accept('{"n":1}', { "idempotency-key": "key" });
    const [task] = await failedTasks(amqp, queues.failed, 1);
    assert.ok(task);
    assert.equal(task.id, id);
    assert.deepEqual(attemptsAt(backend, id), countedTo(27));
    assert.deepEqual(Object.keys(task.headers).sort(), [
      "idempotency-key",
      "relay-attempt",
      "relay-attempts",
      "relay-enqueued-at",
      "relay-failed-at",
      "relay-last-error",
      "relay-last-status",
      "relay-reason",
    ]);
    assert.equal(task.headers["relay-reason"], "attempts_exhausted");

    const history = historyOf(task);
    assert.equal(history.length, 27);
    for (const [n, record] of history.entries()) {
      const { time, ms, ...rest } = record;
      assert.deepEqual(rest, { outcome: "status", status: 500, error: "status 500" });
      const sent = requestsOf(backend, id)[n]?.wallAt ?? NaN;
      assert.ok(Number(time) <= sent && sent <= Number(time) + Number(ms) + 1, `attempt ${n + 1}`);
    }
  });
});

Deno.test("PERMANENT_STATUSES: such an answer puts the task into failed at once, any other status is retried", async () => {
  const env = { PERMANENT_STATUSES: "400,422" };
  await withStage({ env }, async ({ relay, backend, amqp, queues }) => {
    backend.answer = ({ body }) => ({ status: Number(new TextDecoder().decode(body)) });
    const [permanent, retried] = [await relay.accept("422"), await relay.accept("404")];
    const failed = await failedTasks(amqp, queues.failed, 2);
    const reasons = failed.map(({ id, headers }) => [id, headers["relay-reason"]]);
    assert.deepEqual(Object.fromEntries(reasons), {
      [permanent]: "permanent_status",
      [retried]: "attempts_exhausted",
    });
    assert.deepEqual(attemptsAt(backend, permanent), [1]);
    assert.deepEqual(attemptsAt(backend, retried), [1, 2]);
    const task = failed.find(({ id }) => id === permanent);
    assert.equal(task?.headers["relay-last-status"], 422);
    assert.ok(task && historyOf(task).length === 1);
    const line = relay.logs.find(({ task_id }) => task_id === permanent);
    assert.equal(line?.["disposition"], "failed");
    assert.equal(line?.["next_queue"], queues.failed);
  });
});

Deno.test("the ladder was shortened while a task waited: it goes to failed once, with its history and no further attempt", async () => {
  const [long, short] = ["1x0s,5x0.5s", "1x0s,1x0.5s"];
  await withPrefix(long, async (prefix, amqp) => {
    const queues = queueNames(prefix, long);
    const [rung = ""] = queues.retries;
    await withBackend(async (backend) => {
      backend.answer = () => ({ status: 503 });
      const env = relayEnv(backend, { QUEUE_PREFIX: prefix });
      const id = await withRelay({ env: { ...env, RETRY_LADDER: long } }, async (relay) => {
        const accepted = await relay.accept("1");
        await relay.waitForLog(({ attempt }) => attempt === 3);
        assert.equal(await amqp.depth(rung), 1);
        return accepted;
      });
      await withRelay({ env: { ...env, RETRY_LADDER: short } }, async (relay) => {
        const [task] = await failedTasks(amqp, queues.failed, 1);
        assert.equal(task?.id, id);
        assert.equal(task?.headers["relay-reason"], "attempts_exhausted");
        assert.equal(task?.headers["relay-last-status"], 503);
        assert.ok(task && historyOf(task).length === 3);
        assert.deepEqual(attemptsAt(backend, id), [1, 2, 3]);
        assert.equal(await relay.stop(), 0);
        const depths = await amqp.depths(queues.all);
        assert.deepEqual(Object.values(depths), [0, 0, 1]);
      });
    });
  });
});
