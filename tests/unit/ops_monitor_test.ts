/**
 * What operators are told: put together of what the consumer, the broker and the parts say.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Stats } from "../../src/ops/stats.ts";
import { withMonitor } from "../support/monitor_bench.ts";

Deno.test("stats: who it is, the limit, the queues in the order of a task's way", async () => {
  await withMonitor(async (bench) => {
    bench.standing = { used: 3, inFlight: 2 };
    const stats = await bench.stats();
    assert.deepEqual([stats.version, stats.queuePrefix, stats.concurrency], ["1.2.3", "tasks", 20]);
    assert.deepEqual(stats.limit, {
      algorithm: "fixed-window",
      maxRequests: 10,
      windowSeconds: 2,
      used: 3,
    });
    assert.equal(stats.inFlight, 2);
    assert.equal(stats.at, new Date(bench.clock.now()).toISOString());
    assert.deepEqual(stats.queues, [
      { name: "tasks.main", role: "main", delaySeconds: null, messages: 40 },
      { name: "tasks.retry.3s", role: "retry", delaySeconds: 3, messages: 8 },
      { name: "tasks.delay.4s", role: "delay", delaySeconds: 4, messages: 2 },
      { name: "tasks.failed", role: "failed", delaySeconds: null, messages: 5 },
    ]);
  });
});

Deno.test("many ask → consumer and broker are asked once a second, and for the history", async () => {
  await withMonitor(async (bench) => {
    await bench.clock.advance(1_000);
    const before = { ...bench.asked };
    await Promise.all(Array.from({ length: 20 }, () => bench.monitor.view()));
    await bench.clock.advance(900);
    await Promise.all(Array.from({ length: 20 }, () => bench.monitor.view()));
    assert.deepEqual(bench.asked, { depths: before.depths + 1, consumer: before.consumer + 1 });
    await bench.clock.advance(60_000);
    assert.equal(bench.asked.depths, before.depths + 1 + 12, "once in five seconds");
  });
});

Deno.test("the broker takes longer than a second → one look at a time, and all get that", async () => {
  await withMonitor(async (bench) => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    bench.slow = answered;
    await bench.clock.advance(1_000);
    const before = bench.asked.depths;
    const views = [bench.monitor.view()];
    for (let second = 0; second < 3; second++) {
      await bench.clock.advance(1_000);
      views.push(bench.monitor.view());
    }
    assert.equal(bench.asked.depths, before + 1);
    answer();
    assert.equal(new Set(await Promise.all(views)).size, 1);
  });
});

Deno.test("the history → a sample every five seconds, told to who listens", async () => {
  await withMonitor(async (bench) => {
    bench.delivered = 7;
    await bench.clock.advance(5_000);
    bench.delivered = 9;
    await bench.clock.advance(5_000);
    assert.deepEqual(bench.samples.map(({ delivered }) => delivered), [7, 2]);
    assert.deepEqual(bench.samples.map(({ waiting }) => waiting), [48, 48]);
    const { history } = await bench.stats();
    assert.deepEqual(history, { stepSeconds: 5, samples: bench.samples });
  });
});

Deno.test("drain: what waits and what is held, at the limit's rate; for ever when paused", async () => {
  await withMonitor(async (bench) => {
    bench.standing = { held: 12 };
    assert.equal((await bench.stats()).drainSeconds, 12, "40 + 8 + 12 at 5 a second");
    assert.equal(await bench.metric("drain_seconds"), 12);
    bench.paused = true;
    const { drainSeconds, paused } = await bench.stats();
    assert.deepEqual([drainSeconds, paused], [null, true]);
    assert.equal(await bench.metric("drain_seconds"), Infinity);
    assert.equal(await bench.metric("paused"), 1);
  });
});

Deno.test("drain: as fast as it was in the last minutes, when that was slower than the limit", async () => {
  await withMonitor(async (bench) => {
    for (let step = 1; step <= 12; step++) {
      bench.delivered = step * 5;
      await bench.clock.advance(5_000);
    }
    assert.equal((await bench.stats()).drainSeconds, 48, "48 at 1 a second");
  });
});

Deno.test("drain: a standby or a closed gate says nothing of the rate", async () => {
  for (
    const change of [{ state: "standby" }, {
      standing: { gate: { state: "closed", reason: "retry_after", until: 0 } as const },
    }]
  ) {
    await withMonitor(async (bench) => {
      Object.assign(bench, change);
      await bench.clock.advance(60_000);
      assert.equal((await bench.stats()).drainSeconds, 9.6, "48 at 5 a second");
    });
  }
});

Deno.test("the broker can't be asked → null in the stats, absent from the metrics", async () => {
  await withMonitor(async (bench) => {
    bench.depths = undefined;
    const { queues, drainSeconds } = await bench.stats();
    assert.deepEqual(queues.map(({ name, messages }) => [name, messages]), [
      ["tasks.main", null],
      ["tasks.retry.3s", null],
      ["tasks.failed", null],
    ]);
    assert.equal(drainSeconds, null);
    assert.equal(await bench.metric('queue_messages{queue="tasks.main"}'), undefined);
    assert.equal(await bench.metric("drain_seconds"), undefined);
    await bench.clock.advance(5_000);
    assert.equal(bench.samples.at(-1)?.waiting, null);
  });
});

Deno.test("oldest due: of what is held; while nothing is, of what was given back, if anything waits", async () => {
  await withMonitor(async (bench) => {
    const since = bench.clock.now() - 60_000;
    bench.standing = { dueSince: since };
    assert.equal((await bench.stats()).oldestDueSeconds, 61);
    assert.equal(await bench.metric("oldest_due_seconds"), 62);
    bench.standing = { dueSinceBefore: since };
    assert.equal((await bench.stats()).oldestDueSeconds, 63);
    bench.depths = undefined;
    assert.equal((await bench.stats()).oldestDueSeconds, 64, "something may wait");
    bench.depths = new Map([["tasks.main", 0], ["tasks.failed", 3]]);
    assert.equal((await bench.stats()).oldestDueSeconds, null);
    assert.equal(await bench.metric("oldest_due_seconds"), 0);
    bench.standing = { dueSinceBefore: since, held: 1 };
    assert.equal((await bench.stats()).oldestDueSeconds, 67, "it is on its way back");
  });
});

Deno.test("gate: state, reason and moment; the metric tells whether the backend is left alone", async () => {
  await withMonitor(async (bench) => {
    assert.equal(await bench.metric("gate_closed"), 0);
    const until = Date.UTC(2027, 0, 1);
    bench.standing = { gate: { state: "closed", reason: "retry_after", until } };
    assert.deepEqual((await bench.stats()).gate, {
      state: "closed",
      reason: "retry_after",
      until: "2027-01-01T00:00:00.000Z",
    });
    assert.equal(await bench.metric("gate_closed"), 1);
    bench.standing = { gate: { state: "rising", reason: null, until: null } };
    assert.equal(await bench.metric("gate_closed"), 0);
  });
});

Deno.test("the consumer dies → its counts stay, its standing does not; the next one's are added", async () => {
  await withMonitor(async (bench) => {
    Object.assign(bench, { delivered: 10, standing: { inFlight: 4 } });
    assert.deepEqual(shown(await bench.stats()), [true, 4, 10]);
    Object.assign(bench, { answers: false, state: "restarting" });
    assert.deepEqual(shown(await bench.stats()), [false, 0, 10]);
    Object.assign(bench, { answers: true, state: "consuming", generation: 2, delivered: 1 });
    assert.deepEqual(shown(await bench.stats()), [true, 4, 11]);
  });
});

Deno.test("the consumer does not answer in time → what it said last", async () => {
  await withMonitor(async (bench) => {
    Object.assign(bench, { delivered: 10, standing: { inFlight: 4 } });
    await bench.stats();
    bench.answers = false;
    assert.deepEqual(shown(await bench.stats()), [true, 4, 10]);
  });
});

const ACTIVE: readonly [state: string, active: boolean][] = [
  ["consuming", true],
  ["suspended", true],
  ["standby", false],
  ["connecting", false],
  ["restarting", false],
];

for (const [state, active] of ACTIVE) {
  Deno.test(`active: a consumer that is ${state} → ${active}`, async () => {
    await withMonitor(async (bench) => {
      bench.state = state;
      assert.equal((await bench.stats()).replica.active, active);
      assert.equal(await bench.metric("consumer_active"), active ? 1 : 0);
    });
  });
}

function shown({ replica, inFlight, totals }: Stats): unknown[] {
  return [replica.active, inFlight, totals.delivered];
}
