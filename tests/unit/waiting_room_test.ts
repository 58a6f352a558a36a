/**
 * Case 15 in small: who is picked next when some deliveries came back too often.
 *
 * @module
 */

import assert from "node:assert/strict";
import { SUSPECT_AFTER, SUSPECT_WAITS_MS, WaitingRoom } from "../../src/consumer/waiting_room.ts";
import { fakeDelivery, FakeSubscription } from "../support/fake_deliveries.ts";

const subscription = new FakeSubscription();
const READY = 1_000 + SUSPECT_WAITS_MS;

function roomOf(...deliveriesBefore: number[]): WaitingRoom {
  const room = new WaitingRoom();
  for (const [n, before] of deliveriesBefore.entries()) {
    room.add(fakeDelivery(`t${n}`, { subscription, deliveriesBefore: before }), 1_000);
  }
  return room;
}

function pickId(room: WaitingRoom, now: number, idle: boolean, random = 0): string | undefined {
  const picked = room.pick(now, idle, random);
  if (picked === undefined) return undefined;
  const { content } = picked.delivery;
  const id = content.kind === "task" ? content.task.id : content.id;
  return picked.alone ? `${id} alone` : id;
}

Deno.test("deliveries that came less than three times before → in their order, not alone", () => {
  const room = roomOf(0, 1, SUSPECT_AFTER - 1);
  const picked = [1, 2, 3, 4].map(() => pickId(room, 1_000, false));
  assert.deepEqual(picked, ["t0", "t1", "t2", undefined]);
});

Deno.test("a suspect → after those that are none, alone, and only when nothing is in flight", () => {
  const room = roomOf(SUSPECT_AFTER, 0);
  assert.equal(pickId(room, READY, true), "t1");
  assert.equal(pickId(room, READY, false), undefined);
  assert.equal(pickId(room, READY, true), "t0 alone");
});

Deno.test("a suspect waits for the rest of its batch, so that chance has something to choose from", () => {
  const room = roomOf(SUSPECT_AFTER);
  assert.equal(pickId(room, READY - 1, true), undefined);
  assert.equal(pickId(room, READY, true), "t0 alone");
});

Deno.test("several suspects → which one is left to chance, each is picked once", () => {
  const room = roomOf(...Array<number>(4).fill(SUSPECT_AFTER));
  const picked = [0.99, 0.5, 0, 0.99].map((random) => pickId(room, READY, true, random));
  assert.deepEqual(picked, ["t3 alone", "t1 alone", "t0 alone", "t2 alone"]);
});

Deno.test("a suspect behind a stream that never ends → after 10 s it goes first, when all in flight is over", () => {
  const room = roomOf(SUSPECT_AFTER, 0, 0);
  const overdue = 11_000;
  assert.equal(pickId(room, overdue - 1, false), "t1");
  assert.equal(pickId(room, overdue, false), undefined);
  assert.equal(pickId(room, overdue, true), "t0 alone");
  assert.equal(pickId(room, overdue, false), "t2");
});

Deno.test("clear → everything, once", () => {
  const room = roomOf(0, SUSPECT_AFTER, 0);
  assert.equal(room.clear().length, 3);
  assert.deepEqual(room.clear(), []);
  assert.equal(pickId(room, READY, true), undefined);
});
