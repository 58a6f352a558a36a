/**
 * Relays that die and are followed by others: whoever follows must not spend the window of the one
 * before, and the backend measures whether it does.
 *
 * What the limit allows in `windows` windows, wherever they begin, is that many times the limit with
 * `sliding-window`, and once more with `fixed-window`, whose borders the backend can't see. It is
 * asked over less time than that ({@link SLACK_MS}), because on a busy machine requests arrive in
 * the test some hundred milliseconds late; a window that is spent twice shows all the same, as a
 * second burst right after the first.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import { busiestWindow } from "../support/arrivals.ts";
import { type Backend, withBackend } from "../support/backend.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { queueNames } from "../support/queues.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import { assertNoneLost, LADDER, taskId } from "./scene.ts";

const LIMIT = 10;
const SLACK_MS = 400;
type Algorithm = "sliding-window" | "fixed-window";
const ALGORITHMS: readonly Algorithm[] = ["sliding-window", "fixed-window"];

interface Setting {
  readonly count: number;
  readonly algorithm: Algorithm;
  readonly windowMs: number;
}

interface Replicas extends Setting {
  readonly relays: readonly RelayProcess[];
  readonly backend: Backend;
  readonly accepted: Set<string>;
}

/** Runs `fn` with so many relays on the same queues, each with a DATA_DIR of its own. */
async function withReplicas(
  setting: Setting,
  fn: (replicas: Replicas) => Promise<void>,
): Promise<void> {
  const { count, algorithm, windowMs } = setting;
  const prefix = uniquePrefix();
  const rabbit = rabbitAddress();
  const accepted = new Set<string>();
  await withBackend(async (backend) => {
    const env = {
      QUEUE_PREFIX: prefix,
      BACKEND_BASE_URL: backend.url,
      RETRY_LADDER: LADDER,
      RATE_LIMIT_MAX_REQUESTS: String(LIMIT),
      RATE_LIMIT_WINDOW_SEC: String(windowMs / 1000),
      RATE_LIMIT_ALGORITHM: algorithm,
    };
    const open = (relays: readonly RelayProcess[]): Promise<void> =>
      relays.length === count
        ? fn({ ...setting, relays, backend, accepted })
        : withRelay({ env: { ...env, BACKEND_PATH: `/${relays.length}` } }, (relay) =>
          open([...relays, relay]));
    try {
      await open([]);
      await withAmqp(rabbit, async (amqp) => {
        const delivered = new Set(backend.requests.map(taskId));
        const { failed } = await assertNoneLost(
          amqp,
          queueNames(prefix, LADDER),
          accepted,
          delivered,
        );
        assert.deepEqual([...failed], []);
      });
    } finally {
      await withAmqp(rabbit, (amqp) => amqp.deletePrefix(prefix, LADDER));
    }
  });
}

async function post({ relays, accepted }: Replicas, count: number): Promise<void> {
  const [relay] = relays;
  assert.ok(relay);
  const ids = await Promise.all(Array.from({ length: count }, () => relay.accept("1")));
  ids.forEach((id) => accepted.add(id));
}

/** Asserts the limit over everything that the backend has seen. */
function keptTheLimit({ algorithm, windowMs, backend: { requests } }: Replicas): void {
  const seen = requests.map(({ at, url }) => `${Math.round(at)} ${url}`).join(", ");
  for (const windows of [1, 2, 3, 5]) {
    const span = windows * windowMs - SLACK_MS;
    const most = busiestWindow(requests.map(({ at }) => at), span);
    const allowed = LIMIT * (algorithm === "sliding-window" ? windows : windows + 1);
    assert.ok(most <= allowed, `${most} requests in ${span} ms: ${seen}`);
  }
}

/** The next request of a relay that is not `dead`, and who made it. */
async function nextRequest(
  { relays, backend }: Replicas,
  dead?: RelayProcess,
): Promise<{ readonly active: RelayProcess; readonly at: number }> {
  for (let next = backend.requests.length;; next++) {
    await backend.waitFor(next + 1);
    const request = backend.requests[next];
    const active = relays[Number(request?.url.slice(1))];
    assert.ok(request && active);
    if (active !== dead) return { active, at: request.at };
  }
}

for (const algorithm of ALGORITHMS) {
  Deno.test(`two relays, the active one killed (-9) three times and once stopped: the other takes over, and the backend's limit holds throughout (${algorithm})`, async () => {
    await withReplicas({ count: 2, algorithm, windowMs: 1000 }, async (replicas) => {
      const { backend } = replicas;
      await post(replicas, 250);
      let last: RelayProcess | undefined;
      for (let round = 0; round < 4; round++) {
        const { active } = await nextRequest(replicas);
        if (last !== undefined) assert.notEqual(active, last, "the other did not take over");
        last = active;
        // Before the last one long enough for all that the other knew of this one to be old.
        const more = round < 3 ? Math.floor(Math.random() * 12) : 4 * LIMIT;
        await backend.waitFor(backend.requests.length + more);
        if (round < 3) await active.kill();
        else assert.equal(await active.stop(), 0);
        await active.start();
      }
      await backend.waitFor(backend.requests.length + 15);
      keptTheLimit(replicas);
      await Promise.all(replicas.relays.map((relay) => relay.kill()));
    });
  });

  Deno.test(`a relay killed (-9) and started again within the window, three times at random moments: no window is spent twice (${algorithm})`, async () => {
    await withReplicas({ count: 1, algorithm, windowMs: 1000 }, async (replicas) => {
      const { backend, relays: [relay] } = replicas;
      assert.ok(relay);
      await post(replicas, 250);
      for (let round = 0; round < 3; round++) {
        await backend.waitFor(backend.requests.length + 1 + Math.floor(Math.random() * 12));
        await relay.kill();
        await relay.start();
      }
      await backend.waitFor(backend.requests.length + 15);
      keptTheLimit(replicas);
      await relay.kill();
    });
  });
}

Deno.test("three relays without Redis, the active one killed (-9) ten times: the limit holds throughout, each failover takes less than two windows, nothing is lost", async () => {
  const setting = { count: 3, algorithm: "sliding-window", windowMs: 2000 } as const;
  await withReplicas(setting, async (replicas) => {
    const { backend, windowMs } = replicas;
    await post(replicas, 300);
    const gaps: number[] = [];
    for (let kill = 0; kill < 10; kill++) {
      const { active } = await nextRequest(replicas);
      // The windows of the one before and of this one are spent in part, in whole, or just begun.
      const more = Math.floor(Math.random() * 12);
      await backend.waitFor(backend.requests.length + more);
      await active.kill();
      const killedAt = performance.now();
      const { at } = await nextRequest(replicas, active);
      gaps.push(at - killedAt);
      await active.start();
    }
    const longest = Math.max(...gaps);
    assert.ok(longest < 2 * windowMs, `without a request for ${gaps.map(Math.round)} ms`);
    keptTheLimit(replicas);
    await Promise.all(replicas.relays.map((relay) => relay.kill()));
  });
});
