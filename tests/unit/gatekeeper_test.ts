/**
 * What the gate remembers over a restart.
 *
 * @module
 */

import assert from "node:assert/strict";
import { GateMemory } from "../../src/consumer/gate_memory.ts";
import { Gatekeeper } from "../../src/consumer/gatekeeper.ts";
import { FakeClock } from "../support/fake_clock.ts";

const RULES = {
  limit: { maxRequests: 10, windowMs: 3_000, algorithm: "fixed-window" },
  breakerFailures: 0,
} as const;
const HOUR_MS = 3_600_000;

/** Runs `fn` with a memory on disk, opened anew each time that it is asked for. */
function withMemory(fn: (open: () => GateMemory, path: string) => void): void {
  const folder = Deno.makeTempDirSync();
  const opened: GateMemory[] = [];
  const open = (): GateMemory => {
    const memory = new GateMemory(`${folder}/data`, "tasks.gate");
    opened.push(memory);
    return memory;
  };
  try {
    fn(open, `${folder}/data/tasks.gate`);
  } finally {
    for (const memory of opened) memory.close();
    Deno.removeSync(folder, { recursive: true });
  }
}

function gateOf(memory: GateMemory, clock: FakeClock, retryAfterMaxMs = HOUR_MS): Gatekeeper {
  return new Gatekeeper({ rules: RULES, retryAfterMaxMs, memory, clock });
}

Deno.test("a process that follows within a Retry-After → closed for the rest of it, by the wall clock", () => {
  withMemory((open) => {
    const clock = new FakeClock();
    const pass = gateOf(open(), clock).enter(clock.monotonic());
    pass.hear({ unreached: false, retryAfterMs: 60_000 });
    const later = new FakeClock(5, clock.now() + 20_000);
    assert.equal(gateOf(open(), later).opensAt(), 5 + 40_000);
    assert.equal(
      gateOf(open(), later, 10_000).opensAt(),
      5 + 10_000,
      "RETRY_AFTER_MAX_SEC is shorter now",
    );
    const muchLater = new FakeClock(5, clock.now() + 60_000);
    assert.equal(gateOf(open(), muchLater).opensAt(), -Infinity);
  });
});

Deno.test("no memory, a cut one, or one of something else → open", () => {
  withMemory((open, path) => {
    const clock = new FakeClock();
    assert.equal(gateOf(open(), clock).opensAt(), -Infinity);
    for (const content of [[1, 2, 3], Array(8).fill(255), [0, 0, 0, 0, 0, 0, 0xf0, 0x7f]]) {
      Deno.writeFileSync(path, new Uint8Array(content));
      assert.equal(gateOf(open(), clock).opensAt(), -Infinity, String(content));
    }
  });
});

Deno.test("standing: open, closed by the backend's wish until then, open again", () => {
  withMemory((open) => {
    const clock = new FakeClock();
    const gate = gateOf(open(), clock);
    assert.deepEqual(gate.standing(), { state: "open", reason: null, until: null });
    gate.enter(clock.monotonic()).hear({ unreached: false, retryAfterMs: 60_000 });
    const until = clock.now() + 60_000;
    assert.deepEqual(gate.standing(), { state: "closed", reason: "retry_after", until });
    const later = new FakeClock(5, until);
    assert.equal(gateOf(open(), later).standing().state, "open");
  });
});
