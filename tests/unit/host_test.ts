/**
 * The consumer's host and Workers that die, hang or obey.
 *
 * @module
 */

import assert from "node:assert/strict";
import { ConsumerHost } from "../../src/consumer/host.ts";
import { workerPermissions } from "../../src/consumer/permissions.ts";
import type { ConsumerReport } from "../../src/consumer_report.ts";
import { IDLE } from "../../src/ops/standing.ts";
import { aConsumerConfig } from "../support/consumer_config.ts";
import type { End } from "../support/dying_worker.ts";
import { eventually } from "../support/eventually.ts";
import { FakeClock, settled } from "../support/fake_clock.ts";
import { FakeWorker } from "../support/fake_worker.ts";

const GRACE_MS = 20_000;

/** What a Worker may need after the grace. */
const CLOSE_ALLOWANCE_MS = 5_000;

/** The identity of the relay that the Workers are of. */
const RELAY = "a relay";

/** A host and the Workers that it made so far. */
class HostBench {
  readonly clock = new FakeClock();
  readonly config = aConsumerConfig();
  readonly workers: FakeWorker[] = [];
  readonly permissions: Deno.PermissionOptionsObject[] = [];
  readonly host = new ConsumerHost({
    config: this.config,
    relay: RELAY,
    firstEver: true,
    paused: false,
    look: () => Promise.resolve(true),
    clock: this.clock,
    createWorker: (permissions) => {
      const worker = new FakeWorker();
      this.permissions.push(permissions);
      this.workers.push(worker);
      return worker;
    },
  });

  /** The Worker that was made last. */
  get worker(): FakeWorker {
    const worker = this.workers.at(-1);
    assert.ok(worker !== undefined);
    return worker;
  }

  /** The Worker dies; the pause until there is another. */
  async pauseAfterDeath(): Promise<number> {
    const before = this.workers.length;
    assert.ok(this.worker.die(), "the error would have ended the process");
    for (let pauseMs = 100;; pauseMs += 100) {
      await this.clock.advance(100);
      if (this.workers.length > before) return pauseMs;
    }
  }
}

Deno.test("a Worker that dies again and again → started again after pauses that double up to 15 s", async () => {
  const bench = new HostBench();
  const pauses = [];
  for (let death = 0; death < 9; death++) pauses.push(await bench.pauseAfterDeath());
  assert.deepEqual(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000]);
  assert.ok(bench.workers.slice(0, -1).every(({ terminated }) => terminated));
});

Deno.test("a Worker that lived for half a minute dies → the pauses begin anew", async () => {
  const bench = new HostBench();
  assert.equal(await bench.pauseAfterDeath(), 200);
  await bench.clock.advance(29_000);
  assert.equal(await bench.pauseAfterDeath(), 400);
  await bench.clock.advance(30_001);
  assert.equal(await bench.pauseAfterDeath(), 200);
});

Deno.test("the state → what the Worker says, `restarting` once it is dead, `stopped` in the end", async () => {
  const bench = new HostBench();
  assert.equal(bench.host.state, "connecting");
  for (const state of ["consuming", "suspended", "connecting", "consuming"] as const) {
    bench.worker.say({ type: "state", state });
    assert.equal(bench.host.state, state);
  }
  const dead = bench.worker;
  dead.die();
  assert.equal(bench.host.state, "restarting");
  // A message may arrive after the death of the Worker that sent it.
  dead.say({ type: "state", state: "consuming" });
  assert.equal(bench.host.state, "restarting");
  await bench.clock.advance(200);
  dead.die();
  bench.worker.say({ type: "state", state: "consuming" });
  assert.equal(bench.host.state, "consuming");
  const stopped = bench.host.stop(GRACE_MS);
  bench.worker.say({ type: "stopped" });
  await stopped;
  assert.equal(bench.host.state, "stopped");
});

Deno.test("paused → the Worker is told, and so is each that follows it, as it is then", async () => {
  const bench = new HostBench();
  bench.host.setPaused(true);
  assert.deepEqual(bench.worker.told.at(-1), { type: "pause", paused: true });
  await bench.pauseAfterDeath();
  const paused = bench.worker.told.map((message) => "paused" in message && message.paused);
  assert.deepEqual(paused, [true]);
  bench.worker.die();
  bench.host.setPaused(false); // while there is no Worker
  await bench.clock.advance(1_000);
  assert.deepEqual(bench.worker.told.map((message) => "paused" in message && message.paused), [
    false,
  ]);
});

Deno.test("a Worker asks whether delivering is paused at this moment → it is looked, and told", async () => {
  const bench = new HostBench();
  bench.worker.say({ type: "look" });
  await settled();
  assert.deepEqual(bench.worker.told.at(-1), { type: "looked", paused: true });
  await bench.pauseAfterDeath();
  assert.deepEqual(bench.worker.told.map((message) => "paused" in message && message.paused), [
    true,
  ]);
});

Deno.test("each Worker → the configuration, the one identity and its permissions; only the first may be the first ever", async () => {
  const bench = new HostBench();
  await bench.pauseAfterDeath();
  const { config } = bench;
  assert.deepEqual(bench.workers.map(({ told }) => told), [
    [{ type: "start", config, relay: RELAY, firstEver: true, paused: false }],
    [{ type: "start", config, relay: RELAY, firstEver: false, paused: false }],
  ]);
  const permissions = workerPermissions(config);
  assert.deepEqual(bench.permissions, [permissions, permissions]);
});

Deno.test("stop → the Worker is told the grace, and it is over when the Worker says so", async () => {
  const bench = new HostBench();
  let over = false;
  const stopped = bench.host.stop(GRACE_MS).then(() => over = true);
  await bench.clock.advance(GRACE_MS);
  assert.deepEqual(bench.worker.told.at(-1), { type: "stop", graceMs: GRACE_MS });
  assert.equal(over, false);
  bench.worker.say({ type: "stopped" });
  await stopped;
  assert.ok(bench.worker.terminated);
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("stop, and the Worker dies of it → over at once, no new Worker", async () => {
  const bench = new HostBench();
  const stopped = bench.host.stop(GRACE_MS);
  bench.worker.die();
  await stopped;
  await bench.clock.advance(60_000);
  const { workers, host, clock } = bench;
  assert.deepEqual([workers.length, host.state, clock.sleeping], [1, "stopped", 0]);
});

Deno.test("stop between two Workers → over at once, no new Worker", async () => {
  const bench = new HostBench();
  bench.worker.die();
  await bench.host.stop(GRACE_MS);
  await bench.clock.advance(60_000);
  const { workers, host, clock } = bench;
  assert.deepEqual([workers.length, host.state, clock.sleeping], [1, "stopped", 0]);
});

/** A host with a Worker in a thread of its own. */
function threaded(end: End): { readonly host: ConsumerHost; readonly clock: FakeClock } {
  const clock = new FakeClock();
  const createWorker = (): Worker =>
    new Worker(new URL("../support/dying_worker.ts", import.meta.url), {
      type: "module",
      name: end,
    });
  const config = aConsumerConfig();
  return {
    host: new ConsumerHost({
      config,
      relay: RELAY,
      firstEver: true,
      paused: false,
      look: () => Promise.resolve(false),
      clock,
      createWorker,
    }),
    clock,
  };
}

for (const end of ["throws", "rejects"] as const) {
  Deno.test(`a Worker in which something ${end} and nothing catches it → restarting, the process lives`, async () => {
    const { host } = threaded(end);
    await eventually(() => assert.equal(host.state, "restarting"));
    await host.stop(0);
  });
}

Deno.test("stop, and the Worker obeys → over, without a timer left", async () => {
  const { host, clock } = threaded("obeys");
  await eventually(() => assert.equal(host.state, "consuming"));
  await host.stop(GRACE_MS);
  assert.deepEqual([host.state, clock.sleeping], ["stopped", 0]);
});

Deno.test("stop, and the Worker hangs in a loop → over after the grace and 5 s, its thread is ended", async () => {
  const { host, clock } = threaded("hangs");
  await eventually(() => assert.equal(host.state, "consuming"));
  let over = false;
  const stopped = host.stop(GRACE_MS).then(() => over = true);
  await clock.advance(GRACE_MS + CLOSE_ALLOWANCE_MS - 1);
  assert.equal(over, false);
  await clock.advance(1);
  await stopped;
  assert.equal(host.state, "stopped");
});

Deno.test("the consumer's own Worker can't write its data directory → dies, and is to be started again", async () => {
  const file = await Deno.makeTempFile();
  const config = { ...aConsumerConfig(), dataDir: `${file}/data` };
  const clock = new FakeClock();
  const host = new ConsumerHost({
    config,
    relay: RELAY,
    firstEver: false,
    paused: false,
    look: () => Promise.resolve(false),
    clock,
  });
  await eventually(() => assert.equal(host.state, "restarting"));
  await host.stop(0);
  await Deno.remove(file);
});

const REPORT: ConsumerReport = { metrics: [], standing: IDLE };

Deno.test("report → the Worker is asked once however many ask, and all get its answer", async () => {
  const bench = new HostBench();
  const asked = [bench.host.report(), bench.host.report()];
  assert.deepEqual(bench.worker.told.slice(1), [{ type: "report" }]);
  bench.worker.say({ type: "report", report: REPORT });
  assert.deepEqual(await Promise.all(asked), [REPORT, REPORT]);
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("report, and the Worker is busy → none after a second; it is not asked again before it answers", async () => {
  const bench = new HostBench();
  const late = bench.host.report();
  await bench.clock.advance(1_000);
  assert.equal(await late, undefined);
  const next = bench.host.report();
  assert.equal(bench.worker.told.length, 2);
  bench.worker.say({ type: "report", report: REPORT });
  assert.equal(await next, REPORT);
});

Deno.test("report, and the Worker dies → none at once; the next Worker is another generation", async () => {
  const bench = new HostBench();
  const report = bench.host.report();
  assert.equal(bench.host.generation, 1);
  bench.worker.die();
  assert.equal(await report, undefined);
  assert.equal(await bench.host.report(), undefined, "there is none to ask");
  await bench.clock.advance(200);
  assert.equal(bench.host.generation, 2);
  const next = bench.host.report();
  bench.worker.say({ type: "report", report: REPORT });
  assert.equal(await next, REPORT);
});
