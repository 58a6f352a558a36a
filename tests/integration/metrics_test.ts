/**
 * `/metrics`, scraped from a relay that has delivered, retried and failed tasks.
 *
 * @module
 */
import assert from "node:assert/strict";
import { request } from "undici";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { namesIn, valueIn } from "../support/metrics.ts";
import { type Operator, withOperator } from "../support/operator.ts";
import { promtool } from "../support/promtool.ts";
import { type Stage, withStage } from "./stage.ts";

const ENV = { OPS_PORT: "0", RETRY_LADDER: "1x0s,1x0.1s", PERMANENT_STATUSES: "422" };

/** The contract's metrics, without the prefix of their names. */
const CONTRACT = [
  "tasks_accepted_total",
  "tasks_rejected_total",
  "attempts_total",
  "dispositions_total",
  "attempt_duration_seconds",
  "queue_age_seconds",
  "limiter_wait_seconds",
  "task_attempts",
  "queue_messages",
  "in_flight",
  "broker_connected",
  "gate_closed",
  "paused",
  "consumer_active",
  "drain_seconds",
];

/** By what the task says: delivered, refused for good, broken at first, and always. */
function answer({ body, headers }: { body: Uint8Array; headers: Record<string, unknown> }): Answer {
  const text = new TextDecoder().decode(body);
  if (text.includes("bad")) return { status: 422 };
  if (text.includes("broken")) return { status: 500 };
  if (text.includes("once") && headers["task-attempt"] === "1") return { status: 503 };
  return { status: 200, delayMs: text.includes("slow") ? 300 : 0 };
}

async function scrape(operator: Operator): Promise<string> {
  const { status, text } = await operator.get("/metrics");
  assert.equal(status, 200);
  return text;
}

/** Asserts, of the text of `/metrics`, what each series is; waits for it. */
async function assertSeries(
  operator: Operator,
  expected: Readonly<Record<string, number>>,
): Promise<string> {
  return await eventually(async () => {
    const text = await scrape(operator);
    const found = Object.keys(expected).map((series) => [series, valueIn(text, series)]);
    assert.deepEqual(Object.fromEntries(found), expected);
    return text;
  });
}

async function postAll({ relay }: Stage): Promise<void> {
  for (const text of ['"a"', '"b"', '"slow"', '"once"', '"once more"', '"bad"', '"broken"']) {
    await relay.accept(text);
  }
  await relay.accept('"key"', { "idempotency-key": "k" });
  await relay.accept('"key"', { "idempotency-key": "k" });
  assert.equal((await relay.post("no json", {})).status, 400);
  const batch = await relay.post(`["c", "d", "${"x".repeat(2_000)}"]`, {}, "/queue/tasks/batch");
  assert.equal(batch.status, 207);
}

Deno.test("after tasks were delivered, retried and failed → promtool finds nothing, every metric tells the truth", async () => {
  const env = { ...ENV, MAX_TASK_BYTES: "1024" };
  await withStage({ env, answer }, async (stage) => {
    await withOperator(stage.relay, async (operator) => {
      await postAll(stage);
      const { main, failed, retries } = stage.queues;
      const text = await assertSeries(operator, {
        tasks_accepted_total: 10,
        'tasks_rejected_total{status="400"}': 1,
        'tasks_rejected_total{status="413"}': 1,
        'attempts_total{outcome="ok",status="200"}': 8,
        'attempts_total{outcome="status",status="422"}': 1,
        'attempts_total{outcome="status",status="500"}': 2,
        'attempts_total{outcome="status",status="503"}': 2,
        'dispositions_total{disposition="delivered"}': 8,
        'dispositions_total{disposition="retried"}': 3,
        'dispositions_total{disposition="failed"}': 2,
        'dispositions_total{disposition="duplicate"}': 0,
        'dispositions_total{disposition="cancelled"}': 0,
        'attempt_duration_seconds_bucket{le="60"}': 13,
        'attempt_duration_seconds_bucket{le="+Inf"}': 13,
        attempt_duration_seconds_count: 13,
        queue_age_seconds_count: 10,
        limiter_wait_seconds_count: 13,
        'task_attempts_bucket{le="1"}': 7,
        'task_attempts_bucket{le="2"}': 10,
        task_attempts_sum: 13,
        [`queue_messages{queue="${main}"}`]: 0,
        [`queue_messages{queue="${retries[0]}"}`]: 0,
        [`queue_messages{queue="${failed}"}`]: 2,
        in_flight: 0,
        broker_connected: 1,
        gate_closed: 0,
        paused: 0,
        consumer_active: 1,
        oldest_due_seconds: 0,
        drain_seconds: 0,
      });
      const short = valueIn(text, 'attempt_duration_seconds_bucket{le="0.2"}') ?? NaN;
      assert.ok(short < 13, "one attempt took 300 ms");
      assert.ok((valueIn(text, "attempt_duration_seconds_sum") ?? 0) >= 0.3);

      const names = namesIn(text);
      assert.deepEqual(CONTRACT.filter((name) => !names.includes(`queue_relay_${name}`)), []);
      assert.deepEqual(names.filter((name) => !name.startsWith("queue_relay_")), []);
      assert.deepEqual(await promtool(["check", "metrics"], text), { ok: true, said: "" });
    });
  });
});

Deno.test("what stands at a moment: in flight, waiting, how long; the gate when the backend asks for it", async () => {
  const { promise: answered, resolve: answerNow } = Promise.withResolvers<Answer>();
  const env = { ...ENV, RATE_LIMIT_MAX_REQUESTS: "2", RATE_LIMIT_WINDOW_SEC: "60" };
  await withStage({ env, answer: () => answered }, async ({ relay, queues }) => {
    await withOperator(relay, async (operator) => {
      for (let n = 0; n < 3; n++) await relay.accept("{}");
      await assertSeries(operator, { in_flight: 2 });
      answerNow({ status: 429, headers: { "retry-after": "3000" } });
      await assertSeries(operator, { gate_closed: 1, in_flight: 0 });
      // All three wait in delays now: two for what was asked for, one because it has no slot.
      await eventually(async () => {
        const text = await scrape(operator);
        const waiting = queues.delays.map((queue) =>
          valueIn(text, `queue_messages{queue="${queue}"}`)
        );
        assert.equal(waiting.reduce<number>((sum, depth) => sum + (depth ?? 0), 0), 3);
        const oldest = valueIn(text, "oldest_due_seconds") ?? 0;
        assert.ok(oldest > 0 && oldest < 60, `the one without an attempt is due since ${oldest} s`);
      });
    });
  });
});

Deno.test("HEAD → no body; another method → 405; with OPS_TOKEN nothing without it", async () => {
  await withStage({ env: { ...ENV, OPS_TOKEN: "0perat0r" } }, async ({ relay }) => {
    for (const path of ["/metrics", "/stats", "/events"]) {
      const ask = async (method: "GET" | "HEAD" | "POST", token?: string): Promise<unknown[]> => {
        const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
        const { statusCode, body, headers: got } = await request(relay.opsUrl + path, {
          method,
          headers,
        });
        return [statusCode, (await body.text()).length > 0, got["allow"]];
      };
      assert.deepEqual(await ask("HEAD", "0perat0r"), [200, false, undefined], path);
      assert.deepEqual(await ask("POST", "0perat0r"), [405, true, "GET, HEAD"], path);
      assert.deepEqual(await ask("GET"), [401, true, undefined], path);
    }
  });
});
