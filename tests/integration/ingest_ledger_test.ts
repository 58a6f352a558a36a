/**
 * Keys and batches over real sockets, with the ledger in a file as it is in production. The publisher
 * is a fake; no broker is needed.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { systemClock } from "../../src/clock.ts";
import { createIngest, type IngestOptions } from "../../src/ingest/app.ts";
import type { PublishResult } from "../../src/ingest/ports.ts";
import { startIngest } from "../../src/ingest/server.ts";
import { Ledger } from "../../src/ledger/ledger.ts";
import { SqliteStore } from "../../src/ledger/sqlite_store.ts";
import type { Task } from "../../src/task.ts";
import { type ClientAnswer, TaskClient } from "../support/client.ts";
import { CONFIRMED, LIMITS, UNAVAILABLE } from "../support/ingest_world.ts";

const BATCH = "/queue/tasks/batch";
const BODY = '{"id":12345678901234567890,"a":1.0,"a":2}';

interface Listener {
  readonly client: TaskClient;
  readonly port: number;
  readonly published: readonly Task[];
  broker: (task: Task) => PublishResult | Promise<PublishResult>;
}

/** Runs `fn` with a listener and a ledger of its own. */
async function withListener(
  options: Partial<IngestOptions>,
  fn: (listener: Listener) => Promise<void>,
): Promise<void> {
  const dataDir = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  const place = { dataDir, prefix: "tasks", retentionMs: 60_000, clock: systemClock };
  const ledger = new Ledger(new SqliteStore(place));
  const published: Task[] = [];
  const publish = async (task: Task): Promise<PublishResult> => {
    published.push(task);
    return await listener.broker(task);
  };
  const health = (): { ready: true; parts: Record<string, string> } => ({ ready: true, parts: {} });
  const limits = { ...LIMITS, maxTaskBytes: 262_144, maxBatchBytes: 8_388_608 };
  const ingest = createIngest({ publisher: { publish }, ledger, health, ...limits, ...options });
  const server = startIngest({ host: "127.0.0.1", port: 0, ingest });
  const client = new TaskClient(() => `http://127.0.0.1:${server.port}`);
  const listener: Listener = { client, port: server.port, published, broker: () => CONFIRMED };
  try {
    await fn(listener);
  } finally {
    await client.close();
    await server.close(1_000);
    await ledger.close();
    await Deno.remove(dataDir, { recursive: true });
  }
}

function times<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => make(n)));
}

function replayed({ headers }: ClientAnswer): boolean {
  return headers["idempotency-replayed"] === "true";
}

Deno.test("case 37: one key from 50 clients at once → one task, 49 replays or 409s; another body → 422", async () => {
  await withListener({}, async (listener) => {
    const { client, published } = listener;
    const key = { "idempotency-key": "order-17" };
    // Confirms when somebody was told to wait for it.
    const conflict = Promise.withResolvers<void>();
    listener.broker = async () => {
      await conflict.promise;
      return CONFIRMED;
    };
    const answers = await times(50, async () => {
      const answer = await client.post(BODY, key);
      if (answer.status === 409) conflict.resolve();
      return answer;
    });
    const fresh = answers.filter((answer) => answer.status === 202 && !replayed(answer));
    const others = answers.filter((answer) => !fresh.includes(answer));
    assert.equal(fresh.length, 1);
    assert.equal(published.length, 1);
    for (const { status, headers, json } of others) {
      assert.ok(status === 202 || status === 409, `${status}`);
      if (status === 202) assert.equal(json["id"], fresh[0]?.json["id"]);
      else assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
    }
    assert.ok(
      others.some(({ status }) => status === 409),
      "none came while the first was accepted",
    );

    const later = await times(50, () => client.post(BODY, key));
    for (const answer of later) {
      assert.ok(answer.status === 202 && replayed(answer), answer.text);
      assert.equal(answer.json["id"], published[0]?.id);
    }
    const changed = await times(50, (n) => client.post(`${BODY}${" ".repeat(n + 1)}`, key));
    assert.deepEqual(new Set(changed.map(({ status }) => status)), new Set([422]));
    assert.equal(published.length, 1);
  });
});

Deno.test("case 37: after a failed publish the key is accepted anew, from 50 clients at once as one task", async () => {
  await withListener({}, async (listener) => {
    const { client, published } = listener;
    const key = { "idempotency-key": '"order-18"' };
    listener.broker = () => UNAVAILABLE;
    const refused = await client.post("1", key);
    assert.equal(refused.status, 503);
    assert.match(String(refused.headers["retry-after"]), /^[1-9]\d*$/);
    listener.broker = () => CONFIRMED;
    const answers = await times(50, () => client.post("2", key));
    const fresh = answers.filter((answer) => answer.status === 202 && !replayed(answer));
    assert.equal(fresh.length, 1);
    assert.equal(published.length, 2);
    assert.equal(fresh[0]?.json["id"], published[1]?.id);
  });
});

Deno.test("50 keys at once while the broker takes every other publish → each key ends as one task", async () => {
  await withListener({}, async (listener) => {
    const { client, published } = listener;
    listener.broker = () => published.length % 2 === 0 ? UNAVAILABLE : CONFIRMED;
    const ids = await times(50, async (n) => {
      const key = { "idempotency-key": `key-${n}` };
      for (;;) {
        const { status, json } = await client.post(String(n), key);
        if (status === 202) return json["id"];
        assert.equal(status, 503);
      }
    });
    assert.equal(new Set(ids).size, 50);
    listener.broker = () => CONFIRMED;
    const again = await times(50, (n) => client.post(String(n), { "idempotency-key": `key-${n}` }));
    assert.deepEqual(again.map(({ json }) => json["id"]), ids);
  });
});

Deno.test("GET right after the 202 finds the task, each of hundreds, with a key and without", async () => {
  await withListener({}, async ({ client }) => {
    await times(300, async (n) => {
      const headers: Record<string, string> = n % 3 === 0 ? { "idempotency-key": `k${n}` } : {};
      const { headers: { location } } = await client.post(String(n), headers);
      const { status, json } = await client.get(String(location));
      assert.deepEqual([status, json["status"]], [200, "queued"]);
    });
  });
});

Deno.test("a batch of 1,000 with a key, sent again → the same ids, nothing enqueued", async () => {
  await withListener({}, async ({ client, published }) => {
    const lines = Array.from({ length: 1_000 }, (_, n) => `{"n": ${n}}`).join("\n");
    const headers = { "content-type": "application/x-ndjson", "idempotency-key": "import" };
    const first = await client.post(lines, headers, BATCH);
    const second = await client.post(lines, headers, BATCH);
    assert.deepEqual([first.status, second.status], [202, 202]);
    assert.equal(published.length, 1_000);
    const ids = ({ json }: ClientAnswer): unknown[] =>
      (json["results"] as Record<string, unknown>[]).map(({ id }) => id);
    assert.deepEqual(ids(first), published.map(({ id }) => id));
    assert.deepEqual(ids(second), ids(first));
  });
});

Deno.test("case 17: big numbers, repeated names, spaces and a trailing newline → the same bytes, also in a batch", async () => {
  await withListener({}, async ({ client, published }) => {
    const odd = ' {"id":12345678901234567890,"a":1.0,"a":2, "é":"\\ud800]["}'.trim();
    await client.post(`[ ${odd} ,\n${odd}\t]\n`, {}, BATCH);
    await client.post(`${odd}\r\n\r\n${odd}`, { "content-type": "application/x-ndjson" }, BATCH);
    assert.equal(published.length, 4);
    for (const { body } of published) assert.equal(Buffer.from(body).toString(), odd);
  });
});

Deno.test("case 35: a batch line one byte over the limit → 413 for that line alone", async () => {
  await withListener({}, async ({ client, published }) => {
    const line = (size: number): string => `"${"x".repeat(size - 2)}"`;
    const body = [line(262_144), line(262_145), "1"].join("\n");
    const { status, json } = await client.post(
      body,
      { "content-type": "application/x-ndjson" },
      BATCH,
    );
    assert.equal(status, 207);
    assert.deepEqual([json["accepted"], json["rejected"]], [2, 1]);
    assert.equal((json["results"] as { status: number }[])[1]?.status, 413);
    assert.equal(published.length, 2);
  });
});

Deno.test("half a batch, then nothing → 408 after the limit", async () => {
  await withListener({ batchDeadlineMs: 200 }, async ({ port, published }) => {
    using client = await Deno.connect({ hostname: "127.0.0.1", port });
    const head = [
      `POST ${BATCH} HTTP/1.1`,
      "Host: relay",
      "Content-Type: application/json",
      "Content-Length: 100",
      "",
      "[1,2,",
    ];
    await client.write(Buffer.from(head.join("\r\n")));
    const answer = new Uint8Array(4_096);
    const size = await client.read(answer) ?? 0;
    assert.match(
      Buffer.from(answer.subarray(0, size)).toString(),
      /^HTTP\/1\.1 408 .*within 0\.2 s/s,
    );
    assert.equal(published.length, 0);
  });
});
