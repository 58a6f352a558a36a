/**
 * The limiter under whatever may happen around it: what it promises, for any order of events.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import type { Config } from "../../src/config.ts";
import { LimiterWorld } from "../support/limiter_world.ts";

type Event =
  | { readonly kind: "take"; readonly latency: number | undefined }
  | { readonly kind: "advance"; readonly ms: number }
  | { readonly kind: "abort"; readonly which: number }
  | { readonly kind: "begin" }
  | { readonly kind: "takeOver"; readonly pauseMs: number }
  | { readonly kind: "restart" };

const WINDOW_MS = 100;

/** No latency and no pause in a story is longer, milliseconds. */
const LONGEST_WAIT_MS = 3 * WINDOW_MS;

const anyLimit: fc.Arbitrary<Config["limit"]> = fc.record({
  maxRequests: fc.integer({ min: 1, max: 5 }),
  windowMs: fc.constantFrom(WINDOW_MS, WINDOW_MS / 3, 7),
  algorithm: fc.constantFrom("fixed-window", "sliding-window"),
});

const anyTake: fc.Arbitrary<Event> = fc.record({
  kind: fc.constant("take"),
  latency: fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: LONGEST_WAIT_MS }) },
    { weight: 1, arbitrary: fc.constant(undefined) },
  ),
});

const anyPassing: fc.Arbitrary<Event> = fc.record({
  kind: fc.constant("advance"),
  ms: fc.oneof(fc.constantFrom(0, 1, WINDOW_MS), fc.double({ min: 0, max: 150, noNaN: true })),
});

const anyOther: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ kind: fc.constant("abort" as const), which: fc.nat(20) }),
  fc.record({ kind: fc.constant("begin" as const) }),
  fc.record({
    kind: fc.constant("takeOver" as const),
    pauseMs: fc.constantFrom(0, 50, LONGEST_WAIT_MS),
  }),
  fc.record({ kind: fc.constant("restart" as const) }),
);

const anyStory = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: anyTake },
    { weight: 3, arbitrary: anyPassing },
    { weight: 2, arbitrary: anyOther },
  ),
  { minLength: 5, maxLength: 60, size: "max" },
);

async function happen(world: LimiterWorld, event: Event): Promise<void> {
  switch (event.kind) {
    case "take":
      return void await world.take(event.latency);
    case "advance":
      return await world.clock.advance(event.ms);
    case "abort":
      return world.takers[event.which]?.abort();
    case "begin":
      return world.beginAll();
    case "takeOver":
      return world.takeOver(world.clock.monotonic() + event.pauseMs);
    case "restart":
      return await world.restart();
  }
}

/** Lets everybody begin, and time pass until nobody can be waiting any more. */
async function end(world: LimiterWorld): Promise<void> {
  for (let turn = 0; turn <= world.takers.length + 1; turn++) {
    world.beginAll();
    await world.clock.advance(LONGEST_WAIT_MS + Math.ceil(world.span) + 1);
  }
}

Deno.test("limiter: whatever happens, the window holds, nobody overtakes, nobody is stuck", async () => {
  await fc.assert(
    fc.asyncProperty(anyLimit, anyStory, async (limit, story) => {
      const world = new LimiterWorld(limit);
      for (const event of story) await happen(world, event);
      await end(world);
      assert.deepEqual(world.faults, []);
      const { algorithm, maxRequests } = limit;
      const most = algorithm === "sliding-window" ? maxRequests : 2 * maxRequests;
      assert.ok(world.busiest() <= most, `${world.busiest()} in a trailing window`);
      assert.deepEqual(world.granted, world.granted.toSorted((a, b) => a - b), "not in order");
      assert.deepEqual(world.takers.filter(({ state }) => state === "waiting"), [], "stuck");
      assert.equal(world.clock.sleeping, 0, "a timer was left");
    }),
    { numRuns: 1000 },
  );
});

Deno.test("limiter: takes that are aborted while they wait cost the others nothing", async () => {
  await fc.assert(
    fc.asyncProperty(
      anyLimit,
      fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }),
      async (limit, stays) => {
        const grants = async (takes: readonly boolean[]): Promise<(number | undefined)[]> => {
          const world = new LimiterWorld(limit);
          for (let spent = 0; spent < limit.maxRequests; spent++) await world.take(0);
          const waiting = [];
          for (const stay of takes) waiting.push({ taker: await world.take(0), stay });
          for (const { taker, stay } of waiting) if (!stay) taker.abort();
          await end(world);
          return waiting.filter(({ stay }) => stay).map(({ taker }) => taker.grantedAt);
        };
        assert.deepEqual(await grants(stays), await grants(stays.filter((stay) => stay)));
      },
    ),
    { numRuns: 100 },
  );
});

Deno.test("case 25: a steady backlog → every window full, at least 99 % of the slots used", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        maxRequests: fc.integer({ min: 1, max: 20 }),
        windowMs: fc.integer({ min: 1_000, max: 60_000 }),
        algorithm: fc.constantFrom("fixed-window" as const, "sliding-window" as const),
      }),
      async (limit) => {
        const world = new LimiterWorld(limit);
        const backlog = 30 * limit.maxRequests;
        for (let taker = 0; taker < backlog; taker++) await world.take(0);
        const windows = 20;
        await world.clock.advance(windows * limit.windowMs);
        const possible = windows * limit.maxRequests;
        assert.ok(world.begun.length >= 0.99 * possible, `${world.begun.length} of ${possible}`);
        assert.ok(world.begun.length <= possible + limit.maxRequests);
        for (const taker of world.takers) taker.abort();
        await world.clock.advance(0);
      },
    ),
    { numRuns: 30 },
  );
});
