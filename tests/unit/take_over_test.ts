/**
 * What a relay assumes of the one before it (cases 13 and 26 of the field notes, in numbers).
 *
 * @module
 */

import assert from "node:assert/strict";
import { earliestBegin } from "../../src/consumer/take_over.ts";
import type { TakeOver } from "../../src/consumer/take_over.ts";

const NOW = 1_000_000;
const SPAN = 3_006;

/** A relay that comes back to its own queue with its own log, alone. */
const ALONE: TakeOver = {
  now: NOW,
  spanMs: SPAN,
  sends: [NOW - 60_000],
  firstEver: false,
  followsAnother: false,
  redelivered: false,
};

const WAITS: readonly [trigger: string, known: Partial<TakeOver>][] = [
  ["another consumer was there when it subscribed", { followsAnother: true }],
  ["another consumer, though this relay declared the queue", {
    followsAnother: true,
    firstEver: true,
  }],
  ["no send on record and a queue that was there before", { sends: [] }],
  ["a delivery that somebody had, and a log that is silent", { redelivered: true }],
];

const GOES_AT_ONCE: readonly [trigger: string, known: Partial<TakeOver>][] = [
  ["alone, with a log", {}],
  ["the queue was declared just now", { firstEver: true, sends: [] }],
  ["a delivery that it had itself, by its log", { redelivered: true, sends: [NOW - 10] }],
  ["a full window in its own log: the window itself waits", {
    sends: Array.from({ length: 10 }, () => NOW - 5),
  }],
];

for (const [trigger, known] of WAITS) {
  Deno.test(`take-over: ${trigger} → nothing begins for one span`, () => {
    assert.equal(earliestBegin({ ...ALONE, ...known }), NOW + SPAN);
  });
}

for (const [trigger, known] of GOES_AT_ONCE) {
  Deno.test(`take-over: ${trigger} → nothing to wait for`, () => {
    assert.ok(earliestBegin({ ...ALONE, ...known }) <= NOW);
  });
}
