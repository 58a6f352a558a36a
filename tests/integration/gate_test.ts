/**
 * The gate, seen from the backend: told "not now" by one answer, or not reachable at all, it is left
 * alone by the whole relay, and no task pays for it. And the jitter, seen from there too.
 *
 * The scenarios are waiting, mostly, so they run side by side, as those of the limit do.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Answer, Backend } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import type { LogLine, RelayProcess } from "../support/relay.ts";
import { alongside, attemptLines, type Scenario, type Stage, withStage } from "./stage.ts";

async function post({ relay }: Stage, count: number): Promise<string[]> {
  return await Promise.all(Array.from({ length: count }, (_, n) => relay.accept(String(n))));
}

function arrivals({ requests }: Backend): number[] {
  return requests.map(({ at }) => at);
}

/** Tasks that lie in queues and are in nobody's hands. */
async function waiting({ amqp, queues }: Stage): Promise<Record<string, number>> {
  const depths = await amqp.depths([...queues.all, ...queues.delays]);
  const filled = Object.entries(depths).filter(([, depth]) => depth !== undefined && depth > 0);
  return Object.fromEntries(filled.map(([queue, depth]) => [queue, depth ?? 0]));
}

function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

function linesWith(relay: RelayProcess, beginning: string): LogLine[] {
  return relay.logs.filter(({ message }) => message.startsWith(beginning));
}

/** The first ten wait for each other; then the first of them says "not now", the others are done. */
function oneSaysNotNow(retryAfter: string): {
  readonly answer: (n: number) => Promise<Answer>;
  readonly saidAt: Promise<number>;
} {
  const { promise: saidAt, resolve } = Promise.withResolvers<number>();
  const answer = async (n: number): Promise<Answer> => {
    if (n === 10) resolve(performance.now());
    if (n <= 10) await saidAt;
    return n === 1 ? { status: 429, headers: { "retry-after": retryAfter } } : { status: 200 };
  };
  return { answer, saidAt };
}

/** Case 23, and the first line of what the gate must show. */
async function everybodyWaits(stage: Stage): Promise<void> {
  const { relay, backend, queues } = stage;
  const { answer, saidAt } = oneSaysNotNow("5");
  backend.answer = (_request, n) => answer(n);
  await post(stage, 500);
  await backend.waitFor(31);
  assert.equal(await relay.stop(), 0);

  const said = await saidAt;
  const times = arrivals(backend).slice(10);
  for (const [n, time] of times.entries()) {
    const earliest = said + 5_000 + Math.floor(n / 10) * 3_000;
    const early = Math.round(earliest - time);
    assert.ok(time >= earliest, `request ${n + 11} came ${early} ms early`);
  }
  const use = 2 * 3_000 / ((times[20] ?? NaN) - said - 5_000);
  assert.ok(use > 0.95, `of the limit after the pause ${use} was used`);

  const retried = attemptLines(relay).filter(({ disposition }) => disposition !== "delivered");
  assert.deepEqual(retried.map(({ status, attempt }) => [status, attempt]), [[429, 1]]);
  assert.equal(retried[0]?.["retry_after_ms"], 5_000);
  const delivered = attemptLines(relay).length - 1;
  await eventually(async () => assert.equal(sum(await waiting(stage)), 500 - delivered));
  assert.equal((await waiting(stage))[queues.failed], undefined);
}

/** A Retry-After so long that the broker would take what is held for forgotten. */
async function nothingIsHeld(stage: Stage): Promise<void> {
  const { relay, backend, amqp, queues } = stage;
  const { answer } = oneSaysNotNow("3000");
  backend.answer = (_request, n) => answer(n);
  await post(stage, 40);
  const line = await relay.waitForLog(({ message }) => message.startsWith("consumer suspended"));
  const ms = Number(line["resumes_in_ms"]);
  assert.ok(ms > 2_900_000 && ms <= 3_000_000, `resumes in ${ms} ms`);
  await eventually(async () => {
    const depths = await waiting(stage);
    assert.equal(sum(depths), 31, JSON.stringify(depths));
    assert.equal(depths[queues.failed], undefined);
    assert.equal(await amqp.consumers(queues.main), 0);
  });
  assert.equal(backend.requests.length, 10);
}

/** Killed in the middle of the pause that the backend asked for, and started again. */
async function outlastsAKill(stage: Stage): Promise<void> {
  const { relay, backend } = stage;
  const { answer, saidAt } = oneSaysNotNow("6");
  backend.answer = (_request, n) => answer(n);
  await post(stage, 40);
  const said = await saidAt;
  await relay.waitForLog(({ status }) => status === 429);
  await relay.kill();
  await relay.start();
  await backend.waitFor(11);
  const early = Math.round(said + 6_000 - (arrivals(backend)[10] ?? NaN));
  assert.ok(early <= 0, `asked ${early} ms early`);
}

const OUTAGE_MS = 12_000;
const BREAKER = 5;
const PREFETCH = 20;
const LIMIT = 100;

/** As long as the outage is the ladder would be used up by every task: 300 times 3 at 100 a second. */
async function outage(stage: Stage): Promise<void> {
  const { relay, backend, amqp, queues } = stage;
  await backend.down();
  const ids = await post(stage, 300);
  const until = performance.now() + OUTAGE_MS;
  await eventually(() => assert.ok(performance.now() >= until), { within: OUTAGE_MS + 5_000 });
  await backend.up();
  // A pause may take a minute by then, and the rise takes five seconds.
  await backend.waitFor(300, { within: 90_000 });

  const delivered = new Set(backend.requests.map(({ headers }) => headers["task-id"]));
  assert.deepEqual(ids.filter((id) => !delivered.has(id)), []);
  assert.equal(backend.requests.length, 300, "none twice");
  assert.equal((await amqp.depths([queues.failed]))[queues.failed], 0);

  const probes = linesWith(relay, "gate: one request").length;
  const failures = attemptLines(relay).filter(({ outcome }) => outcome === "refused").length;
  assert.ok(probes >= 2 && probes <= 20, `${probes} probes`);
  assert.ok(
    failures < BREAKER + PREFETCH + probes,
    `${failures} failed attempts, ${probes} probes`,
  );

  // A rate that grows evenly over five windows of a second has let in LIMIT · t² / 10 by the time t.
  const [probeAt = NaN, ...times] = arrivals(backend);
  for (const [n, time] of times.entries()) {
    const earliest = probeAt + 1_000 * Math.min(5, Math.sqrt(10 * n / LIMIT));
    assert.ok(time >= earliest, `request ${n + 2} came ${Math.round(earliest - time)} ms early`);
  }
}

/** The largest distance between the distribution of `values` and the uniform one from 0 to 1. */
function kolmogorovSmirnov(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const { length } = sorted;
  return sorted.reduce(
    (most, value, n) =>
      Math.max(most, Math.abs(value - n / length), Math.abs(value - (n + 1) / length)),
    0,
  );
}

const RUNG_MS = 5_000;

/** Tasks that fail all at once, and when each comes back, as a share of the interval that is added. */
async function spread(stage: Stage): Promise<void> {
  const { backend, relay, amqp } = stage;
  const firstSeen = new Map<string, number>();
  const added: number[] = [];
  backend.answer = ({ headers, at }) => {
    const id = String(headers["task-id"]);
    const before = firstSeen.get(id);
    if (before === undefined) firstSeen.set(id, at);
    else added.push((at - before - RUNG_MS) / RUNG_MS);
    return { status: before === undefined ? 500 : 200 };
  };
  await post(stage, 1_000);
  await backend.waitFor(2_000);
  assert.equal(added.length, 1_000, "each comes back once");
  assert.ok(Math.min(...added) >= 0, "only ever added");
  const distance = kolmogorovSmirnov(added);
  assert.ok(distance < 0.1, `Kolmogorov-Smirnov distance ${distance}`);
  await relay.kill();
  for (const queue of spreadQueues(relay)) await amqp.deleteQueue(queue);
}

/** The queues that the relay declared because of the jitter; the harness does not know them. */
function spreadQueues({ logs, prefix }: RelayProcess): string[] {
  const declared = logs.flatMap(({ queues }) => Array.isArray(queues) ? queues.map(String) : []);
  const spread = declared.filter((queue) => queue.startsWith(`${prefix}.retry.`));
  assert.equal(spread.length, 16);
  return spread;
}

const LIMIT_OF_TEN = { RATE_LIMIT_MAX_REQUESTS: "10", RATE_LIMIT_WINDOW_SEC: "3" };

const SCENARIOS: readonly Scenario[] = [
  {
    name:
      "case 23: a 429 with Retry-After: 5 and 500 tasks waiting: no request begins for 5 s, the " +
      "others lose no attempt, then 10 per 3 s again",
    options: { env: { ...LIMIT_OF_TEN, RETRY_LADDER: "2x0s,5x3s" } },
    run: everybodyWaits,
  },
  {
    name: "a Retry-After of 50 minutes: nothing is held unacknowledged, nobody consumes",
    options: { env: { ...LIMIT_OF_TEN, RETRY_LADDER: "2x0s" } },
    run: nothingIsHeld,
  },
  {
    name:
      "killed (-9) and started again within a Retry-After: the backend is left alone all the same",
    options: { env: { ...LIMIT_OF_TEN, RETRY_LADDER: "2x0s" } },
    run: outlastsAKill,
  },
  {
    name:
      "an outage in which the ladder would be used up: none fails, few ask, all are delivered " +
      "afterwards, and the rate rises from the first window on",
    options: {
      env: {
        BREAKER_FAILURES: String(BREAKER),
        PREFETCH_COUNT: String(PREFETCH),
        RATE_LIMIT_MAX_REQUESTS: String(LIMIT),
        RETRY_LADDER: "1x0s,2x0.2s",
      },
    },
    run: outage,
  },
];

Deno.test("the gate, seen from the backend", async (t) => {
  await alongside(t, SCENARIOS);
});

Deno.test("RETRY_JITTER=1: 1,000 tasks that failed together come back evenly over the added interval", async () => {
  const env = {
    RETRY_JITTER: "1",
    RETRY_LADDER: `1x0s,1x${RUNG_MS}ms`,
    RATE_LIMIT_MAX_REQUESTS: "100000",
    PREFETCH_COUNT: "100",
  };
  await withStage({ env }, spread);
});
