/**
 * Limiters as the consumer opens them, on the machine's own clock: one by itself, or several replicas
 * that share a Redis; and somebody who asks them, begins, and notes when.
 *
 * A beginning is noted right before it is made. So what a limiter must not allow too early is never
 * noted as later than it was, on however busy a machine.
 *
 * @module
 */

import assert from "node:assert/strict";
import { systemClock } from "../../src/clock.ts";
import type { Config } from "../../src/config.ts";
import { type Limit, openLimit } from "../../src/consumer/limit.ts";
import type { Slot } from "../../src/consumer/waiting_line.ts";
import { uniquePrefix } from "./environment.ts";
import { STEADY } from "./limiter_world.ts";

/** What the backend answers who has nothing to say. */
export const WELL = { unreached: false } as const;

/** What the limits are opened with. */
export interface LimitOptions {
  readonly limit: Config["limit"];
  readonly breakerFailures?: number;
  readonly timeoutMs?: number;
  /** Absent: a limit of its own. */
  readonly redisUrl?: string;
}

/** Runs `fn` with a limit, and closes it. */
export async function withLimit(
  options: LimitOptions,
  fn: (limit: Limit) => Promise<void>,
): Promise<void> {
  await withHome(options, async (open) => {
    const limit = open();
    await fn(limit).finally(() => limit.close());
  });
}

/** Runs `fn` with the limits of three replicas, which are one in Redis, and closes them. */
export async function withReplicas(
  options: LimitOptions & { readonly redisUrl: string },
  fn: (limits: readonly [Limit, Limit, Limit]) => Promise<void>,
): Promise<void> {
  await withHome(options, async (open) => {
    const limits = [open(), open(), open()] as const;
    await fn(limits).finally(() => Promise.all(limits.map((limit) => limit.close())));
  });
}

async function withHome(
  { limit, breakerFailures = 0, timeoutMs = 1_000, redisUrl }: LimitOptions,
  fn: (open: () => Limit) => Promise<void>,
): Promise<void> {
  const dataDir = await Deno.makeTempDir({ prefix: "queue-relay-limit-" });
  const config = {
    ...{ limit, breakerFailures, dataDir },
    queues: { prefix: uniquePrefix(), type: "quorum", singleActiveConsumer: true } as const,
    backend: { timeoutMs, retryAfterMaxMs: 3_600_000 },
    ...(redisUrl !== undefined && { redisUrl }),
  };
  const surroundings = { pulse: STEADY, clock: systemClock, firstEver: true };
  await fn(() => openLimit(config, surroundings))
    .finally(() => Deno.remove(dataDir, { recursive: true }));
}

/** A slot that surely comes. */
export async function take({ limiter }: Pick<Limit, "limiter">): Promise<Slot> {
  const slot = await limiter.take(new AbortController().signal);
  assert.ok(slot, "refused");
  return slot;
}

/** Takes so many slots at once. */
export function takeMany(limit: Limit, count: number): Promise<Slot[]> {
  return Promise.all(Array.from({ length: count }, () => take(limit)));
}

/** Begins, and gives the moment right before it (monotonic ms). */
export function begin(slot: Slot): number {
  const at = performance.now();
  assert.ok(slot.begin(), "not allowed to begin");
  return at;
}

/** Takes a slot and makes a request that is answered at once; gives the moment of its beginning. */
export async function ask(limit: Limit): Promise<number> {
  const slot = await take(limit);
  const at = begin(slot);
  slot.end(WELL);
  return at;
}
