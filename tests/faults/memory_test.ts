/**
 * Tasks that wait, wait in the broker: the relay's memory does not know how many they are.
 *
 * @module
 */
import assert from "node:assert/strict";
import { measureWaiting } from "../bench/waiting_memory.ts";

Deno.test("50,000 tasks waiting in the broker: the relay's memory is within 40 MiB of what it is with few", async () => {
  const { before, full } = await measureWaiting(50_000);
  assert.ok(full - before < 40, `${before.toFixed(0)} → ${full.toFixed(0)} MiB`);
});
