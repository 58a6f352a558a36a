/**
 * The gate's state, over every order of events: who may ask the backend, and when.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import {
  abandonProbe,
  closedUntil,
  enter,
  hear,
  OPEN,
  opensAt,
  standingOf,
} from "../../src/consumer/gate.ts";
import type { GateRules, GateState, Signal } from "../../src/consumer/gate.ts";

const RULES: GateRules = {
  limit: { maxRequests: 10, windowMs: 3_000, algorithm: "fixed-window" },
  breakerFailures: 3,
};
const FAILED: Signal = { unreached: true };
const ANSWERED: Signal = { unreached: false };

/** Requests that come, end and are given up, at one gate; and what went against the rules. */
class GateWorld {
  state: GateState = OPEN;
  now = 0;
  /** For the lengths of pauses. */
  random = 0.5;
  readonly entered: number[] = [];
  readonly #inFlight: { readonly probe: boolean }[] = [];

  constructor(readonly rules: GateRules = RULES) {}

  get opensAt(): number {
    return opensAt(this.state, this.rules);
  }

  get probes(): number {
    return this.#inFlight.filter(({ probe }) => probe).length;
  }

  get inFlight(): number {
    return this.#inFlight.length;
  }

  /** A request enters if it may. */
  enter(): boolean {
    if (this.opensAt > this.now) return false;
    this.#inFlight.push({ probe: this.state.reach.kind === "pausing" });
    this.state = enter(this.state, this.rules, this.now);
    this.entered.push(this.now);
    return true;
  }

  /** One of the requests ends so; the probe first if `probeFirst`. */
  end(signal: Signal, probeFirst = true): void {
    const probeAt = this.#inFlight.findIndex(({ probe }) => probe === probeFirst);
    const [request] = this.#inFlight.splice(Math.max(0, probeAt), 1);
    if (request === undefined) return;
    const { now, random } = this;
    this.state = hear(this.state, { signal, probe: request.probe, now, random }, this.rules);
  }

  /** The probe is given up before it is written. */
  abandon(): void {
    const at = this.#inFlight.findIndex(({ probe }) => probe);
    if (at < 0) return;
    this.#inFlight.splice(at, 1);
    this.state = abandonProbe(this.state, this.now);
  }

  /** Fails until the gate closes. */
  trip(): void {
    for (let n = 0; n < this.rules.breakerFailures; n++) {
      assert.ok(this.enter());
      this.end(FAILED);
    }
  }

  /** Waits until somebody may enter, and lets one enter. */
  enterNext(): void {
    this.now = Math.max(this.now, this.opensAt);
    assert.ok(this.enter());
  }
}

Deno.test("Retry-After closes the gate for everybody, until the latest moment that was asked for", () => {
  const world = new GateWorld();
  for (let n = 0; n < 3; n++) assert.ok(world.enter());
  world.end({ ...ANSWERED, retryAfterMs: 5_000 });
  world.now = 1_000;
  world.end({ ...ANSWERED, retryAfterMs: 1_000 });
  assert.equal(world.opensAt, 5_000);
  assert.equal(closedUntil(world.state), 5_000);
  world.end({ ...ANSWERED, retryAfterMs: 6_000 });
  assert.equal(world.opensAt, 7_000);
  world.now = 7_000;
  for (let n = 0; n < 20; n++) assert.ok(world.enter(), "the limit is the limiter's");
});

Deno.test("failures in a row close the gate; an answer between them starts the count anew", () => {
  const world = new GateWorld();
  for (const signal of [FAILED, FAILED, ANSWERED, FAILED, FAILED]) {
    assert.ok(world.enter());
    world.end(signal);
  }
  assert.ok(world.opensAt <= 0);
  assert.ok(world.enter());
  world.end(FAILED);
  assert.equal(world.opensAt, 500, "half of the first second");
});

Deno.test("BREAKER_FAILURES=0 → failures never close the gate", () => {
  const world = new GateWorld({ ...RULES, breakerFailures: 0 });
  for (let n = 0; n < 100; n++) {
    assert.ok(world.enter());
    world.end(FAILED);
  }
});

Deno.test("pauses double from 1 s to 60 s, with full jitter, and are over with the backend's answer", () => {
  const world = new GateWorld();
  world.random = 0.999_999;
  world.trip();
  const pauses: number[] = [];
  for (let n = 0; n < 9; n++) {
    pauses.push(Math.round((world.opensAt - world.now) / 1000));
    world.enterNext();
    assert.equal(world.opensAt, Infinity, "one probe at a time");
    world.end(FAILED);
  }
  assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
  world.enterNext();
  world.end(ANSWERED);
  world.now += 5 * RULES.limit.windowMs;
  world.trip();
  assert.equal(Math.round(world.opensAt - world.now), 1_000);
});

Deno.test("what was in flight when the gate closed neither opens it nor makes the pause longer", () => {
  const world = new GateWorld();
  for (let n = 0; n < 8; n++) assert.ok(world.enter());
  for (let n = 0; n < 3; n++) world.end(FAILED);
  const opens = world.opensAt;
  world.now = 100;
  world.end(FAILED);
  world.end(ANSWERED);
  assert.equal(world.opensAt, opens);
  world.enterNext();
  world.end(ANSWERED, false);
  assert.equal(world.opensAt, Infinity, "only the probe's answer counts");
  world.end(ANSWERED);
  assert.ok(world.opensAt < Infinity);
});

Deno.test("a probe that is given up → the next may probe at once", () => {
  const world = new GateWorld();
  world.trip();
  world.enterNext();
  world.abandon();
  assert.ok(world.enter());
  assert.equal(world.opensAt, Infinity);
});

Deno.test("after a probe's answer the rate rises evenly to the limit over five windows", () => {
  const world = new GateWorld();
  world.trip();
  world.enterNext();
  world.end(ANSWERED);
  const since = world.now;
  const perWindow = [0, 0, 0, 0, 0];
  while (true) {
    world.now = Math.max(world.now, world.opensAt);
    const window = Math.floor((world.now - since) / RULES.limit.windowMs);
    if (window >= 5) break;
    assert.ok(world.enter());
    world.end(ANSWERED);
    perWindow[window]!++;
  }
  assert.deepEqual(perWindow, [1, 3, 5, 7, 9]);
  for (let n = 0; n < 30; n++) assert.ok(world.enter(), "from here on only the limiter decides");
});

Deno.test("failures while the rate rises close the gate again, for a longer pause", () => {
  const world = new GateWorld();
  world.random = 0.999_999;
  world.trip();
  world.enterNext();
  world.end(ANSWERED);
  for (let n = 0; n < RULES.breakerFailures; n++) {
    world.enterNext();
    world.end(FAILED);
  }
  assert.equal(Math.round(world.opensAt - world.now), 2_000);
});

type Event =
  | { readonly kind: "pass"; readonly ms: number }
  | { readonly kind: "enter" | "abandon" }
  | { readonly kind: "end"; readonly signal: Signal; readonly probeFirst: boolean };

const signal: fc.Arbitrary<Signal> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ unreached: fc.boolean() }) },
  fc.record({ unreached: fc.boolean(), retryAfterMs: fc.nat({ max: 20_000 }) }),
);
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ kind: fc.constant("pass" as const), ms: fc.nat({ max: 5_000 }) }),
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("enter" as const) }) },
  fc.record({ kind: fc.constant("abandon" as const) }),
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("end" as const), signal, probeFirst: fc.boolean() }),
  },
);
const rules: fc.Arbitrary<GateRules> = fc.record({
  limit: fc.record({
    maxRequests: fc.integer({ min: 1, max: 50 }),
    windowMs: fc.integer({ min: 1, max: 10_000 }),
    algorithm: fc.constant("fixed-window" as const),
  }),
  breakerFailures: fc.nat({ max: 5 }),
});

function play(world: GateWorld, event: Event): void {
  switch (event.kind) {
    case "pass":
      world.now += event.ms;
      break;
    case "enter":
      world.enter();
      break;
    case "abandon":
      world.abandon();
      break;
    case "end":
      world.end(event.signal, event.probeFirst);
  }
}

Deno.test("whatever happens: nobody enters before the backend's moment, one probe at most, and it opens again", () => {
  fc.assert(
    fc.property(rules, fc.array(event, { maxLength: 80 }), (rules, events) => {
      const world = new GateWorld(rules);
      let askedUntil = -Infinity;
      for (const event of events) {
        const before = world.entered.length;
        const inFlight = world.inFlight;
        play(world, event);
        if (world.entered.length > before) assert.ok(world.now >= askedUntil);
        if (event.kind === "end" && inFlight > 0 && event.signal.retryAfterMs !== undefined) {
          askedUntil = Math.max(askedUntil, world.now + event.signal.retryAfterMs);
        }
        assert.ok(world.probes <= 1);
        const probing = world.state.reach.kind === "probing";
        assert.equal(probing, world.probes === 1, "closed for a probe only while there is one");
        assert.ok(opensAt(world.state, rules) >= closedUntil(world.state));
        if (rules.breakerFailures === 0) assert.equal(world.state.reach.kind, "reached");
      }
      // Without further bad news everybody gets in, in bounded time.
      while (world.inFlight > 0) world.end(ANSWERED);
      assert.ok(world.opensAt <= world.now + 60_000 + 20_000 + 5 * rules.limit.windowMs);
      world.enterNext();
      world.end(ANSWERED);
      world.now += 5 * rules.limit.windowMs;
      assert.ok(world.enter());
    }),
    { numRuns: 5_000 },
  );
});

Deno.test("whatever happens: while the rate rises no more enter than the line allows", () => {
  fc.assert(
    fc.property(rules, fc.array(fc.nat({ max: 500 }), { maxLength: 100 }), (rules, pauses) => {
      const world = new GateWorld({ ...rules, breakerFailures: 1 });
      world.trip();
      world.enterNext();
      world.end(ANSWERED);
      const { now: since } = world;
      const { maxRequests, windowMs } = rules.limit;
      let entered = 0;
      for (const ms of pauses) {
        world.now += ms;
        if (world.now >= since + 5 * windowMs) return;
        if (!world.enter()) continue;
        world.end(ANSWERED);
        const t = world.now - since;
        assert.ok(entered++ <= (maxRequests * t ** 2) / (10 * windowMs ** 2) + 1e-6);
      }
    }),
  );
});

Deno.test("standing: from reached over the pause, the probe and the rise to reached again", () => {
  const { windowMs } = RULES.limit;
  const at = (reach: GateState["reach"], now: number, askedUntil = -Infinity) =>
    standingOf({ askedUntil, reach }, RULES, now);
  const open = { state: "open", reason: null, until: null };
  assert.deepEqual(at({ kind: "reached", failures: 2 }, 0), open);
  const pausing = { kind: "pausing", until: 500, trips: 1 } as const;
  const closed = { state: "closed", reason: "breaker", until: 500 };
  assert.deepEqual(at(pausing, 499), closed);
  const probing = { state: "probing", reason: "breaker", until: null };
  assert.deepEqual(at(pausing, 500), probing, "the next request will try");
  assert.deepEqual(at({ kind: "probing", trips: 1 }, 600), probing);
  const rising = { kind: "rising", since: 700, entered: 3, failures: 0, trips: 1 } as const;
  assert.deepEqual(at(rising, 701), { ...open, state: "rising" });
  assert.deepEqual(at(rising, 700 + 5 * windowMs), open, "the rise is over");
});

Deno.test("standing: closed by the backend and by the breaker → by what lasts longer", () => {
  const pausing = { kind: "pausing", until: 500, trips: 1 } as const;
  const asked = (askedUntil: number) => standingOf({ askedUntil, reach: pausing }, RULES, 0);
  assert.deepEqual(asked(400), { state: "closed", reason: "breaker", until: 500 });
  assert.deepEqual(asked(600), { state: "closed", reason: "retry_after", until: 600 });
  const later = standingOf({ askedUntil: 600, reach: pausing }, RULES, 550);
  assert.deepEqual(later, { state: "closed", reason: "retry_after", until: 600 });
});
