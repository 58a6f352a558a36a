/** The clients' routes without sockets: what is answered, and what reaches the publisher. */
import assert from "node:assert/strict";
import { configure, type LogRecord, reset } from "@logtape/logtape";
import { createIngest, type Ingest, type IngestOptions } from "../../src/ingest/app.ts";
import type { PublishResult } from "../../src/ingest/ports.ts";
import { LIMITS } from "../support/ingest_world.ts";
import type { Task } from "../../src/task.ts";

const ORIGIN = "http://relay.test";
const HEALTHY = { ready: true, parts: { publisher: "up", consumer: "active", broker: "up" } };

interface Setup extends Partial<IngestOptions> {
  readonly result?: PublishResult;
}

/** Runs `body` with an ingest whose publisher keeps what it is given. */
async function withIngest(
  { result = { kind: "confirmed" }, ...options }: Setup,
  body: (ingest: Ingest, published: readonly Task[]) => Promise<void>,
): Promise<void> {
  const published: Task[] = [];
  const publish = (task: Task): Promise<PublishResult> => {
    published.push(task);
    return Promise.resolve(result);
  };
  const defaults = { publisher: { publish }, health: () => HEALTHY, ...LIMITS };
  const ingest = createIngest({ ...defaults, ...options });
  try {
    await body(ingest, published);
  } finally {
    ingest.drain();
  }
}

function post(body: BodyInit, headers: Record<string, string> = {}): Request {
  const all = { "content-type": "application/json", ...headers };
  return new Request(`${ORIGIN}/queue/tasks`, { method: "POST", body, headers: all });
}

/** Asserts that `answer` is a problem of `status` whose detail matches, and that it is whole. */
async function assertProblem(answer: Response, status: number, detail: RegExp): Promise<void> {
  assert.equal(answer.headers.get("content-type"), "application/problem+json");
  const problem = await answer.json();
  assert.match(problem.detail, detail);
  assert.equal(answer.status, status);
  assert.equal(problem.status, status);
  assert.equal(problem.type, "about:blank");
  assert.ok(problem.title.length > 0);
}

Deno.test("a confirmed task is answered 202 with its id and location", async () => {
  await withIngest({ now: () => 1_700_000_000_123 }, async (ingest, published) => {
    const answer = await ingest.fetch(post('{"a": 1}'));
    assert.equal(answer.status, 202);
    const { id, status } = await answer.json();
    assert.equal(status, "queued");
    assert.equal(answer.headers.get("location"), `/queue/tasks/${id}`);
    assert.deepEqual(published, [{
      id,
      body: new TextEncoder().encode('{"a": 1}'),
      contentType: "application/json",
      attempt: 1,
      enqueuedAt: 1_700_000_000_123,
      history: [],
    }]);
  });
});

Deno.test("key, trace context and content type travel with the task", async () => {
  await withIngest({}, async (ingest, published) => {
    const fields = {
      "content-type": "application/cloudevents+json; charset=UTF-8",
      "idempotency-key": '"order-17"',
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      tracestate: "a=b",
    };
    assert.equal((await ingest.fetch(post("1", fields))).status, 202);
    const [task] = published;
    assert.equal(task?.contentType, fields["content-type"]);
    assert.equal(task?.idempotencyKey, "order-17");
    assert.equal(task?.traceparent, fields.traceparent);
    assert.equal(task?.tracestate, "a=b");
  });
});

Deno.test("a broker that cannot take the task → 503 with Retry-After, surely not accepted", async () => {
  const result = { kind: "unavailable", detail: "no connection to 10.0.0.7" } as const;
  await withIngest({ result }, async (ingest) => {
    const answer = await ingest.fetch(post("1"));
    assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    assert.doesNotMatch(await answer.clone().text(), /10\.0\.0\.7/);
    await assertProblem(answer, 503, /was not accepted/);
  });
});

Deno.test("a confirm that does not come → 503 that says how to send again safely", async () => {
  await withIngest({ result: { kind: "unknown", detail: "5 s" } }, async (ingest) => {
    const answer = await ingest.fetch(post("1"));
    assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    await assertProblem(answer, 503, /may have been accepted.*same Idempotency-Key/);
  });
});

Deno.test("what is no task is refused before it is published", async () => {
  const trace = { traceparent: "x".repeat(65_536) };
  const cases: [Request, number, RegExp][] = [
    [post(""), 400, /empty/],
    [post("{"), 400, /not valid JSON/],
    [post("\ufeff{}"), 400, /byte order mark/],
    [post(Uint8Array.of(0x22, 0xff, 0x22)), 400, /UTF-8/],
    [post("[".repeat(900)), 400, /512 levels/],
    [post("1", { "idempotency-key": "k".repeat(256) }), 400, /Idempotency-Key/],
    [post("1", { "idempotency-key": '"k' }), 400, /Idempotency-Key/],
    [post("1", { tracestate: "x".repeat(8193) }), 400, /tracestate/],
    [post("1", trace), 400, /65536/],
    [post("1", { "content-type": "text/plain" }), 415, /Content-Type/],
    [post("1", { "content-encoding": "gzip" }), 415, /Content-Encoding/],
    [post(JSON.stringify("x".repeat(999))), 413, /1000 bytes/],
  ];
  await withIngest({}, async (ingest, published) => {
    for (const [request, status, detail] of cases) {
      await assertProblem(await ingest.fetch(request), status, detail);
    }
    assert.deepEqual(published, []);
  });
});

Deno.test("with a token set, /queue/* needs it and health does not", async () => {
  await withIngest({ token: "s3cret-é" }, async (ingest, published) => {
    const utf8 = String.fromCharCode(...new TextEncoder().encode("s3cret-é"));
    for (const authorization of [`Bearer ${utf8}`, `bearer  ${utf8}`, `BEARER ${utf8}`]) {
      assert.equal((await ingest.fetch(post("1", { authorization }))).status, 202, authorization);
    }
    for (const authorization of ["", "Bearer", "Bearer x", `Basic ${utf8}`, `Bearer ${utf8}x`]) {
      const answer = await ingest.fetch(post("1", { authorization }));
      assert.equal(answer.headers.get("www-authenticate"), "Bearer");
      await assertProblem(answer, 401, /Authorization: Bearer/);
    }
    assert.equal(published.length, 3);
    for (const path of ["/queue/tasks", "/queue/nothing", "/queue/tasks/1/2", "/queue/%74asks"]) {
      assert.equal((await ingest.fetch(new Request(ORIGIN + path))).status, 401, path);
    }
    assert.equal((await ingest.fetch(new Request(`${ORIGIN}/readyz`))).status, 200);
    assert.equal((await ingest.fetch(new Request(`${ORIGIN}/nothing`))).status, 404);
  });
});

Deno.test("an unknown path → 404, another method → 405 with Allow, OPTIONS → 204", async () => {
  await withIngest({}, async (ingest) => {
    const ask = async (method: string, path: string): Promise<Response> =>
      await ingest.fetch(new Request(ORIGIN + path, { method }));
    for (const path of ["/", "/queue", "/queue/tasks/", "/queue/nothing", "//queue/tasks"]) {
      await assertProblem(await ask("POST", path), 404, /\/queue\/tasks/);
    }
    for (const method of ["GET", "PUT", "DELETE", "PATCH"]) {
      const answer = await ask(method, "/queue/tasks");
      assert.equal(answer.headers.get("allow"), "POST");
      await assertProblem(answer, 405, /POST/);
    }
    assert.equal((await ask("HEAD", "/queue/tasks")).status, 405);
    const options = await ask("OPTIONS", "/queue/tasks");
    assert.deepEqual([options.status, options.headers.get("allow")], [204, "POST"]);
    const health = await ask("POST", "/healthz");
    assert.deepEqual([health.status, health.headers.get("allow")], [405, "GET, HEAD"]);
    await health.body?.cancel();
  });
});

Deno.test("/healthz is 200 and /readyz 503 while the relay is not ready, both with the parts", async () => {
  const parts = { publisher: "blocked", consumer: "active", broker: "up" };
  await withIngest({ health: () => ({ ready: false, parts }) }, async (ingest) => {
    const alive = await ingest.fetch(new Request(`${ORIGIN}/healthz`));
    assert.deepEqual([alive.status, await alive.json()], [200, { status: "ok", ...parts }]);
    const ready = await ingest.fetch(new Request(`${ORIGIN}/readyz`));
    const expected = { status: "unavailable", ...parts };
    assert.deepEqual([ready.status, await ready.json()], [503, expected]);
    const head = await ingest.fetch(new Request(`${ORIGIN}/readyz`, { method: "HEAD" }));
    assert.deepEqual([head.status, await head.text()], [503, ""]);
  });
});

Deno.test("while draining, posts are answered 503 with Connection: close, health goes on", async () => {
  await withIngest({}, async (ingest, published) => {
    ingest.drain();
    const answer = await ingest.fetch(post("1"));
    assert.equal(answer.headers.get("connection"), "close");
    assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    await assertProblem(answer, 503, /shutting down/);
    assert.deepEqual(published, []);
    assert.equal((await ingest.fetch(new Request(`${ORIGIN}/healthz`))).status, 200);
    const ready = await ingest.fetch(new Request(`${ORIGIN}/readyz`));
    assert.deepEqual([ready.status, (await ready.json()).ingest], [503, "shutting down"]);
  });
});

Deno.test("an exception → 500, logged once and without the payload", async () => {
  const records: LogRecord[] = [];
  await configure({
    reset: true,
    sinks: { memory: (record) => records.push(record) },
    loggers: [
      { category: "relay", sinks: ["memory"], lowestLevel: "debug" },
      { category: ["logtape", "meta"], sinks: [] },
    ],
  });
  try {
    const publish = (): Promise<PublishResult> => Promise.reject(new Error("a bug"));
    await withIngest({ publisher: { publish } }, async (ingest) => {
      const answer = await ingest.fetch(post('"hunter2"', { authorization: "Bearer hunter2" }));
      await assertProblem(answer, 500, /unexpectedly/);
    });
    assert.deepEqual(records.map(({ level }) => level), ["error"]);
    assert.doesNotMatch(JSON.stringify(records), /hunter2/);
  } finally {
    await reset();
  }
});
