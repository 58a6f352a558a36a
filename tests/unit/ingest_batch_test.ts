/** Batches: what is accepted, what is refused alone, and what is refused as a whole. */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import {
  type Answer,
  assertProblem,
  assertRetryAfter,
  CONFIRMED,
  type IngestWorld,
  UNAVAILABLE,
  UNKNOWN,
  withIngest,
} from "../support/ingest_world.ts";

const BATCH = "/queue/tasks/batch";
const NDJSON = { "content-type": "application/x-ndjson" };

function texts({ published }: IngestWorld): string[] {
  return published.map(({ body }) => new TextDecoder().decode(body));
}

/** Status of each entry, in order; asserts that the entries and the sums are in order. */
function statuses(answer: Answer): number[] {
  assert.equal(answer.headers.get("content-type"), "application/json", JSON.stringify(answer.json));
  const { accepted, rejected, ...rest } = answer.json;
  const entries = entriesOf(answer);
  assert.deepEqual(Object.keys(rest), ["results"]);
  assert.deepEqual(entries.map(({ index }) => index), entries.map((_, n) => n));
  assert.equal(accepted, entries.filter(({ status }) => status === 202).length);
  assert.equal(rejected, entries.filter(({ status }) => status !== 202).length);
  return entries.map(({ status }) => Number(status));
}

function entriesOf({ json }: Answer): Record<string, unknown>[] {
  return json["results"] as Record<string, unknown>[];
}

Deno.test("an array: each element's own bytes are a task, 202 with the ids in order", async () => {
  await withIngest({}, async (world) => {
    const odd = '{"id":12345678901234567890,"a":1.0,"a":2, "é": "]\\"["}';
    const answer = await world.post(`\n[ ${odd} ,\t[1, 2],null,"text" ]\n`, {}, BATCH);
    assert.equal(answer.status, 202);
    assert.deepEqual(statuses(answer), [202, 202, 202, 202]);
    assert.deepEqual(texts(world), [odd, "[1, 2]", "null", '"text"']);
    const ids = entriesOf(answer).map(({ id }) => id);
    assert.deepEqual(ids, world.published.map(({ id }) => id));
    assert.equal(new Set(ids).size, 4);
    assert.deepEqual(Object.keys(entriesOf(answer)[0] ?? {}), ["index", "status", "id"]);
    for (const { contentType, attempt } of world.published) {
      assert.deepEqual([contentType, attempt], ["application/json", 1]);
    }
  });
});

Deno.test("NDJSON: a payload a line, blank lines don't count, each is application/json", async () => {
  await withIngest({}, async (world) => {
    const type = { "content-type": "Application/X-NDJSON; charset=utf-8" };
    const answer = await world.post('{"a": 1}\r\n\n  \n[2]\n3', type, BATCH);
    assert.deepEqual(statuses(answer), [202, 202, 202]);
    assert.deepEqual(texts(world), ['{"a": 1}', "[2]", "3"]);
    const types = new Set(world.published.map(({ contentType }) => contentType));
    assert.deepEqual(types, new Set(["application/json"]));
  });
});

Deno.test("an array of another JSON type: its content type goes with each task, as trace context does", async () => {
  await withIngest({}, async (world) => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const headers = { "content-type": "application/vnd.order+json", traceparent };
    assert.deepEqual(statuses(await world.post("[1,2]", headers, BATCH)), [202, 202]);
    for (const task of world.published) {
      assert.equal(task.contentType, "application/vnd.order+json");
      assert.equal(task.traceparent, traceparent);
    }
  });
});

Deno.test("a line that is too large, too deep, not UTF-8 or not JSON → that line alone, 207", async () => {
  await withIngest({}, async (world) => {
    const line = (text: string): Uint8Array => new TextEncoder().encode(`${text}\n`);
    const parts = [
      line("1"),
      line(`"${"x".repeat(999)}"`),
      line("[".repeat(600) + "]".repeat(600)),
      line("[".repeat(450) + "]".repeat(450)),
      Uint8Array.of(0x22, 0xff, 0x22, 0x0a),
      line("{"),
      line(`"${"x".repeat(998)}"`),
    ];
    const answer = await world.post(new Blob(parts.map((part) => part.slice())), NDJSON, BATCH);
    assert.equal(answer.status, 207);
    assert.deepEqual(statuses(answer), [202, 413, 413, 202, 400, 400, 202]);
    const [, large, , , utf8, broken] = entriesOf(answer);
    assert.deepEqual(Object.keys(large ?? {}), ["index", "status", "title", "detail"]);
    assert.equal(large?.["title"], "Content Too Large");
    assert.match(String(large?.["detail"]), /1000 bytes/);
    assert.match(String(utf8?.["detail"]), /UTF-8/);
    assert.match(String(broken?.["detail"]), /not valid JSON/);
    assert.equal(world.published.length, 3);
  });
});

Deno.test("each line refused for its own reason → 207, nothing accepted", async () => {
  await withIngest({}, async ({ post }) => {
    const answer = await post(`{\n"${"x".repeat(999)}"`, NDJSON, BATCH);
    assert.equal(answer.status, 207);
    assert.deepEqual(statuses(answer), [400, 413]);
  });
});

Deno.test("an element of a sound array that is too large or too deep → that element alone", async () => {
  await withIngest({ maxTaskBytes: 2_000 }, async ({ post }) => {
    const deep = "[".repeat(600) + "]".repeat(600);
    const answer = await post(`[1,"${"x".repeat(2_000)}",${deep},2]`, {}, BATCH);
    assert.deepEqual(statuses(answer), [202, 413, 400, 202]);
    assert.match(String(entriesOf(answer)[2]?.["detail"]), /512 levels/);
  });
});

Deno.test("what is no batch → one problem, and nothing of it is published", async () => {
  const cases: [BodyInit, Record<string, string>, number, RegExp][] = [
    ['{"a":1}', {}, 400, /not a JSON array.*x-ndjson/],
    ["", {}, 400, /not a JSON array/],
    ["[1,2", {}, 400, /ends before its array/],
    ["[1,,2]", {}, 400, /byte 3/],
    ['[1,{"a":tru},2]', {}, 400, /Element 1 of the array, from byte 3/],
    ['[1,"\n"]', {}, 400, /Element 1/],
    [Uint8Array.of(0x5b, 0x22, 0xff, 0x22, 0x5d), {}, 400, /Element 0.*UTF-8/],
    ["[]", {}, 400, /no task/],
    ["", NDJSON, 400, /no task/],
    ["\n \r\n", NDJSON, 400, /no task/],
    ["[1,2,3,4]", {}, 413, /more than 3 tasks/],
    ["1\n2\n3\n4", NDJSON, 413, /more than 3 tasks/],
    [`["${"x".repeat(2_000)}"]`, {}, 413, /larger than 1500 bytes/],
    ["[1]", { "content-type": "text/plain" }, 415, /x-ndjson/],
    ["[1]", { "content-type": "application/x-ndjson2" }, 415, /x-ndjson/],
    ["[1]", { "content-type": "application/x-ndjson; charset=latin1" }, 415, /charset/],
    ["[1]", { "content-encoding": "gzip" }, 415, /Content-Encoding/],
    ["[1]", { "task-delay": "-1" }, 400, /Task-Delay/],
    ["[1]", { "idempotency-key": '"' }, 400, /Idempotency-Key/],
  ];
  await withIngest({ maxBatchTasks: 3, maxBatchBytes: 1_500 }, async ({ post, published }) => {
    for (const [body, headers, status, detail] of cases) {
      assertProblem(await post(body, headers, BATCH), status, detail);
    }
    assert.deepEqual(published, []);
    assert.deepEqual(statuses(await post("[1,2,3]", {}, BATCH)), [202, 202, 202]);
    assertProblem(await post("1", NDJSON), 415, /application\/json/);
  });
});

Deno.test("a malformed array is not quoted in the answer", async () => {
  await withIngest({}, async ({ post }) => {
    const { json } = await post('[1, {"password":hunter2}]', {}, BATCH);
    assert.doesNotMatch(JSON.stringify(json), /hunter2/);
  });
});

Deno.test("a key stands for KEY/INDEX; again → the first ids, marked; a changed task → 422 for it alone", async () => {
  await withIngest({}, async ({ post, published }) => {
    const key = { "idempotency-key": "import-7" };
    const first = await post("[1,2,3]", key, BATCH);
    assert.deepEqual(statuses(first), [202, 202, 202]);
    assert.deepEqual(published.map(({ idempotencyKey }) => idempotencyKey), [
      "import-7/0",
      "import-7/1",
      "import-7/2",
    ]);
    const again = await post(" [1, 2, 3] ", key, BATCH);
    assert.equal(again.status, 202);
    assert.equal(again.headers.get("idempotency-replayed"), "true");
    const marked = entriesOf(first).map((entry) => ({ ...entry, replayed: true }));
    assert.deepEqual(entriesOf(again), marked);
    const changed = await post("[1,5,3,4]", key, BATCH);
    assert.deepEqual(statuses(changed), [202, 422, 202, 202]);
    assert.equal(changed.headers.get("idempotency-replayed"), null);
    assert.equal(published.length, 4, "of the later ones only the fourth task was new");
    const single = await post("2", { "idempotency-key": "import-7/1" });
    assert.equal(single.headers.get("idempotency-replayed"), "true");
  });
});

Deno.test("a key that gets too long with its index → 400 for the batch", async () => {
  await withIngest({}, async ({ post, published }) => {
    const key = { "idempotency-key": "k".repeat(253) };
    const ten = `[${Array(10).fill(1)}]`;
    const eleven = `[${Array(11).fill(1)}]`;
    assertProblem(await post(eleven, key, BATCH), 400, /256 characters.*255/);
    assert.equal(published.length, 0);
    assert.equal((await post(ten, key, BATCH)).status, 202);
  });
});

Deno.test("the broker or the ledger takes none → one 503 with Retry-After", async () => {
  await withIngest({}, async (world) => {
    world.broker = () => UNAVAILABLE;
    const refused = await world.post("[1,2]", {}, BATCH);
    assertProblem(refused, 503, /none of the batch was accepted/);
    assertRetryAfter(refused);
    world.broker = () => UNKNOWN;
    assertProblem(await world.post("[1,2]", {}, BATCH), 503, /may have been accepted.*same Idem/);
    world.broker = () => CONFIRMED;
    world.store.down = true;
    const before = world.published.length;
    const key = { "idempotency-key": "k" };
    assertProblem(await world.post("[1,2]", key, BATCH), 503, /none of the batch/);
    assert.equal(world.published.length, before);
    assert.equal((await world.post("[1,2]", {}, BATCH)).status, 202, "without a key it goes on");
  });
});

Deno.test("the broker takes some → 207, and the others can be sent again with the same key", async () => {
  await withIngest({}, async (world) => {
    const key = { "idempotency-key": "k" };
    world.broker = ({ body }) => [CONFIRMED, UNAVAILABLE, UNKNOWN][body[0]! - 0x30] ?? CONFIRMED;
    const answer = await world.post("[0,1,2]", key, BATCH);
    assert.equal(answer.status, 207);
    assert.deepEqual(statuses(answer), [202, 503, 503]);
    assert.match(String(entriesOf(answer)[2]?.["detail"]), /may have been accepted/);
    world.broker = () => CONFIRMED;
    const again = await world.post("[0,1,2]", key, BATCH);
    assert.deepEqual(statuses(again), [202, 202, 202]);
    assert.deepEqual(entriesOf(again).map(({ replayed }) => replayed), [
      true,
      undefined,
      undefined,
    ]);
    assert.equal(entriesOf(again)[2]?.["id"], world.published[2]?.id);
  });
});

Deno.test("a task that fails unexpectedly → 500 for it alone, the others keep their ids", async () => {
  await withIngest({}, async (world) => {
    world.broker = ({ body }) => {
      if (body[0] === 0x31) throw new Error("a bug");
      return CONFIRMED;
    };
    const answer = await world.post("[0,1,2]", {}, BATCH);
    assert.deepEqual(statuses(answer), [202, 500, 202]);
  });
});

Deno.test("all publishes are under way before the first confirm", async () => {
  await withIngest({}, async (world) => {
    const all = Promise.withResolvers<void>();
    world.broker = async () => {
      if (world.published.length === 500) all.resolve();
      await all.promise;
      return CONFIRMED;
    };
    const answer = await world.post(`[${Array(500).fill(1)}]`, {}, BATCH);
    assert.equal(answer.status, 202);
  });
});

Deno.test("Task-Delay is for all tasks of a batch", async () => {
  const now = Date.UTC(2026, 10, 30);
  await withIngest({ now: () => now }, async ({ post, published }) => {
    await post("[1,2]", { "task-delay": "90" }, BATCH);
    assert.deepEqual(published.map(({ notBefore }) => notBefore), [now + 90_000, now + 90_000]);
  });
});

Deno.test("a large batch leaves other requests their turns", async () => {
  const limits = { maxBatchBytes: 8_388_608, maxTaskBytes: 262_144 };
  await withIngest(limits, async ({ post }) => {
    const element = JSON.stringify(Array.from({ length: 1_000 }, (_, n) => ({ n })));
    const body = `[${Array(700).fill(element)}]`;
    let over = false;
    const answer = post(body, {}, BATCH).finally(() => over = true);
    let turns = 0;
    while (!over) {
      await setImmediate();
      turns++;
    }
    assert.equal((await answer).status, 202);
    // 7.6 MB take about 100 ms to check; with a turn every few, there are well over five.
    assert.ok(turns > 5, `${turns} turns`);
  });
});
