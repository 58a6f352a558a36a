/**
 * The end of a relay that is asked to stop: what is in flight ends, the rest goes back, nothing is
 * lost, and it takes no longer than it may.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { attemptLines, type Stage, withStage } from "./stage.ts";

/** What a process may take to end, besides the grace, on a machine that has more to do. */
const MARGIN_MS = 5_000;

/** Milliseconds until the process has ended, which is to be with 0. */
async function endOf({ relay }: Stage, signal: Deno.Signal): Promise<number> {
  const from = performance.now();
  relay.signal(signal);
  assert.equal(await relay.status, 0);
  return performance.now() - from;
}

async function post({ relay }: Stage, count: number): Promise<string[]> {
  return await Promise.all(Array.from({ length: count }, (_, n) => relay.accept(String(n))));
}

/** Ids of the tasks that wait: in the queues, and for their first attempt. */
async function waitingTasks({ amqp, queues }: Stage, count: number): Promise<string[]> {
  const { waiting, messages } = await amqp.census(queues, ({ waiting, failed }) => {
    assert.deepEqual([waiting.size, failed.size], [count, 0]);
  });
  for (const { headers } of messages) assert.equal(headers["relay-attempt"], 1);
  assert.equal(messages.length, count, "a task lies in the queues twice");
  return [...waiting.keys()];
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  Deno.test(`case 39: ${signal} under load: what is in flight ends, the rest goes back, exit 0 within the grace`, async () => {
    const env = { CONCURRENCY: "5", PREFETCH_COUNT: "20" };
    const answer = (): Answer => ({ status: 200, delayMs: 500 });
    await withStage({ env, answer }, async (stage) => {
      const { relay, backend } = stage;
      const ids = await post(stage, 40);
      await backend.waitFor(8);
      assert.ok(await endOf(stage, signal) < 20_000, "it took longer than the grace");
      const delivered = attemptLines(relay).map(({ task_id }) => String(task_id));
      const asked = backend.requests.map(({ headers }) => String(headers["task-id"]));
      assert.deepEqual(delivered.toSorted(), asked.toSorted());
      assert.ok(asked.length <= 15, `${asked.length} requests: it took new tasks on`);
      const waiting = await waitingTasks(stage, 40 - asked.length);
      assert.deepEqual([...asked, ...waiting].sort(), ids.toSorted());
    });
  });
}

Deno.test("200 requests in flight are answered at once after SIGTERM → all are acknowledged before the end, five times", async () => {
  const IN_FLIGHT = 200;
  const env = {
    LEDGER: "off",
    CONCURRENCY: String(IN_FLIGHT),
    PREFETCH_COUNT: String(IN_FLIGHT),
    BACKEND_TIMEOUT: "30",
  };
  await withStage({ env }, async (stage) => {
    const { relay, backend, amqp, queues } = stage;
    for (let round = 1; round <= 5; round++) {
      const answered = Promise.withResolvers<Answer>();
      backend.answer = () => answered.promise;
      await post(stage, IN_FLIGHT);
      await backend.waitFor(round * IN_FLIGHT);
      relay.signal("SIGTERM");
      await relay.waitForLog(({ message }) => message === "stopping");
      answered.resolve({ status: 200 });
      assert.equal(await relay.status, 0);
      const { messages } = await amqp.census(queues, () => {});
      assert.equal(messages.length, 0, "answered with 200, and to be sent again");
      assert.equal(await amqp.depth(queues.main), 0);
      await relay.start();
    }
    assert.equal(backend.requests.length, 5 * IN_FLIGHT);
  });
});

Deno.test("case 39: the second signal, with requests in flight: ends at once with 0, and the tasks are still there", async () => {
  const env = { BACKEND_TIMEOUT: "60", SHUTDOWN_GRACE_SEC: "60" };
  await withStage({ env, answer: () => ({ hang: true }) }, async (stage) => {
    const { relay, backend } = stage;
    const ids = await post(stage, 3);
    await backend.waitFor(3);
    relay.signal("SIGTERM");
    await relay.waitForLog(({ message }) => message === "stopping");
    let ended = false;
    relay.status.then((status) => ended = status === 0);
    // Again and again: right after the first, the relay takes it for the same one, sent twice.
    await eventually(() => {
      relay.signal("SIGTERM");
      assert.ok(ended, "the second signal did not end it");
    }, { within: MARGIN_MS, every: 100 });
    assert.deepEqual((await waitingTasks(stage, 3)).sort(), ids.toSorted());
  });
});

Deno.test("requests that take longer than the grace: cut, exit 0; after a restart they come again as the same attempt", async () => {
  // Far longer than the patience with which they are awaited: no lease must be in their way.
  const env = { BACKEND_TIMEOUT: "60", SHUTDOWN_GRACE_SEC: "0.5" };
  await withStage({ env, answer: () => ({ hang: true }) }, async (stage) => {
    const { relay, backend } = stage;
    const ids = await post(stage, 3);
    await backend.waitFor(3);
    assert.ok(await endOf(stage, "SIGTERM") < 500 + MARGIN_MS);
    assert.deepEqual(attemptLines(relay), []);
    const cut = relay.logs.filter(({ message }) => message.startsWith("request cut off"));
    assert.deepEqual(cut.map(({ task_id }) => String(task_id)).sort(), ids.toSorted());
    backend.answer = (): Answer => ({ status: 200 });
    await relay.start();
    await backend.waitFor(6);
    const again = backend.requests.slice(3).map(({ headers }) => headers);
    assert.deepEqual(again.map((headers) => headers["task-id"]).sort(), ids.toSorted());
    assert.deepEqual(new Set(again.map((headers) => headers["task-attempt"])), new Set(["1"]));
    assert.equal(await relay.stop(), 0);
  });
});

Deno.test("a task whose attempt fails during the shutdown: it is in its rung when the process has ended", async () => {
  const answer = (): Answer => ({ status: 500, delayMs: 300 });
  const env = { RETRY_LADDER: "1x0s,1x60s" };
  await withStage({ env, answer }, async (stage) => {
    const { backend, amqp, queues } = stage;
    const [id = ""] = await post(stage, 1);
    await backend.waitFor(1);
    await endOf(stage, "SIGTERM");
    const [rung = ""] = queues.retries;
    const [task] = await amqp.peekAll(rung);
    assert.deepEqual([task?.id, task?.headers["relay-attempt"]], [id, 2]);
    assert.equal(await amqp.depth(queues.main), 0);
  });
});

Deno.test("case 34: half a body, then nothing: the shutdown is not held up by it, and the client is told", async () => {
  await withStage({}, async (stage) => {
    const { hostname, port } = new URL(stage.relay.url);
    const client = await Deno.connect({ hostname, port: Number(port) });
    const head = "POST /queue/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    await client.write(new TextEncoder().encode(`${head}Content-Length: 100\r\n\r\n{"half":`));
    // An answered request after it shows that the relay has begun with the first.
    assert.equal((await stage.relay.post("1")).status, 202);
    const answer = new Response(client.readable).text();
    const took = await endOf(stage, "SIGTERM");
    assert.match(await answer, /^HTTP\/1\.1 503 /);
    assert.ok(took < MARGIN_MS, `it took ${took} ms`);
  });
});

Deno.test("a task posted during the shutdown: 503 or refused, never a 202 that is forgotten", async () => {
  const answer = (): Answer => ({ status: 200, delayMs: 1_000 });
  await withStage({ answer }, async (stage) => {
    const { relay, backend } = stage;
    const first = await relay.accept('"in flight"');
    await backend.waitFor(1);
    const ended = endOf(stage, "SIGTERM");
    const accepted = [first];
    await eventually(async () => {
      const { status, json } = await relay.post('"late"').catch(() => ({ status: 0, json: {} }));
      if (status === 202) accepted.push(String(new Map(Object.entries(json)).get("id")));
      assert.notEqual(status, 202, "still taken");
      assert.ok(status === 503 || status === 0, `status ${status}`);
    });
    await ended;
    const delivered = new Set(backend.requests.map(({ headers }) => headers["task-id"]));
    const open = accepted.filter((id) => !delivered.has(id));
    assert.deepEqual((await waitingTasks(stage, open.length)).sort(), open.sort());
  });
});

Deno.test("SIGTERM with nothing to do, and with connections of clients kept open: exit 0 in a moment", async () => {
  await withStage({}, async (stage) => {
    await Promise.all([1, 2, 3, 4].map(() => stage.relay.get("/healthz")));
    assert.ok(await endOf(stage, "SIGTERM") < MARGIN_MS);
    assert.doesNotMatch(stage.relay.output, /./);
    assert.deepEqual(stage.relay.logs.filter(({ level }) => level !== "INFO"), []);
  });
});
