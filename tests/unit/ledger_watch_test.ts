/**
 * What `/readyz` tells of the ledger: whether it can be written, not only read.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Ledger } from "../../src/ledger/ledger.ts";
import { type LedgerStore, LedgerUnavailableError } from "../../src/ledger/store.ts";
import { watchLedger } from "../../src/ledger/watch.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { MemoryStore } from "../support/memory_store.ts";

Deno.test("the disk is full: what is read is there, nothing can be written → unavailable, until there is room", async () => {
  const clock = new FakeClock();
  const memory = new MemoryStore();
  let full = true;
  const store: LedgerStore = {
    update: (selector, change) =>
      memory.update(selector, (record, now) => {
        const transition = change(record, now);
        if (full && transition.record !== undefined) {
          throw new LedgerUnavailableError("the disk is full");
        }
        return transition;
      }),
    sweep: () => memory.sweep(),
    close: () => memory.close(),
  };
  const watch = watchLedger(new Ledger(store), clock);
  await clock.advance(0);
  assert.equal(watch.state, "unavailable: the disk is full");
  full = false;
  for (let second = 0; second < 3; second++) {
    await clock.advance(1_000);
    assert.equal(watch.state, "ready");
  }
  watch.stop();
  await clock.advance(1_000);
});
