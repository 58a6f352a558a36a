/**
 * The limit and the gate that replicas share: together they send no more than one would, what one has
 * heard the others keep to, and a Redis or a replica that goes away loses nothing but time.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import type { Config } from "../../src/config.ts";
import type { Limit } from "../../src/consumer/limit.ts";
import { SPAN_PER_WINDOW } from "../../src/consumer/rate_window.ts";
import { VALIDITY_MS } from "../../src/consumer/shared_window.ts";
import { busiestWindow } from "../support/arrivals.ts";
import { eventually } from "../support/eventually.ts";
import {
  ask,
  begin,
  take,
  takeMany,
  WELL,
  withLimit,
  withReplicas,
} from "../support/limit_replicas.ts";
import { startRedis } from "../support/redis.ts";
import { withTcpRelay } from "../support/tcp_relay.ts";

const WINDOW_MS = 300;
const SPAN_MS = WINDOW_MS * SPAN_PER_WINDOW;
const FIXED: Config["limit"] = {
  maxRequests: 10,
  windowMs: WINDOW_MS,
  algorithm: "fixed-window",
};
const BOTH: readonly Config["limit"][] = [FIXED, { ...FIXED, algorithm: "sliding-window" }];

/** What one who takes a slot does with it. */
interface Client {
  readonly replica: number;
  /** Milliseconds from the grant on. */
  readonly beginsAfter: number;
  readonly deed: "ask" | "ask" | "give back" | "leave the line";
}

const anyClients = fc.array(
  fc.record<Client>({
    replica: fc.nat(2),
    beginsAfter: fc.oneof(fc.constant(0), fc.nat(60)),
    deed: fc.constantFrom("ask", "ask", "ask", "give back", "leave the line"),
  }),
  { minLength: 40, maxLength: 60 },
);

/** Does what the client does; gives the moment of its beginning if it has begun. */
async function act(limit: Limit, { beginsAfter, deed }: Client): Promise<number | undefined> {
  const leaving = new AbortController();
  const slot = limit.limiter.take(leaving.signal);
  if (deed === "leave the line") setTimeout(() => leaving.abort(), 3 * beginsAfter);
  const granted = await slot;
  await new Promise((resolve) => setTimeout(resolve, beginsAfter));
  if (granted === undefined || deed !== "ask") return void granted?.release();
  const at = begin(granted);
  granted.end(WELL);
  return at;
}

for (const limit of BOTH) {
  Deno.test(`three replicas, whatever their clients do (${limit.algorithm}) → together never more than one, and nobody is stuck`, async () => {
    await using redis = await startRedis();
    await fc.assert(
      fc.asyncProperty(anyClients, async (clients) => {
        await withReplicas({ limit, redisUrl: redis.url() }, async (limits) => {
          const all = clients.map((client) => act(limits[client.replica] ?? limits[0], client));
          const times = (await Promise.all(all)).filter((at) => at !== undefined);
          assert.equal(times.length, clients.filter(({ deed }) => deed === "ask").length);
          const most = busiestWindow(times.sort((a, b) => a - b), SPAN_MS);
          const allowed = limit.maxRequests * (limit.algorithm === "sliding-window" ? 1 : 2);
          assert.ok(most <= allowed, `${most} in a window`);
        });
      }),
      { numRuns: 4 },
    );
  });

  Deno.test(`a replica dies with a slot (${limit.algorithm}) → it is lost for one window, and no longer`, async () => {
    await using redis = await startRedis();
    const two = { ...limit, maxRequests: 2 };
    await withReplicas({ limit: two, redisUrl: redis.url() }, async ([dead, other]) => {
      const askedAt = performance.now();
      const lost = await take(dead);
      await ask(other);
      const [first, second] = [await ask(other), await ask(other)];
      assert.ok(second - first >= SPAN_MS, "the slot of the dead was granted twice");
      // Both slots are free at once only when that of the dead is over.
      const slots = await takeMany(other, 2);
      const early = askedAt + VALIDITY_MS + SPAN_MS - performance.now();
      assert.ok(early <= 0, `the slot of the dead was free ${early} ms early`);
      slots.forEach((slot) => slot.release());
      assert.equal(lost.begin(), false, "a slot that was given to another began");
    });
  });

  Deno.test(`Redis is flushed, then restarted (${limit.algorithm}) → nothing begins for a window, and it goes on`, async () => {
    await using redis = await startRedis();
    await withReplicas({ limit, redisUrl: redis.url() }, async ([one, other]) => {
      await ask(one);
      const flushedAt = performance.now();
      await redis.command("FLUSHALL");
      assert.ok(await ask(other) >= flushedAt + SPAN_MS, "after the flush");
      await redis.kill();
      const waiting = [ask(one), ask(other)];
      const startedAt = performance.now();
      await redis.start();
      for (const at of await Promise.all(waiting)) {
        assert.ok(at >= startedAt + SPAN_MS, "after the restart");
      }
    });
  });
}

Deno.test("Redis answers no more → those who wait go on waiting, and what was granted before does not begin late", async () => {
  await using redis = await startRedis();
  const target = { targetHost: redis.host, targetPort: redis.port };
  await withTcpRelay(target, async (network) => {
    await withLimit({ limit: FIXED, redisUrl: redis.url(network.port) }, async (limit) => {
      const slot = await take(limit);
      network.blackhole();
      let served = false;
      const waiting = ask(limit).then(() => served = true);
      await eventually(() => assert.equal(limit.limiter.freeAt(), Infinity));
      assert.equal(slot.begin(), false, "older than Redis holds it for granted");
      assert.equal(served, false);
      network.heal();
      await waiting;
    });
  });
});

Deno.test("one replica is asked to pause → the others do", async () => {
  await using redis = await startRedis();
  await withReplicas({ limit: FIXED, redisUrl: redis.url() }, async ([one, ...others]) => {
    const slot = await take(one);
    begin(slot);
    const heardAt = performance.now();
    slot.end({ unreached: false, retryAfterMs: 3_000 });
    const closed = { state: "closed", reason: "retry_after" };
    await eventually(() => {
      for (const { gate } of others) {
        const { state, reason } = gate();
        assert.deepEqual({ state, reason }, closed);
      }
    });
    for (const at of await Promise.all([one, ...others].map(ask))) {
      assert.ok(at >= heardAt + 3_000 - 1, "before the pause was over");
    }
  });
});

Deno.test("the backend can't be reached by any of three replicas → one request tries in all; when that one's replica dies, another tries", async () => {
  await using redis = await startRedis();
  const options = { limit: FIXED, breakerFailures: 3, redisUrl: redis.url() };
  await withReplicas({ ...options, timeoutMs: 100 }, async (limits) => {
    const lost = await Promise.all(limits.map(take));
    lost.forEach(begin);
    for (const slot of lost) slot.end({ unreached: true });
    const inAll = (): string => limits.map(({ gate }) => gate().reason).join();
    await eventually(() => assert.equal(inAll(), "breaker,breaker,breaker"));
    const probes: Awaited<ReturnType<typeof take>>[] = [];
    const waiting = limits.flatMap((limit) =>
      [1, 2].map(() => take(limit).then((slot) => probes.push(slot)))
    );
    await eventually(() => {
      assert.equal(limits.map(({ gate }) => gate().state).join(), "probing,probing,probing");
    });
    await eventually(() => assert.equal(probes.length, 1));
    const [dead] = probes;
    begin(dead ?? assert.fail());
    const diedBy = performance.now();
    await eventually(() => assert.equal(probes.length, 2));
    assert.ok(performance.now() >= diedBy + 1_000, "before the first could have been answered");
    const [, second] = probes;
    begin(second ?? assert.fail());
    second?.end(WELL);
    await Promise.all(waiting);
    for (const slot of probes.slice(2)) slot.release();
  });
});
