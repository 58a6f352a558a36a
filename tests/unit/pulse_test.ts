/**
 * The pulse of a process that is stopped and goes on.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Pulse } from "../../src/consumer/pulse.ts";
import { FakeClock, settled } from "../support/fake_clock.ts";

/** A clock that runs while nobody is woken, as at SIGSTOP. */
class StoppableClock extends FakeClock {
  #stoodStillMs = 0;

  override monotonic(): number {
    return super.monotonic() + this.#stoodStillMs;
  }

  standStill(ms: number): void {
    this.#stoodStillMs += ms;
  }
}

for (const [ms, pause] of [[500, false], [2_000, true], [30_000, true]] as const) {
  Deno.test(
    `the process stands still for ${ms} ms → ${
      pause ? "steady again when the broker has answered" : "steady all the while"
    }`,
    async () => {
      const clock = new StoppableClock();
      const pulse = new Pulse(clock);
      const stopping = new AbortController();
      let answered = (): void => {};
      const beating = pulse.beat(
        stopping.signal,
        () => new Promise((resolve) => answered = resolve),
      );
      await clock.advance(10_000);
      assert.ok(pulse.steady());
      clock.standStill(ms);
      await clock.advance(250);
      assert.equal(pulse.steady(), !pause, "a timer that is late has read nothing yet");
      await clock.advance(60_000);
      assert.equal(pulse.steady(), !pause);
      answered();
      await settled();
      assert.ok(pulse.steady());
      stopping.abort();
      await beating;
    },
  );
}
