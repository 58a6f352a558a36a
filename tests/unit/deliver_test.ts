/**
 * One delivery and its ledger: what is claimed, and what becomes of the claim when no attempt is made.
 *
 * @module
 */

import assert from "node:assert/strict";
import { parseLadder } from "../../src/config.ts";
import { deliver } from "../../src/consumer/deliver.ts";
import type { Route } from "../../src/consumer/deliver.ts";
import { PatientLedger } from "../../src/consumer/patient_ledger.ts";
import { Meters } from "../../src/consumer/meters.ts";
import type { Answer } from "../../src/consumer/outcome.ts";
import { createRateWindow } from "../../src/consumer/rate_window.ts";
import { LedgerUnavailableError } from "../../src/ledger/store.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { fakeDelivery, FakeSubscription } from "../support/fake_deliveries.ts";
import { aLimiter } from "../support/limiter_world.ts";
import { OK, WIDE } from "../support/loop_bench.ts";

/** A backend that is not asked so often, because the gate closes on the way; and then it is. */
function routeWith(
  answers: (Answer | undefined)[],
  calls: string[],
  clock: FakeClock,
): Route {
  return {
    limiter: aLimiter(createRateWindow(WIDE, [], clock.monotonic()), clock),
    backend: {
      send(_task, begin): Promise<Answer | undefined> {
        calls.push("send");
        const answer = answers.shift();
        if (answer !== undefined) begin();
        return Promise.resolve(answer);
      },
    },
    ledger: {
      claim: () => {
        calls.push("claim");
        return Promise.resolve({ kind: "granted", until: 1 });
      },
      abandon: () => Promise.resolve(void calls.push("abandon")),
      conclude: () => Promise.resolve(void calls.push("conclude")),
    },
    rules: {
      ladder: parseLadder("1x0s"),
      permanentStatuses: [],
      queues: { prefix: "tasks", type: "quorum", singleActiveConsumer: true },
    },
    meters: new Meters(parseLadder("1x0s")),
    clock,
  };
}

Deno.test("the gate closes between claim and request → the claim is given up, the same attempt is made later", async () => {
  const calls: string[] = [];
  const delivery = fakeDelivery("t1", { subscription: new FakeSubscription() });
  const { signal } = new AbortController();
  const clock = new FakeClock();
  const handled = deliver(delivery, routeWith([undefined, OK], calls, clock), {
    since: 0,
    waiting: signal,
    inFlight: signal,
    giveBack: () => Promise.reject(new Error("not to be given back")),
    began: () => void calls.push("began"),
  });
  await clock.advance(1_000);
  await handled;
  assert.deepEqual(calls, ["claim", "send", "abandon", "claim", "send", "began", "conclude"]);
  assert.deepEqual(delivery.settlements, [{ to: "done" }]);
});

Deno.test("the delivery is lost between claim and request → nothing is written, the claim is given up", async () => {
  const calls: string[] = [];
  const clock = new FakeClock();
  const route = routeWith([], calls, clock);
  const lost = new AbortController();
  const send: Route["backend"]["send"] = (_task, begin) => {
    lost.abort();
    calls.push(begin() ? "written" : "withheld");
    return Promise.resolve(undefined);
  };
  const delivery = fakeDelivery("t1", { subscription: new FakeSubscription() });
  await deliver(delivery, { ...route, backend: { send } }, {
    since: 0,
    waiting: lost.signal,
    inFlight: new AbortController().signal,
    giveBack: () => Promise.resolve(void calls.push("given back")),
    began: () => void calls.push("began"),
  });
  assert.deepEqual(calls, ["claim", "withheld", "abandon", "given back"]);
  assert.equal(route.limiter.freeAt(), clock.monotonic(), "its slot is free again");
});

Deno.test("the ledger is away for long → the delivery is not held for more than three minutes, and its slot is free again", async () => {
  const clock = new FakeClock();
  const calls: string[] = [];
  const away = (): Promise<never> => Promise.reject(new LedgerUnavailableError("away"));
  const lease = { leaseMs: 7_000, owner: { relay: "r", run: "1" } };
  const ledger = new PatientLedger({ claim: away, abandon: away, conclude: away }, lease, clock);
  const route = { ...routeWith([], calls, clock), ledger };
  const { signal } = new AbortController();
  const since = clock.monotonic();
  let givenBackAt = Infinity;
  const handled = deliver(fakeDelivery("t1", { subscription: new FakeSubscription() }), route, {
    since,
    waiting: signal,
    inFlight: signal,
    giveBack: () => Promise.resolve(void (givenBackAt = clock.monotonic())),
    began: () => void calls.push("began"),
  });
  await clock.advance(200_000);
  await handled;
  const heldMs = givenBackAt - since;
  assert.ok(heldMs >= 180_000 && heldMs < 190_000, `held for ${heldMs} ms`);
  assert.deepEqual(calls, []);
  assert.equal(route.limiter.freeAt(), clock.monotonic());
});
