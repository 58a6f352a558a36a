/**
 * Delays that are no rung, of any whole number of seconds up to twelve days, without a scheduler.
 *
 * Twenty levels stand for the binary digits of the delay, as in NServiceBus
 * (https://docs.particular.net/transports/rabbitmq/delayed-delivery). The routing key spells the
 * digits, highest first: at each level a 1 leads into its queue, which dead-letters to the next
 * level after 2ⁿ seconds, and a 0 leads past it. All messages of one queue have one TTL, so none
 * waits for another at the head.
 *
 *     13 s = …1101:   level 3 (8 s) ──► level 2 (4 s) ──► past level 1 ──► level 0 (1 s) ──► main
 *
 * Past level 0 lies a queue of 0 s, so that everything comes to main by dead-lettering: a binding of
 * main would go with it when somebody deletes it, and what waits would be lost.
 *
 * Declared when first needed, so that a plain relay shows its seven queues and nothing else.
 *
 * @module
 */

import type { Channel } from "amqplib";
import type { Config } from "../config.ts";
import { firstLevel, LEVELS, secondsOf } from "../delay_levels.ts";
import { delayQueue, mainQueue } from "../queue_names.ts";
import type { Link } from "./link.ts";
import type { Target } from "./publisher.ts";
import { deadLetterTo, ensureQueues, withChannel } from "./topology.ts";
import type { QueueSpec } from "./topology.ts";

/** Where a message is published so that it is in the main queue after `delayMs`, rounded up to 1 s. */
export function delayTarget(prefix: string, delayMs: number): Target {
  const seconds = secondsOf(delayMs);
  const digits = seconds.toString(2).padStart(LEVELS, "0");
  const exchange = levelExchange(prefix, firstLevel(seconds));
  return { exchange, routingKey: digits.split("").join(".") };
}

/** The levels as the broker knows them. */
export interface DelayTopology {
  /** Topic exchanges, one a level. */
  readonly exchanges: readonly string[];
  /** One a level, and the last one. */
  readonly queues: readonly QueueSpec[];
  readonly bindings: readonly Binding[];
}

/** What an exchange does with messages whose routing key matches. */
export interface Binding {
  readonly exchange: string;
  readonly pattern: string;
  readonly to: { readonly queue: string } | { readonly exchange: string };
}

/** Every level and what binds them, as data. */
export function delayTopology(queues: Config["queues"]): DelayTopology {
  const { prefix } = queues;
  const levels = Array.from({ length: LEVELS }, (_, level) => level);
  return {
    exchanges: levels.map((level) => levelExchange(prefix, level)),
    queues: [
      ...levels.map((level) => levelSpec(queues, level)),
      keeping(queues, lastQueue(prefix), 0),
    ],
    bindings: levels.flatMap((level) => {
      const exchange = levelExchange(prefix, level);
      const past = level > 0
        ? { exchange: levelExchange(prefix, level - 1) }
        : { queue: lastQueue(prefix) };
      return [
        { exchange, pattern: digitPattern(level, "1"), to: { queue: delayQueue(prefix, level) } },
        { exchange, pattern: digitPattern(level, "0"), to: past },
      ];
    }),
  };
}

/**
 * Declares the levels and what binds them.
 *
 * @returns whether a queue had to be declared.
 * @throws {TopologyError} when a level's queue exists with other arguments.
 */
export async function ensureDelayLevels(link: Link, queues: Config["queues"]): Promise<boolean> {
  const { exchanges, queues: specs, bindings } = delayTopology(queues);
  const exchangesDeclared = exchanges.map((exchange) =>
    withChannel(link, (channel) => channel.assertExchange(exchange, "topic", { durable: true }))
  );
  const [declared] = await Promise.all([ensureQueues(link, specs), ...exchangesDeclared]);
  await Promise.all(
    bindings.map((binding) => withChannel(link, (channel) => bind(channel, binding))),
  );
  return declared.length > 0;
}

async function bind(channel: Channel, { exchange, pattern, to }: Binding): Promise<void> {
  if ("queue" in to) await channel.bindQueue(to.queue, exchange, pattern);
  else await channel.bindExchange(to.exchange, exchange, pattern);
}

function levelSpec(queues: Config["queues"], level: number): QueueSpec {
  const spec = keeping(queues, delayQueue(queues.prefix, level), 2 ** level * 1000);
  if (level === 0) return spec;
  // Without a key of its own the message keeps the digits, which lead on from the next exchange.
  const { "x-dead-letter-routing-key": _, ...rest } = spec.arguments;
  const next = levelExchange(queues.prefix, level - 1);
  return { ...spec, arguments: { ...rest, "x-dead-letter-exchange": next } };
}

/** A queue that keeps its messages for `ttlMs` and hands them to main. */
function keeping({ prefix, type }: Config["queues"], name: string, ttlMs: number): QueueSpec {
  const toMain = deadLetterTo(mainQueue(prefix), type === "quorum");
  return { name, arguments: { "x-queue-type": type, "x-message-ttl": ttlMs, ...toMain } };
}

/** Matches a routing key whose digit for `level` is `digit`, whatever the others are. */
function digitPattern(level: number, digit: "0" | "1"): string {
  const words = Array.from({ length: LEVELS }, () => "*");
  words[LEVELS - 1 - level] = digit;
  return words.join(".");
}

function levelExchange(prefix: string, level: number): string {
  return delayQueue(prefix, level);
}

function lastQueue(prefix: string): string {
  return `${prefix}.delay.0s`;
}
