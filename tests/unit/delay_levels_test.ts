/**
 * The delay levels by construction: each delay's way through them, walked as the broker would, from
 * exchange to exchange by the bindings and from queue to exchange by dead-lettering.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { delayTarget, delayTopology } from "../../src/broker/delay_topology.ts";
import type { Binding } from "../../src/broker/delay_topology.ts";
import { LONGEST_DELAY_MS } from "../../src/delay_levels.ts";

const MAIN = "p.main";
const WEEK_MS = 604_800_000;

type Type = "quorum" | "classic";

function topologyOf(type: Type): ReturnType<typeof delayTopology> {
  return delayTopology({ prefix: "p", type, singleActiveConsumer: true });
}

/** A topic exchange's match for patterns of words and single-word wildcards. */
function matches({ pattern }: Binding, key: string): boolean {
  const [words, keyWords] = [pattern.split("."), key.split(".")];
  return words.length === keyWords.length &&
    words.every((word, n) => word === "*" || word === keyWords[n]);
}

/** The queues that a message passes through, up to the main one. */
function way(type: Type, delayMs: number): { readonly queues: string[]; readonly ms: number } {
  const { bindings, queues: specs } = topologyOf(type);
  const { exchange: first, routingKey } = delayTarget("p", delayMs);
  const queues: string[] = [];
  let ms = 0;
  for (let exchange = first; exchange !== "";) {
    const to = bindings.filter((b) => b.exchange === exchange && matches(b, routingKey));
    assert.equal(to.length, 1, `${exchange} routes ${routingKey} to exactly one place`);
    const next = to[0]!.to;
    if ("exchange" in next) {
      exchange = next.exchange;
      continue;
    }
    queues.push(next.queue);
    const spec = specs.find(({ name }) => name === next.queue);
    ms += Number(spec?.arguments["x-message-ttl"]);
    exchange = String(spec?.arguments["x-dead-letter-exchange"]);
    const key = spec?.arguments["x-dead-letter-routing-key"];
    if (exchange === "") queues.push(String(key));
    else assert.equal(key, undefined, "the key must stay, or the lower digits are lost");
  }
  return { queues, ms };
}

const type = fc.constantFrom<Type>("quorum", "classic");

Deno.test("any delay up to 7 days: the waits on its way add up to it, in whole seconds and never less, and it ends in main", () => {
  fc.assert(
    fc.property(type, fc.integer({ min: 1, max: WEEK_MS }), (type, delayMs) => {
      const { queues, ms } = way(type, delayMs);
      assert.ok(ms >= delayMs && ms < delayMs + 1_000, `${delayMs} → ${ms}`);
      assert.equal(queues.at(-1), MAIN);
    }),
    { numRuns: 2_000, examples: [["quorum", 5_000], ["quorum", 90_000], ["quorum", WEEK_MS]] },
  );
});

Deno.test("no delay passes a queue twice, or RabbitMQ would take it for a cycle and drop it", () => {
  fc.assert(fc.property(type, fc.integer({ min: 1, max: LONGEST_DELAY_MS }), (type, delayMs) => {
    const { queues } = way(type, delayMs);
    assert.equal(new Set(queues).size, queues.length);
  }));
});

Deno.test("5 s, 90 s and 7 days take exactly their time", () => {
  for (const ms of [1_000, 5_000, 90_000, WEEK_MS, LONGEST_DELAY_MS]) {
    assert.equal(way("quorum", ms).ms, ms);
  }
  assert.deepEqual(way("quorum", 90_000).queues, [
    "p.delay.64s",
    "p.delay.16s",
    "p.delay.8s",
    "p.delay.2s",
    "p.delay.0s",
    MAIN,
  ]);
});

Deno.test("a delay of almost nothing takes a second, one beyond the levels all of them", () => {
  for (const ms of [-5, 0, 0.1, 1, 999.9]) assert.equal(way("quorum", ms).ms, 1_000);
  assert.equal(way("quorum", LONGEST_DELAY_MS * 2).ms, LONGEST_DELAY_MS);
});

Deno.test("what waits is held by quorum queues that dead-letter at least once", () => {
  for (const { arguments: args } of topologyOf("quorum").queues) {
    assert.equal(args["x-queue-type"], "quorum");
    assert.equal(args["x-dead-letter-strategy"], "at-least-once");
    assert.equal(args["x-overflow"], "reject-publish");
  }
});
