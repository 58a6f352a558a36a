/**
 * The queues as data: the contract's seven, and what each is declared with.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { queueSpecs } from "../../src/broker/topology.ts";
import { parseLadder } from "../../src/config.ts";
import { failedQueue, mainQueue, rungQueue } from "../../src/queue_names.ts";
import { DEFAULT_LADDER, queueNames } from "../support/queues.ts";

const QUORUM = { prefix: "tasks", type: "quorum", singleActiveConsumer: true } as const;
const CLASSIC = { ...QUORUM, type: "classic" } as const;
const AT_LEAST_ONCE = {
  "x-dead-letter-exchange": "",
  "x-dead-letter-strategy": "at-least-once",
  "x-overflow": "reject-publish",
};

Deno.test("the default ladder → exactly the seven queues of the contract, in their order", () => {
  const specs = queueSpecs(QUORUM, parseLadder(DEFAULT_LADDER));
  const seven = [
    "main",
    "retry.3s",
    "retry.15s",
    "retry.60s",
    "retry.120s",
    "retry.240s",
    "failed",
  ];
  assert.deepEqual(specs.map(({ name }) => name), seven.map((name) => `tasks.${name}`));
});

Deno.test("quorum: main dead-letters to failed at the 100th return, one consumer at a time", () => {
  assert.deepEqual(queueSpecs(QUORUM, parseLadder("1x0s")), [
    {
      name: "tasks.main",
      arguments: {
        "x-queue-type": "quorum",
        "x-single-active-consumer": true,
        ...AT_LEAST_ONCE,
        "x-dead-letter-routing-key": "tasks.failed",
        "x-delivery-limit": 100,
      },
    },
    {
      name: "tasks.failed",
      // However often an operator looks, nothing is dropped.
      arguments: { "x-queue-type": "quorum", "x-delivery-limit": 2 ** 31 - 1 },
    },
  ]);
});

Deno.test("quorum: a rung keeps its messages for its delay, then hands them to main at least once", () => {
  const rung = queueSpecs(QUORUM, parseLadder("1x1.5s"))[1];
  assert.deepEqual(rung, {
    name: "tasks.retry.1.5s",
    arguments: {
      "x-queue-type": "quorum",
      "x-message-ttl": 1_500,
      ...AT_LEAST_ONCE,
      "x-dead-letter-routing-key": "tasks.main",
    },
  });
});

Deno.test("classic: nothing that only quorum queues know", () => {
  for (const { arguments: args } of queueSpecs(CLASSIC, parseLadder(DEFAULT_LADDER))) {
    assert.equal(args["x-queue-type"], "classic");
    for (const name of ["x-dead-letter-strategy", "x-overflow", "x-delivery-limit"]) {
      assert.ok(!(name in args), name);
    }
  }
});

Deno.test("a delay that occurs on two rungs, and one of 0 → one queue for each delay, none for 0", () => {
  const specs = queueSpecs(QUORUM, parseLadder("1x0s,1x3s,2x0s,1x1s,4x3000ms"));
  const names = ["tasks.main", "tasks.retry.3s", "tasks.retry.1s", "tasks.failed"];
  assert.deepEqual(specs.map(({ name }) => name), names);
});

Deno.test("any ladder: every rung leads to a queue that is declared", () => {
  const anyLadder = fc.array(
    fc.record({ attempts: fc.integer({ min: 1, max: 9 }), delayMs: fc.nat(86_400_000) }),
    { minLength: 1, maxLength: 8 },
  );
  fc.assert(
    fc.property(anyLadder, (ladder) => {
      const names = queueSpecs(QUORUM, ladder).map(({ name }) => name);
      for (const { delayMs } of ladder) assert.ok(names.includes(rungQueue("tasks", delayMs)));
      assert.equal(new Set(names).size, names.length);
    }),
  );
});

Deno.test("queue names: those of the contract, also for delays below a second", () => {
  const ladder = "1x0s,1x3s,1x0.25s,1x2m,1x1h";
  const expected = queueNames("p.q", ladder);
  const rungs = [3_000, 250, 120_000, 3_600_000].map((delayMs) => rungQueue("p.q", delayMs));
  assert.deepEqual(rungs, expected.retries);
  assert.deepEqual(rungs, ["p.q.retry.3s", "p.q.retry.0.25s", "p.q.retry.120s", "p.q.retry.3600s"]);
  assert.deepEqual([mainQueue("p.q"), failedQueue("p.q")], [expected.main, expected.failed]);
  assert.equal(rungQueue("p.q", 0), expected.main);
});
