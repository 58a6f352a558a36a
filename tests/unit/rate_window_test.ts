/**
 * The windows by themselves, over times that a test chooses.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Config } from "../../src/config.ts";
import { createRateWindow, SPAN_PER_WINDOW } from "../../src/consumer/rate_window.ts";
import type { RateWindow } from "../../src/consumer/rate_window.ts";

const FIXED: Config["limit"] = { maxRequests: 3, windowMs: 1_000, algorithm: "fixed-window" };
const SLIDING: Config["limit"] = { ...FIXED, algorithm: "sliding-window" };
const SPAN = 1_000 * SPAN_PER_WINDOW;

function send(window: RateWindow, at: number): void {
  assert.ok(window.freeAt(at) <= at, `not free at ${at}`);
  window.grant(at);
  window.begin(at);
}

for (const limit of [FIXED, SLIDING]) {
  const { algorithm } = limit;

  Deno.test(`${algorithm}: unused → free now`, () => {
    assert.equal(createRateWindow(limit, [], 50).freeAt(50), 50);
  });

  Deno.test(`${algorithm}: full at one moment of the clock → free exactly one span later`, () => {
    const window = createRateWindow(limit, [], 0);
    for (let n = 0; n < 3; n++) send(window, 10);
    assert.equal(window.freeAt(10), 10 + SPAN);
    assert.equal(window.freeAt(10 + SPAN), 10 + SPAN);
  });

  Deno.test(`${algorithm}: as many slots out as the limit → free only when one has begun`, () => {
    const window = createRateWindow(limit, [], 0);
    for (let n = 0; n < 3; n++) window.grant(0);
    assert.equal(window.freeAt(1e9), Infinity);
    window.begin(1e9);
    assert.equal(window.freeAt(1e9 + 2 * SPAN), 1e9 + 2 * SPAN);
  });

  Deno.test(`${algorithm}: slots granted in one window that begin in a later one count there`, () => {
    const window = createRateWindow(limit, [], 0);
    for (let n = 0; n < 3; n++) window.grant(0);
    for (let n = 0; n < 3; n++) window.begin(5_000);
    assert.equal(window.freeAt(5_000), 5_000 + SPAN);
  });

  Deno.test(`${algorithm}: what began more than a span ago is forgotten`, () => {
    const window = createRateWindow(limit, [0, 1, 2], 3 + SPAN);
    assert.equal(window.freeAt(3 + SPAN), 3 + SPAN);
  });

  Deno.test(`${algorithm}: a full window before the start → not free before its last has aged`, () => {
    const begun = [0, 100, 200, 300, 400, 500]; // of two windows, or of another limit
    const window = createRateWindow(limit, begun, 500);
    const aged = algorithm === "fixed-window" ? 500 + SPAN : 300 + SPAN;
    assert.equal(window.freeAt(500), aged);
  });
}

Deno.test("fixed-window: opened by the first that begins, not by the first that was granted", () => {
  const window = createRateWindow(FIXED, [], 0);
  window.grant(0);
  window.begin(400);
  send(window, 500);
  send(window, 600);
  assert.equal(window.freeAt(600), 400 + SPAN);
});

Deno.test("fixed-window: slots that are out take room in the next window too", () => {
  const window = createRateWindow(FIXED, [], 0);
  window.grant(0);
  send(window, 0);
  send(window, 0);
  assert.equal(window.freeAt(0), SPAN);
  send(window, SPAN);
  send(window, SPAN);
  assert.equal(window.freeAt(SPAN), 2 * SPAN);
});

Deno.test("sliding-window: each slot is free one span after the one that it replaces", () => {
  const window = createRateWindow(SLIDING, [], 0);
  for (const at of [0, 300, 600]) send(window, at);
  for (const at of [0, 300, 600]) {
    assert.equal(window.freeAt(600), at + SPAN);
    send(window, at + SPAN);
  }
});

Deno.test("sliding-window: less than full before the start → the rest is free, then by age", () => {
  const window = createRateWindow(SLIDING, [100, 200], 300);
  send(window, 300);
  assert.equal(window.freeAt(300), 100 + SPAN);
});

for (const limit of [FIXED, SLIDING]) {
  Deno.test(`${limit.algorithm}: used → what began in the window that lasts, not what is out`, () => {
    const window = createRateWindow(limit, [], 0);
    assert.equal(window.used(0), 0);
    send(window, 10);
    send(window, 20);
    window.grant(30);
    assert.equal(window.used(30), 2);
    window.begin(40);
    assert.equal(window.used(40), 3);
    assert.equal(window.used(40 + SPAN), 0);
  });
}

Deno.test("sliding-window: used → only what began within the last window", () => {
  const window = createRateWindow(SLIDING, [], 0);
  for (const at of [0, 400, 800, SPAN, 400 + SPAN]) send(window, at);
  assert.equal(window.used(400 + SPAN), 3);
  assert.equal(window.used(800 + SPAN), 2);
});
