/**
 * The backend's limit, counted where it matters: on arrival at the backend. Beside it the two other
 * brakes, CONCURRENCY and PREFETCH_COUNT.
 *
 * On a busy machine an arrival is late by chance, and never early. So "never more than the limit" is
 * asserted as the moment before which a request must not arrive, counted from a moment that is
 * surely not later than what it follows from: no lateness can make that fail, or hide for long that
 * too many were sent. "Used" is asserted over windows so long that lateness hardly counts.
 *
 * The scenarios take seconds of waiting and hardly any work, so they run side by side, each with a
 * relay and a backend of its own; the leak sanitizers watch over all of them together.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Answer, Backend } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { alongside, attemptLines, type Scenario, type Stage, withStage } from "./stage.ts";

/** Requests in a window, in each of these scenarios. */
const MAX = 10;

/** The environment for {@link MAX} requests in `seconds`, with room to prefetch for two windows. */
function limitOf(
  seconds: number,
  algorithm: "fixed-window" | "sliding-window" = "fixed-window",
): Readonly<Record<string, string>> {
  return {
    RATE_LIMIT_MAX_REQUESTS: String(MAX),
    RATE_LIMIT_WINDOW_SEC: String(seconds),
    RATE_LIMIT_ALGORITHM: algorithm,
    PREFETCH_COUNT: String(2 * MAX),
  };
}

/** Posts `count` tasks. */
async function post({ relay }: Stage, count: number): Promise<string[]> {
  return await Promise.all(Array.from({ length: count }, (_, n) => relay.accept(String(n))));
}

function arrivals({ requests }: Backend): number[] {
  return requests.map(({ at }) => at);
}

/**
 * Asserts that no arrival is earlier than the limit allows: the first {@link MAX} not before `from`,
 * and each further {@link MAX} a window later than those before.
 */
function assertNoneEarly(times: readonly number[], from: number, windowMs: number): void {
  for (const [n, time] of times.entries()) {
    const earliest = from + Math.floor(n / MAX) * windowMs;
    const early = Math.round(earliest - time);
    assert.ok(time >= earliest, `request ${n + 1} of ${times.length} came ${early} ms early`);
  }
}

/** Share of the slots used, from the first arrival to the last: 1 is all of them. */
function useOf(times: readonly number[], windowMs: number): number {
  const windows = Math.ceil(times.length / MAX) - 1;
  return windows * windowMs / ((times.at(-1) ?? NaN) - (times[0] ?? NaN));
}

/** By the number of the request: what goes wrong among the rest, or 200. */
function mixedAnswer(n: number): Answer {
  if (n % 11 === 0) return { hang: true };
  if (n % 7 === 0) return { reset: true };
  if (n % 5 === 0) return { close: true };
  return { status: n % 3 === 0 ? 503 : 200 };
}

/** Posts `count` tasks and gives the arrivals, with a moment that is not after the first sending. */
async function backlog(
  stage: Stage,
  count: number,
): Promise<{ readonly times: number[]; readonly from: number }> {
  const from = performance.now();
  await post(stage, count);
  await stage.backend.waitFor(count);
  return { times: arrivals(stage.backend), from };
}

/**
 * One request at a time, of which the first takes most of a window: the rest of that window's limit
 * follows right before it ends, with more waiting. Windows that stand side by side let almost twice
 * the limit through around their border.
 */
async function backlogAroundTheBorder(
  stage: Stage,
): Promise<{ readonly times: number[]; readonly from: number }> {
  let answeredAt = NaN;
  stage.backend.answer = async (_request, n) => {
    if (n === 1) await new Promise((resolve) => setTimeout(resolve, 1_400));
    answeredAt = n === 1 ? performance.now() : answeredAt;
    return { status: 200 };
  };
  const { times } = await backlog(stage, 31);
  return { times: times.slice(1), from: answeredAt };
}

const SCENARIOS: readonly Scenario[] = [
  {
    name: "case 25: a backlog at 10 per 3 s: never more in a window, used to 99 %",
    options: { env: limitOf(3) },
    run: async (stage) => {
      const { times, from } = await backlog(stage, 60);
      assertNoneEarly(times, from, 3_000);
      assert.ok(useOf(times, 3_000) >= 0.99, `used to ${useOf(times, 3_000)}`);
    },
  },
  {
    name: "case 25: a backlog of 200 at 10 per 0.5 s: never more in a window, and each task once",
    options: { env: limitOf(0.5) },
    run: async (stage) => {
      const { times, from } = await backlog(stage, 200);
      assertNoneEarly(times, from, 500);
      const ids = new Set(stage.backend.requests.map(({ headers }) => headers["task-id"]));
      assert.equal(ids.size, 200);
    },
  },
  {
    name: "case 25: errors, resets and timeouts among the answers: no slot is lost, none is made",
    options: {
      env: { ...limitOf(2.5), BACKEND_TIMEOUT: "1", RETRY_LADDER: "20x0s" },
      answer: (_request, n) => mixedAnswer(n),
    },
    run: async (stage) => {
      const from = performance.now();
      await post(stage, 60);
      await stage.backend.waitFor(60);
      await stage.relay.waitForLog(({ outcome }) => outcome === "timeout");
      const outcomes = new Set(attemptLines(stage.relay).map(({ outcome }) => outcome));
      assert.deepEqual([...outcomes].sort(), ["ok", "reset", "status", "timeout"]);
      const times = arrivals(stage.backend).slice(0, 60);
      assertNoneEarly(times, from, 2_500);
      // A slot that is lost in each window makes it 0.9.
      assert.ok(useOf(times, 2_500) >= 0.95, `used to ${useOf(times, 2_500)}`);
    },
  },
  {
    name: "case 24: 10 at the end of a window, 10 at the start of the next: sliding-window lets " +
      "never more than 10 through in any window",
    options: { env: { ...limitOf(2, "sliding-window"), CONCURRENCY: "1" } },
    run: async (stage) => {
      const { times, from } = await backlogAroundTheBorder(stage);
      assertNoneEarly(times, from, 2_000);
    },
  },
  {
    name: "a backlog with sliding-window: never more than 10 in any window, and its slots are used",
    options: { env: limitOf(2.5, "sliding-window") },
    run: async (stage) => {
      const { times, from } = await backlog(stage, 60);
      assertNoneEarly(times, from, 2_500);
      assert.ok(useOf(times, 2_500) >= 0.95, `used to ${useOf(times, 2_500)}`);
    },
  },
];

Deno.test("the backend's limit holds, and what it allows is used", async (t) => {
  await alongside(t, SCENARIOS);
});

Deno.test("CONCURRENCY=3: never more than 3 requests in flight, and 3 while there are tasks", async () => {
  const env = { CONCURRENCY: "3", PREFETCH_COUNT: "10" };
  const answer = (): Answer => ({ status: 200, delayMs: 50 });
  await withStage({ env, answer }, async (stage) => {
    await post(stage, 15);
    await eventually(() => assert.equal(attemptLines(stage.relay).length, 15));
    assert.equal(stage.backend.peakInFlight, 3);
  });
});

Deno.test("PREFETCH_COUNT=5: five are held while the backend hangs, the others lie in the queue", async () => {
  const env = { PREFETCH_COUNT: "5", BACKEND_TIMEOUT: "60" };
  await withStage({ env, answer: () => ({ hang: true }) }, async (stage) => {
    const { backend, amqp, queues } = stage;
    await post(stage, 12);
    await backend.waitFor(5);
    await eventually(async () => assert.equal(await amqp.depth(queues.main), 7));
    assert.equal(backend.peakInFlight, 5);
  });
});
