/**
 * The loop: what is begun when, and where each delivery goes in the end.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Config } from "../../src/config.ts";
import { SUSPECT_AFTER, SUSPECT_WAITS_MS } from "../../src/consumer/waiting_room.ts";
import { settled } from "../support/fake_clock.ts";
import { FakeSubscription } from "../support/fake_deliveries.ts";
import { ENDED, fill, LoopBench, WIDE } from "../support/loop_bench.ts";

const HOURLY: Config["limit"] = { ...WIDE, maxRequests: 1, windowMs: 3_600_000 };
const HOUR_MS = 3_600_000 * 1.002;

Deno.test("more deliveries than CONCURRENCY → so many in flight, the next when one is over, in order", async () => {
  const bench = new LoopBench(WIDE, 2);
  await fill(bench, 4);
  assert.deepEqual(bench.inFlight, ["t1", "t2"]);
  await bench.answer("t2");
  assert.deepEqual(bench.inFlight, ["t1", "t3"]);
  await bench.answer("t1");
  await bench.answer("t3");
  await bench.answer("t4");
  assert.deepEqual(bench.places(), ["done", "done", "done", "done"]);
});

Deno.test("CONCURRENCY: a task is in flight until its next hop is confirmed", async () => {
  const bench = new LoopBench(WIDE, 1);
  const { promise: confirmed, resolve: confirm } = Promise.withResolvers<void>();
  await bench.deliver("t1", { confirmed });
  await bench.deliver("t2");
  await bench.answer("t1", ENDED);
  assert.deepEqual(bench.inFlight, []);
  confirm();
  await settled();
  assert.deepEqual(bench.inFlight, ["t2"]);
  await bench.answer("t2");
});

Deno.test("a failed attempt → the next rung; the last one → the failed queue", async () => {
  const bench = new LoopBench();
  await bench.deliver("t1", { task: { attempt: 1 } });
  await bench.deliver("t2", { task: { attempt: 2 } });
  await bench.answer("t1", { kind: "status", status: 500, text: "" });
  await bench.answer("t2", ENDED);
  assert.deepEqual(bench.places(), ["rung 3000", "failed: attempts_exhausted"]);
});

Deno.test("case 14: an invalid message, and an attempt beyond the ladder → failed without a request", async () => {
  const bench = new LoopBench();
  await bench.deliver("t1", { problem: "not JSON" });
  await bench.deliver("t2", { task: { attempt: 3 } });
  assert.deepEqual(bench.places(), ["failed: invalid_message", "failed: attempts_exhausted"]);
  assert.deepEqual(bench.events, ["take-over t1"]);
});

Deno.test("each subscription → one take-over, before anything of it begins", async () => {
  const bench = new LoopBench();
  await fill(bench, 2);
  bench.subscription.lose();
  await bench.deliver("t3", { subscription: new FakeSubscription() });
  assert.deepEqual(bench.events, [
    "take-over t1",
    "begin t1",
    "begin t2",
    "take-over t3",
    "begin t3",
  ]);
  for (const id of ["t1", "t2", "t3"]) await bench.answer(id);
});

Deno.test("the subscription is lost → what waits for a slot or its turn is never sent", async () => {
  const bench = new LoopBench({ ...WIDE, maxRequests: 1 }, 2);
  await fill(bench, 3); // in flight, waits for a slot, waits for its turn
  bench.subscription.lose();
  await settled();
  await bench.answer("t1");
  await bench.clock.advance(10_000);
  assert.deepEqual(bench.events, ["take-over t1", "begin t1"]);
  await bench.deliver("t2 again", { subscription: new FakeSubscription() });
  await bench.answer("t2 again");
});

Deno.test("deliveries of a lost subscription wait their turn when the next one begins → only the new are sent", async () => {
  const bench = new LoopBench(WIDE, 1);
  await fill(bench, 3);
  bench.subscription.lose();
  await bench.deliver("t2 again", { subscription: new FakeSubscription() });
  await bench.answer("t1");
  assert.deepEqual(bench.inFlight, ["t2 again"]);
  await bench.answer("t2 again");
  assert.deepEqual(bench.inFlight, []);
});

Deno.test("case 25: refused connections → each spends its slot, none is lost for ever", async () => {
  const bench = new LoopBench({ ...WIDE, maxRequests: 2 });
  bench.connects = false;
  await fill(bench, 7);
  const made = (): number => bench.places().filter((to) => to === "rung 3000").length;
  assert.equal(made(), 2);
  await bench.clock.advance(1_002);
  assert.equal(made(), 4);
  await bench.clock.advance(2 * 1_004);
  assert.equal(made(), 7);
});

Deno.test("stop → what has not begun goes back to the front, what has is ended first", async () => {
  const bench = new LoopBench({ ...WIDE, maxRequests: 2 }, 3);
  await fill(bench, 5); // two in flight, one waits for a slot, two for their turn
  const stopped = bench.loop.stop(20_000).then(() => bench.events.push("stopped"));
  await settled();
  assert.deepEqual(bench.places(), ["", "", "front", "front", "front"]);
  await bench.answer("t1");
  await bench.answer("t2", ENDED);
  await stopped;
  assert.deepEqual(bench.places().slice(0, 2), ["done", "rung 3000"]);
  assert.deepEqual(bench.events, ["take-over t1", "begin t1", "begin t2", "stopped"]);
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("stop, and a request outlasts the grace → cut off, left unsettled for the broker", async () => {
  const bench = new LoopBench();
  await fill(bench, 1);
  const stopped = bench.loop.stop(20_000);
  await bench.clock.advance(19_999);
  assert.deepEqual(bench.inFlight, ["t1"]);
  await bench.clock.advance(1);
  await stopped;
  assert.deepEqual(bench.places(), [""]);
});

Deno.test("a delivery that comes after stop → back to the front", async () => {
  const bench = new LoopBench();
  await bench.loop.stop(0);
  await bench.deliver("t1");
  await bench.deliver("t2", { problem: "not JSON" });
  assert.deepEqual(bench.places(), ["front", "front"]);
});

Deno.test("case 27: 1 per hour, 20 deliveries → one is sent, the rest go back for an hour, the consumer pauses", async () => {
  const bench = new LoopBench(HOURLY, 20);
  await fill(bench, 20);
  await bench.answer("t1");
  const later = `later ${HOUR_MS}`;
  assert.deepEqual(bench.places(), ["done", ...Array(19).fill(later)]);
  assert.deepEqual(bench.events, ["take-over t1", "begin t1", "suspend"]);
});

Deno.test("case 27: a delivery that was on its way while the consumer was suspended → back as well", async () => {
  const bench = new LoopBench(HOURLY);
  await fill(bench, 2);
  await bench.clock.advance(1_000);
  await bench.deliver("t3");
  await bench.deliver("t4", { problem: "not JSON" });
  assert.deepEqual(bench.places().slice(2), [`later ${HOUR_MS - 1_000}`, "front"]);
  await bench.answer("t1");
});

Deno.test("case 27: the hour is over → the consumer goes on, and no attempt was spent", async () => {
  const bench = new LoopBench(HOURLY);
  await fill(bench, 2);
  await bench.answer("t1");
  await bench.clock.advance(HOUR_MS - 1);
  assert.equal(bench.events.at(-1), "suspend");
  await bench.clock.advance(1);
  assert.equal(bench.events.at(-1), "resume");
  const returned = bench.deliveries[1]?.settlements[0];
  assert.ok(returned?.to === "later" && returned.task.attempt === 1);
  await bench.deliver("t2 again");
  assert.deepEqual(bench.inFlight, ["t2 again"]);
  await bench.answer("t2 again");
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("case 27: stopped while suspended → no timer of an hour is left", async () => {
  const bench = new LoopBench(HOURLY);
  await fill(bench, 2);
  await bench.answer("t1");
  await bench.loop.stop(1_000);
  assert.equal(bench.clock.sleeping, 0);
  assert.ok(!bench.events.includes("resume"));
});

Deno.test("paused → what is in flight ends, the rest goes back unchanged, nothing begins; resumed → it goes on", async () => {
  const bench = new LoopBench({ ...WIDE, maxRequests: 1 }, 2);
  await fill(bench, 3); // in flight, waits for a slot, waits for its turn
  bench.loop.setPaused(true);
  await settled();
  assert.deepEqual(bench.places(), ["", "later 1000", "later 1000"]);
  await bench.deliver("t4"); // was on its way
  assert.deepEqual(bench.places().at(-1), "later 1000");
  const returned = bench.deliveries[1]?.settlements[0];
  assert.ok(returned?.to === "later" && returned.task.attempt === 1);

  bench.loop.setPaused(false);
  await settled();
  assert.equal(bench.events.at(-1), "suspend", "its channel is still needed");
  await bench.answer("t1");
  assert.deepEqual(bench.events, ["take-over t1", "begin t1", "suspend", "resume"]);
  assert.equal(bench.places()[0], "done");
  await bench.clock.advance(1_002);
  await bench.deliver("t2 again", { subscription: new FakeSubscription() });
  assert.deepEqual(bench.inFlight, ["t2 again"]);
  await bench.answer("t2 again");
});

Deno.test("paused by another relay while this one stood by → found at the first delivery, and nothing begins", async () => {
  const bench = new LoopBench();
  bench.paused = true;
  await fill(bench, 2);
  assert.deepEqual(bench.events, ["take-over t1", "suspend"]);
  assert.deepEqual(bench.places(), ["later 1000", "later 1000"]);
  bench.paused = false;
  bench.loop.setPaused(false);
  await bench.deliver("t1 again", { subscription: new FakeSubscription() });
  assert.deepEqual(bench.inFlight, ["t1 again"]);
  await bench.answer("t1 again");
});

Deno.test("paused and resumed at once → what was on its way meanwhile goes back, and nothing is suspended for it", async () => {
  const bench = new LoopBench();
  await fill(bench, 1);
  await bench.answer("t1");
  bench.loop.setPaused(true);
  bench.loop.setPaused(false);
  await settled();
  await bench.deliver("t2"); // of the subscription that was cancelled
  assert.equal(bench.places()[1], "later 1000");
  assert.deepEqual(bench.events, ["take-over t1", "begin t1", "suspend", "resume"]);
  await bench.deliver("t2 again", { subscription: new FakeSubscription() });
  await bench.answer("t2 again");
});

Deno.test("paused while suspended, and the other way round → goes on only when both are over", async () => {
  const bench = new LoopBench(HOURLY);
  await fill(bench, 2);
  await bench.answer("t1");
  bench.loop.setPaused(true);
  await bench.clock.advance(HOUR_MS);
  assert.ok(!bench.events.includes("resume"), "the hour is over, the pause is not");
  bench.loop.setPaused(false);
  await settled();
  assert.equal(bench.events.at(-1), "resume");

  await bench.deliver("t2", { subscription: new FakeSubscription() });
  await bench.deliver("t3"); // no slot for an hour
  await bench.answer("t2");
  const before = bench.events.length;
  bench.loop.setPaused(true);
  bench.loop.setPaused(false);
  await settled();
  assert.ok(!bench.events.slice(before).includes("resume"), "resumed, but there is no slot");
  await bench.clock.advance(HOUR_MS);
  assert.equal(bench.events.at(-1), "resume");
});

Deno.test("case 15: a delivery that came back three times → handled alone, after the others", async () => {
  const bench = new LoopBench();
  await bench.deliver("t1", { deliveriesBefore: SUSPECT_AFTER });
  await bench.deliver("t2");
  await bench.clock.advance(SUSPECT_WAITS_MS);
  assert.deepEqual(bench.inFlight, ["t2"]);
  await bench.answer("t2");
  assert.deepEqual(bench.inFlight, ["t1"]);
  await bench.deliver("t3");
  assert.deepEqual(bench.inFlight, ["t1"], "nothing starts beside a suspect");
  await bench.answer("t1");
  assert.deepEqual(bench.inFlight, ["t3"]);
  await bench.answer("t3");
});

Deno.test("case 15: several suspects → one after the other, each to its end", async () => {
  const bench = new LoopBench();
  for (let n = 1; n <= 5; n++) await bench.deliver(`t${n}`, { deliveriesBefore: SUSPECT_AFTER });
  await bench.clock.advance(SUSPECT_WAITS_MS);
  for (let n = 1; n <= 5; n++) {
    assert.equal(bench.inFlight.length, 1);
    await bench.answer(String(bench.inFlight[0]));
  }
  assert.deepEqual(bench.places(), Array(5).fill("done"));
});

Deno.test("the backend can't be reached for long → one request a pause, and nothing is held for more than three minutes", async () => {
  const bench = new LoopBench(WIDE, 40, 1);
  bench.connects = false;
  await fill(bench, 40);
  const attempts = (): number => bench.places().filter((to) => to === "rung 3000").length;
  const first = attempts();
  for (let minute = 0; minute < 3; minute++) await bench.clock.advance(60_000);
  assert.ok(attempts() > first, "it is tried again");
  assert.ok(bench.events.includes("suspend"));
  const places = bench.places();
  assert.ok(places.every((to) => to === "rung 3000" || to.startsWith("later ")), String(places));
  for (let minute = 0; minute < 2; minute++) await bench.clock.advance(60_000);
  assert.equal(bench.events.at(-1), "resume");
});

Deno.test("standing: what is held, and since when the oldest that has not begun has been due", async () => {
  const bench = new LoopBench({ ...WIDE, maxRequests: 1 });
  const now = bench.clock.now();
  assert.deepEqual(bench.loop.standing(), { held: 0, dueSince: null, dueSinceBefore: null });
  await bench.deliver("t1", { task: { enqueuedAt: now - 60_000 } });
  await bench.deliver("t2", { task: { enqueuedAt: now - 20_000 } });
  await bench.deliver("t3", { task: { enqueuedAt: now - 40_000 } });
  assert.deepEqual(bench.inFlight, ["t1"]);
  const standing = { held: 3, dueSince: now - 40_000, dueSinceBefore: null };
  assert.deepEqual(bench.loop.standing(), standing);
  await bench.answer("t1");
  assert.deepEqual(bench.loop.standing(), { ...standing, held: 2 });
});

Deno.test("standing: a task that was sent again is due since it came, not since it was first posted", async () => {
  const bench = new LoopBench({ ...WIDE, maxRequests: 1 });
  const now = bench.clock.now();
  await bench.deliver("t1");
  await bench.deliver("t2", { task: { enqueuedAt: now - 86_400_000, redriven: 1 } });
  assert.equal(bench.loop.standing().dueSince, now);
});

Deno.test("standing: suspended, or the connection is lost → the oldest is remembered until deliveries come", async () => {
  const bench = new LoopBench(HOURLY);
  const now = bench.clock.now();
  await bench.deliver("t1");
  await bench.deliver("t2", { task: { enqueuedAt: now - 40_000 } });
  await bench.answer("t1");
  assert.ok(bench.events.includes("suspend"));
  const { dueSince, dueSinceBefore } = bench.loop.standing();
  assert.deepEqual([dueSince, dueSinceBefore], [null, now - 40_000]);

  const lossy = new LoopBench({ ...WIDE, maxRequests: 1 });
  await lossy.deliver("t1");
  await lossy.deliver("t2", { task: { enqueuedAt: now - 30_000 } });
  lossy.subscription.lose();
  assert.equal(lossy.loop.standing().dueSinceBefore, now - 30_000);
  await lossy.deliver("t3", {
    subscription: new FakeSubscription(),
    task: { enqueuedAt: now - 10_000 },
  });
  const after = lossy.loop.standing();
  assert.deepEqual([after.dueSince, after.dueSinceBefore], [now - 10_000, null]);
});
