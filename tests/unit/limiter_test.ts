/**
 * The limiter: who gets a slot when, and what each thing that can go wrong costs.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Config } from "../../src/config.ts";
import { HOLD_MS, LONGEST_WAITS } from "../../src/consumer/hold.ts";
import { createRateWindow } from "../../src/consumer/rate_window.ts";
import { FakeClock, settled } from "../support/fake_clock.ts";
import { aLimiter, LimiterWorld } from "../support/limiter_world.ts";

const FIXED: Config["limit"] = { maxRequests: 10, windowMs: 3_000, algorithm: "fixed-window" };
const SLIDING: Config["limit"] = { ...FIXED, algorithm: "sliding-window" };
const BOTH = [FIXED, SLIDING];

async function takeMany(world: LimiterWorld, count: number, latency?: number): Promise<void> {
  for (let n = 0; n < count; n++) await world.take(latency);
}

for (const limit of BOTH) {
  const { algorithm } = limit;

  Deno.test(`${algorithm}: a backlog at the start → exactly the limit at once, the rest in order`, async () => {
    const world = new LimiterWorld(limit);
    await takeMany(world, 25, 0);
    assert.equal(world.begun.length, 10);
    await world.clock.advance(2_999);
    assert.equal(world.begun.length, 10);
    await world.clock.advance(8);
    assert.equal(world.begun.length, 20);
    await world.clock.advance(3_007);
    assert.deepEqual(world.granted, Array.from({ length: 25 }, (_, n) => n));
  });

  Deno.test(`case 25: ${algorithm}, slots of failed attempts and of 5 s timeouts come back`, async () => {
    const world = new LimiterWorld(limit);
    // A refused connection begins its attempt when it has failed; a timeout, when it gives up.
    for (let n = 0; n < 100; n++) await world.take(n % 7 === 0 ? 5_000 : n % 3);
    await world.clock.advance(60_000);
    assert.equal(world.begun.length, 100);
    const before = world.begun.length;
    await takeMany(world, 30, 0);
    await world.clock.advance(2 * 3_006 + 2);
    assert.equal(world.begun.length - before, 30);
  });

  Deno.test(`case 26: ${algorithm}, killed and started again within the window → not spent twice`, async () => {
    const world = new LimiterWorld(limit);
    await takeMany(world, 7, 0);
    await world.clock.advance(1_000);
    await world.restart();
    await takeMany(world, 20, 0);
    assert.equal(world.begun.length, 10);
    await world.clock.advance(1_000);
    await world.restart();
    await takeMany(world, 20, 0);
    assert.equal(world.begun.length, 10);
    await world.clock.advance(10_000);
    assert.equal(world.begun.length, 30);
    assert.deepEqual(world.faults, []);
  });

  Deno.test(`${algorithm}: a reconnect while slots are out → they still count`, async () => {
    const world = new LimiterWorld(limit);
    await takeMany(world, 10);
    world.takeOver();
    await takeMany(world, 10, 0);
    assert.equal(world.granted.length, 10);
    world.beginAll();
    await world.clock.advance(2_999);
    assert.equal(world.begun.length, 10);
    await world.clock.advance(10);
    assert.equal(world.begun.length, 20);
  });

  Deno.test(`${algorithm}: connections that take seconds to open → never more than the limit out`, async () => {
    const world = new LimiterWorld(limit);
    await takeMany(world, 30);
    await world.clock.advance(60_000);
    assert.equal(world.granted.length, 10);
    world.beginAll();
    await world.clock.advance(3_007);
    assert.equal(world.granted.length, 20);
  });
}

Deno.test("case 24: 10 at the end of a window and 10 at the start of the next, sliding → never more than 10 in any 3 s", async () => {
  const world = new LimiterWorld(SLIDING);
  await world.clock.advance(2_990);
  await takeMany(world, 40, 0);
  await world.clock.advance(20);
  await takeMany(world, 10, 0);
  await world.clock.advance(20_000);
  assert.equal(world.begun.length, 50);
  assert.equal(world.busiest(), 10);
});

Deno.test("a wait until a moment that lasts → no later take-over makes it shorter", async () => {
  const world = new LimiterWorld(FIXED);
  const moment = world.clock.monotonic() + 3_000;
  world.takeOver(moment);
  world.takeOver(-Infinity);
  const taker = await world.take(0);
  await world.clock.advance(10_000);
  assert.equal(taker.grantedAt, moment);
});

Deno.test("case 27: 1 per hour → who would hold a delivery for longer than HOLD_MS is refused", async () => {
  const world = new LimiterWorld({ ...FIXED, maxRequests: 1, windowMs: 3_600_000 }, HOLD_MS);
  await world.take(0);
  const refused = [await world.take(0), await world.take(0)];
  assert.deepEqual(refused.map(({ state }) => state), ["refused", "refused"]);
  assert.equal(world.clock.sleeping, 0);
  await world.clock.advance(world.span - HOLD_MS);
  const near = await world.take(0);
  assert.equal(near.state, "waiting");
  await world.clock.advance(HOLD_MS + 1);
  assert.equal(near.state, "granted");
});

Deno.test("case 27: the slot becomes far away while others wait for it → they are refused then", async () => {
  const world = new LimiterWorld({ ...FIXED, maxRequests: 1, windowMs: 3_600_000 }, HOLD_MS);
  const first = await world.take();
  const second = await world.take(0);
  assert.equal(second.state, "waiting");
  world.begin(first);
  await settled();
  assert.equal(second.state, "refused");
});

Deno.test("a take-over into a long pause → all who wait are refused, none is granted", async () => {
  const world = new LimiterWorld(FIXED, HOLD_MS);
  await takeMany(world, 15, 0);
  world.takeOver(world.clock.monotonic() + HOLD_MS + 1);
  await settled();
  assert.deepEqual(world.takers.slice(10).map(({ state }) => state), Array(5).fill("refused"));
});

Deno.test("a take with an aborted signal → undefined, and no slot is spent", async () => {
  const world = new LimiterWorld(FIXED);
  for (let n = 0; n < 50; n++) {
    assert.equal(await world.limiter.take(AbortSignal.abort()), undefined);
  }
  await takeMany(world, 10, 0);
  assert.equal(world.begun.length, 10);
});

Deno.test("all who wait go away → no timer is left", async () => {
  const world = new LimiterWorld(FIXED);
  await takeMany(world, 12, 0);
  assert.equal(world.clock.sleeping, 1);
  for (const taker of world.takers) taker.abort();
  assert.equal(world.clock.sleeping, 0);
});

Deno.test("who comes while others wait does not overtake them at the moment of a free slot", async () => {
  const clock = new FakeClock();
  const window = createRateWindow({ ...FIXED, maxRequests: 1 }, [], clock.monotonic());
  const limiter = aLimiter(window, clock);
  const { signal } = new AbortController();
  (await limiter.take(signal))?.begin();
  const order: string[] = [];
  // Wakes at the moment at which the slot comes free, and before the limiter's own timer.
  const late = clock.sleep(3_006).then(() => limiter.take(signal)).then((slot) => {
    order.push("late");
    slot?.begin();
  });
  const early = limiter.take(signal).then((slot) => {
    order.push("early");
    slot?.begin();
  });
  await clock.advance(2 * 3_006);
  await Promise.all([early, late]);
  assert.deepEqual(order, ["early", "late"]);
});

Deno.test("begin() called twice → counts once", async () => {
  const sent: number[] = [];
  const clock = new FakeClock();
  const window = createRateWindow({ ...FIXED, maxRequests: 2 }, [], clock.monotonic());
  const limiter = aLimiter(window, clock, { record: (at) => sent.push(at) });
  const slot = await limiter.take(new AbortController().signal);
  slot?.begin();
  slot?.begin();
  assert.deepEqual(sent, [clock.now()]);
  assert.ok(await limiter.take(new AbortController().signal));
});

Deno.test("the send log can't be written → begin() throws, and the others still get their slots", async () => {
  const clock = new FakeClock();
  const record = (): void => {
    throw new Error("disk on fire");
  };
  const window = createRateWindow({ ...FIXED, maxRequests: 1 }, [], clock.monotonic());
  const limiter = aLimiter(window, clock, { record });
  const { signal } = new AbortController();
  const slot = await limiter.take(signal);
  const next = limiter.take(signal);
  assert.throws(() => slot?.begin(), /disk on fire/);
  await clock.advance(3_006);
  assert.ok(await Promise.race([next, settled()]));
});

Deno.test("a backlog of 1000 → the limiter sleeps about once a window, not once a task", async () => {
  const world = new LimiterWorld(FIXED);
  let sleeps = 0;
  const { sleep } = world.clock;
  world.clock.sleep = (ms, signal) => {
    sleeps++;
    return sleep.call(world.clock, ms, signal);
  };
  await takeMany(world, 1_000, 0);
  const asked = sleeps;
  await world.clock.advance(50 * 3_007);
  assert.ok(world.begun.length >= 500);
  assert.ok(sleeps - asked <= 50 * 11, `${sleeps - asked} sleeps`);
  for (const taker of world.takers) taker.abort();
});

Deno.test("the gate closes while slots are out → they don't begin, cost nothing, and all go when it opens", async () => {
  const clock = new FakeClock();
  const limiter = aLimiter(createRateWindow(FIXED, [], clock.monotonic()), clock);
  const { signal } = new AbortController();
  const [told, waits] = [await limiter.take(signal), await limiter.take(signal)];
  assert.equal(told?.begin(), true);
  told?.end({ unreached: false, retryAfterMs: 5_000 });
  assert.equal(waits?.begin(), false);
  assert.equal(limiter.freeAt(), clock.monotonic() + 5_000);
  const next = Promise.all(Array.from({ length: 9 }, () => limiter.take(signal)));
  let granted = false;
  next.then(() => granted = true);
  await clock.advance(4_999);
  assert.equal(granted, false);
  await clock.advance(1);
  assert.deepEqual((await next).map((slot) => slot?.begin()), Array(9).fill(true));
});

Deno.test("a gate that stays closed for a minute at a time → who has waited for three is refused", async () => {
  const clock = new FakeClock();
  const window = createRateWindow(FIXED, [], clock.monotonic());
  const limiter = aLimiter(window, clock, { record: () => {} }, LONGEST_WAITS);
  const { signal } = new AbortController();
  const closer = await limiter.take(signal);
  closer?.end({ unreached: false, retryAfterMs: 60_001 });
  const began = clock.monotonic();
  let refusedAt: number | undefined;
  limiter.take(signal).then((slot) =>
    refusedAt = slot === undefined ? clock.monotonic() : undefined
  );
  for (let minute = 0; minute < 5; minute++) {
    closer?.end({ unreached: false, retryAfterMs: 60_001 });
    await clock.advance(60_000);
  }
  assert.equal(refusedAt, began + LONGEST_WAITS.altogether);
});

Deno.test("standing → what began in the window, and what is under way until it ends", async () => {
  const clock = new FakeClock();
  const limiter = aLimiter(createRateWindow(FIXED, [], clock.monotonic()), clock);
  const { signal } = new AbortController();
  const slots = [
    await limiter.take(signal),
    await limiter.take(signal),
    await limiter.take(signal),
  ];
  assert.deepEqual(limiter.standing(), { used: 0, inFlight: 0 });
  slots[0]?.begin();
  slots[1]?.begin();
  slots[2]?.release();
  assert.deepEqual(limiter.standing(), { used: 2, inFlight: 2 });
  slots[0]?.end({ unreached: false });
  assert.deepEqual(limiter.standing(), { used: 2, inFlight: 1 });
  await clock.advance(4_000);
  slots[1]?.end({ unreached: false });
  assert.deepEqual(limiter.standing(), { used: 0, inFlight: 0 });
});

Deno.test("standing: a request that could not be written has been one as well", async () => {
  const clock = new FakeClock();
  const limiter = aLimiter(createRateWindow(FIXED, [], clock.monotonic()), clock);
  const slot = await limiter.take(new AbortController().signal);
  slot?.end({ unreached: true });
  assert.deepEqual(limiter.standing(), { used: 1, inFlight: 0 });
});
