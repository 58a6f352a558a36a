/**
 * What every limiter promises, whether it is of one process or shared in Redis: one suite for both, and
 * for both algorithms, on the machine's own clock.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Config } from "../../src/config.ts";
import { HOLD_MS } from "../../src/consumer/hold.ts";
import type { Limit } from "../../src/consumer/limit.ts";
import { SPAN_PER_WINDOW } from "../../src/consumer/rate_window.ts";
import { busiestWindow } from "../support/arrivals.ts";
import { eventually } from "../support/eventually.ts";
import { ask, begin, take, takeMany, WELL, withLimit } from "../support/limit_replicas.ts";
import { type Redis, startRedis } from "../support/redis.ts";

const MAX = 5;
const WINDOW_MS = 400;
const SPAN_MS = WINDOW_MS * SPAN_PER_WINDOW;
const ALGORITHMS = ["fixed-window", "sliding-window"] as const;

/** Fails when the clause is broken; the limit is fresh. */
type Clause = (limit: Limit, rules: Config["limit"]) => Promise<void>;

const CLAUSES: Readonly<Record<string, Clause>> = {
  "a backlog → all served in order, and never more than the limit allows": async (limit, rules) => {
    const order: number[] = [];
    const times = await Promise.all(Array.from({ length: 4 * MAX + 1 }, async (_, n) => {
      const at = await ask(limit);
      order.push(n);
      return at;
    }));
    assert.deepEqual(order, Array.from({ length: 4 * MAX + 1 }, (_, n) => n));
    const most = busiestWindow(times, SPAN_MS);
    const allowed = rules.algorithm === "sliding-window" ? MAX : 2 * MAX;
    assert.ok(most <= allowed, `${most} in a window`);
    // Four windows were full before the last one: it is in the fifth.
    const took = (times.at(-1) ?? 0) - (times[0] ?? 0);
    assert.ok(took >= 4 * SPAN_MS - 0.01, `over in ${took} ms`);
  },
  "slots that are given back → others have them in the same window": async (limit) => {
    const slots = await takeMany(limit, MAX);
    const first = begin(slots[0] ?? assert.fail());
    for (const slot of slots.slice(1)) slot.release();
    const others = await takeMany(limit, MAX - 1);
    others.forEach(begin);
    assert.ok(await ask(limit) >= first + SPAN_MS, "more than the limit");
  },
  "all slots granted and none begun → nobody else until a window after they have": async (
    limit,
  ) => {
    const slots = await takeMany(limit, MAX);
    const next = ask(limit);
    const began = slots.map(begin);
    assert.ok(await next >= Math.min(...began) + SPAN_MS);
  },
  "who aborts while waiting → has none, and costs none": async (limit) => {
    const slots = await takeMany(limit, MAX);
    const gone = new AbortController();
    const refused = limit.limiter.take(gone.signal);
    const next = take(limit);
    gone.abort();
    assert.equal(await refused, undefined);
    assert.equal(await limit.limiter.take(gone.signal), undefined);
    slots[0]?.release();
    begin(await next);
  },
  "the backend asks for a pause → nothing that was granted begins, nothing is granted": async (
    limit,
  ) => {
    const [first, second] = await takeMany(limit, 2);
    assert.ok(first && second);
    begin(first);
    const heardAt = performance.now();
    first.end({ unreached: false, retryAfterMs: 600 });
    assert.equal(second.begin(), false);
    const { state, reason } = limit.gate();
    assert.deepEqual({ state, reason }, { state: "closed", reason: "retry_after" });
    // Clocks may differ by a rounding error.
    assert.ok(await ask(limit) >= heardAt + 600 - 1);
  },
  "the pause is longer than anybody waits → refused at once": async (limit) => {
    const slot = await take(limit);
    begin(slot);
    slot.end({ unreached: false, retryAfterMs: HOLD_MS + 60_000 });
    assert.equal(await limit.limiter.take(new AbortController().signal), undefined);
    assert.ok(limit.limiter.freeAt() > performance.now() + HOLD_MS);
  },
  "the backend can't be reached → one tries, and the others after it has": async (limit) => {
    const lost = await takeMany(limit, 2);
    lost.forEach(begin);
    for (const slot of lost) slot.end({ unreached: true });
    assert.equal(limit.gate().reason, "breaker");
    let served = 0;
    const waiting = Array.from({ length: 3 }, async () => {
      const slot = await take(limit);
      served++;
      return slot;
    });
    const probe = await Promise.race(waiting);
    assert.equal(served, 1);
    begin(probe);
    assert.equal(limit.gate().state, "probing");
    probe.end(WELL);
    for (const slot of await Promise.all(waiting)) if (slot !== probe) slot.release();
  },
  "standing → what has begun in this window, and what is under way": async (limit) => {
    const slots = await takeMany(limit, 3);
    assert.equal(limit.limiter.standing().inFlight, 0);
    slots.forEach(begin);
    assert.equal(limit.limiter.standing().inFlight, 3);
    slots.forEach((slot) => slot.end(WELL));
    assert.equal(limit.limiter.standing().inFlight, 0);
    // Nothing of the past counts for ever.
    await eventually(() => assert.equal(limit.limiter.standing().used, 0));
  },
};

let redis: Redis | undefined;
Deno.test.beforeAll(async () => void (redis = await startRedis()));
Deno.test.afterAll(() => redis?.stop());

for (const algorithm of ALGORITHMS) {
  for (const kind of ["own", "shared"] as const) {
    for (const [name, clause] of Object.entries(CLAUSES)) {
      Deno.test(`limiter (${kind}, ${algorithm}): ${name}`, async () => {
        const limit = { maxRequests: MAX, windowMs: WINDOW_MS, algorithm };
        const options = kind === "shared" && redis ? { redisUrl: redis.url() } : {};
        await withLimit(
          { limit, breakerFailures: 2, ...options },
          (opened) => clause(opened, limit),
        );
      });
    }
  }
}
