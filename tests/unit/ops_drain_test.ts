/**
 * How long a backlog takes.
 *
 * @module
 */

import assert from "node:assert/strict";
import { type Backlog, drainSeconds } from "../../src/ops/drain.ts";

const NOW = Date.UTC(2026, 10, 30);
const OPEN = { state: "open", reason: null, until: null } as const;

const HUNDRED: Backlog = {
  waiting: 100,
  limitPerSecond: 10,
  busyPerSecond: undefined,
  paused: false,
  gate: OPEN,
  now: NOW,
};

const CASES: readonly [name: string, change: Partial<Backlog>, seconds: number | undefined][] = [
  ["no rate seen yet → the limit's", {}, 10],
  ["the backend was slower than the limit → its rate", { busyPerSecond: 4 }, 25],
  ["more was finished than the limit allows, as of two windows → the limit's", {
    busyPerSecond: 12,
  }, 10],
  ["nothing was finished while tasks waited → for ever", { busyPerSecond: 0 }, Infinity],
  ["nothing waits → 0", { waiting: 0 }, 0],
  ["nothing waits, and nothing was finished → 0", { waiting: 0, busyPerSecond: 0 }, 0],
  ["paused → for ever", { paused: true }, Infinity],
  ["paused, and nothing waits → 0", { paused: true, waiting: 0 }, 0],
  ["the backend asks for 5 s → those too", {
    gate: { state: "closed", reason: "retry_after", until: NOW + 5_000 },
  }, 15],
  ["that moment is over → nothing is added", {
    gate: { state: "closed", reason: "retry_after", until: NOW - 5_000 },
  }, 10],
  ["the backend is away → for ever", {
    gate: { state: "closed", reason: "breaker", until: NOW + 5_000 },
  }, Infinity],
  ["it is being probed → for ever", {
    gate: { state: "probing", reason: "breaker", until: null },
  }, Infinity],
  ["the rate rises again → as if it had", {
    gate: { state: "rising", reason: null, until: null },
  }, 10],
  ["the broker can't be asked → not known", { waiting: undefined }, undefined],
  [
    "the broker can't be asked, and paused → not known",
    { waiting: undefined, paused: true },
    undefined,
  ],
];

for (const [name, change, seconds] of CASES) {
  Deno.test(`drain: ${name}`, () => {
    assert.equal(drainSeconds({ ...HUNDRED, ...change }), seconds);
  });
}
