/**
 * The machine's clock: sleeps of any length, each as long as asked for.
 *
 * @module
 */

import assert from "node:assert/strict";
import { systemClock } from "../../src/clock.ts";

const DAY_MS = 24 * 3_600_000;

Deno.test("case 22: a wait of 30 days → is still waiting when one of 30 ms is over", async () => {
  for (const days of [24, 25, 30, 365, 1e6]) {
    const ended = new AbortController();
    const long = systemClock.sleep(days * DAY_MS, ended.signal).then(() => "long");
    const short = systemClock.sleep(30).then(() => "short");
    assert.equal(await Promise.race([long, short]), "short");
    ended.abort();
    assert.equal(await long, "long");
  }
});

Deno.test("case 22: a wait of 30 days → one timer that waits, not one after the other that fires at once", async () => {
  const { setTimeout: real } = globalThis;
  const delays: unknown[] = [];
  const counting = (callback: () => void, ms?: number): ReturnType<typeof real> => {
    delays.push(ms);
    return real(callback, ms);
  };
  Reflect.set(globalThis, "setTimeout", counting);
  try {
    const ended = new AbortController();
    const long = systemClock.sleep(30 * DAY_MS, ended.signal);
    await new Promise<void>((resolve) => void real(resolve, 30));
    ended.abort();
    await long;
  } finally {
    Reflect.set(globalThis, "setTimeout", real);
  }
  assert.deepEqual(delays, [2 ** 31 - 1]);
});

Deno.test("sleep: Infinity → until the signal aborts", async () => {
  const ended = new AbortController();
  const long = systemClock.sleep(Infinity, ended.signal).then(() => "long");
  assert.equal(await Promise.race([long, systemClock.sleep(10).then(() => "short")]), "short");
  ended.abort();
  await long;
});

Deno.test("sleep: never shorter than asked for, also by fractions of a millisecond", async () => {
  for (const ms of [0.1, 0.9, 1.5, 5.999, 12]) {
    const from = systemClock.monotonic();
    await systemClock.sleep(ms);
    assert.ok(systemClock.monotonic() - from >= ms, `${ms} ms`);
  }
});

Deno.test("sleep: a signal that was aborted before, zero, less than zero → at once", async () => {
  await systemClock.sleep(30 * DAY_MS, AbortSignal.abort());
  await systemClock.sleep(0);
  await systemClock.sleep(-5);
});

Deno.test("now and monotonic: both in milliseconds, the first since 1970", async () => {
  const [wall, monotonic] = [systemClock.now(), systemClock.monotonic()];
  await systemClock.sleep(20);
  assert.ok(Math.abs(systemClock.now() - Date.now()) < 1_000);
  assert.ok(systemClock.monotonic() - monotonic >= 20);
  assert.ok(wall > Date.UTC(2026, 0));
});
