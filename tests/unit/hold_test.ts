/**
 * How much is held unacknowledged, for limits from a flood to one request a month.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { loadConfig } from "../../src/config.ts";
import type { Config } from "../../src/config.ts";
import { effectivePrefetch, HOLD_MS } from "../../src/consumer/hold.ts";

/** RabbitMQ's default `consumer_timeout` is 30 minutes; the contract of design.md is 5. */
const LONGEST_HOLD_MS = 5 * 60_000;

function prefetchOf(environment: Record<string, string>): number {
  return effectivePrefetch(loadConfig(environment, () => ""));
}

Deno.test("the defaults: what PREFETCH_COUNT says", () => {
  assert.equal(prefetchOf({}), 20);
  assert.equal(prefetchOf({ PREFETCH_COUNT: "300" }), 300);
});

Deno.test("case 27: a limit of 1 per hour with prefetch 20 → one delivery at a time", () => {
  const slow = { RATE_LIMIT_MAX_REQUESTS: "1", RATE_LIMIT_WINDOW_SEC: "3600" };
  assert.equal(prefetchOf(slow), 1);
});

Deno.test("case 27: a slow limit → no more than can begin within HOLD_MS", () => {
  const slow = { RATE_LIMIT_MAX_REQUESTS: "1", RATE_LIMIT_WINDOW_SEC: "20" };
  assert.equal(prefetchOf(slow), HOLD_MS / 20_000);
});

Deno.test("a backend that may take a quarter of an hour → no more than CONCURRENCY", () => {
  const slow = { BACKEND_TIMEOUT: "900", CONCURRENCY: "2", RATE_LIMIT_MAX_REQUESTS: "1000" };
  assert.equal(prefetchOf(slow), 2);
});

Deno.test("any limit: at least one, at most PREFETCH_COUNT, and the last one begins in time", () => {
  const any: fc.Arbitrary<Pick<Config, "consumer" | "limit">> = fc.record({
    consumer: fc.integer({ min: 1, max: 65_535 }).chain((prefetch) =>
      fc.record({
        prefetch: fc.constant(prefetch),
        concurrency: fc.integer({ min: 1, max: prefetch }),
      })
    ),
    limit: fc.record({
      maxRequests: fc.integer({ min: 1, max: 1_000_000 }),
      windowMs: fc.integer({ min: 1, max: 31 * 24 * 3_600_000 }),
      algorithm: fc.constant("fixed-window"),
    }),
  });
  fc.assert(
    fc.property(any, fc.integer({ min: 1, max: 900_000 }), (config, timeoutMs) => {
      const held = effectivePrefetch({ ...config, backend: { timeoutMs } });
      assert.ok(Number.isInteger(held) && held >= 1 && held <= config.consumer.prefetch);
      if (held === 1) return;
      const windowsBefore = Math.ceil(held / config.limit.maxRequests) - 1;
      assert.ok(windowsBefore * config.limit.windowMs <= LONGEST_HOLD_MS, "waits for the limit");
      const roundsBefore = Math.ceil(held / config.consumer.concurrency) - 1;
      assert.ok(roundsBefore * timeoutMs <= LONGEST_HOLD_MS, "waits for the backend");
    }),
  );
});
