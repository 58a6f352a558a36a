/**
 * The queues: derived from the ladder as data, looked at before they are declared.
 *
 *     main ── delivered ──► consumer            every rung: TTL, then dead-lettered to main
 *       └── returned too often ──► failed       failed: kept until somebody looks
 *
 * Quorum queues dead-letter at least once: a message leaves its queue only when the next one has
 * confirmed it (https://www.rabbitmq.com/docs/quorum-queues#dead-lettering).
 *
 * @module
 */

import type { Channel } from "amqplib";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import { failedQueue, mainQueue, rungQueue } from "../queue_names.ts";
import { delaysOf } from "../rungs.ts";
import type { Rung } from "../rungs.ts";
import type { Link } from "./link.ts";

/** Arguments of a queue as RabbitMQ knows them. */
export type QueueArguments = Readonly<Record<string, string | number | boolean>>;

/** A queue to be declared. */
export interface QueueSpec {
  readonly name: string;
  readonly arguments: QueueArguments;
}

/** What the passive check found of a queue. */
export type Finding =
  | { readonly queue: string; readonly state: "ready"; readonly messages: number }
  | { readonly queue: string; readonly state: "missing" }
  | { readonly queue: string; readonly state: "different"; readonly difference: string };

/** A queue exists with other arguments than the configuration asks for. */
export class TopologyError extends Error {
  override readonly name = "TopologyError";
}

/** Returns of one message to the main queue after which the broker dead-letters it. */
const DELIVERY_LIMIT = 100;

/** RabbitMQ 4 drops a message that was looked at 20 times unless a queue says otherwise. */
const NO_DELIVERY_LIMIT = 2 ** 31 - 1;

/** Every queue of a relay, main first, then the rungs in their order, then failed. */
export function queueSpecs(queues: Config["queues"], ladder: readonly Rung[]): QueueSpec[] {
  const { prefix, type } = queues;
  const quorum = type === "quorum";
  const main: QueueSpec = {
    name: mainQueue(prefix),
    arguments: {
      "x-queue-type": type,
      "x-single-active-consumer": queues.singleActiveConsumer,
      ...deadLetterTo(failedQueue(prefix), quorum),
      ...(quorum && { "x-delivery-limit": DELIVERY_LIMIT }),
    },
  };
  const delays = new Set(ladder.flatMap(delaysOf).filter((ms) => ms > 0));
  const rungs = [...delays].map((delayMs) => ({
    name: rungQueue(prefix, delayMs),
    arguments: {
      "x-queue-type": type,
      "x-message-ttl": delayMs,
      ...deadLetterTo(mainQueue(prefix), quorum),
    },
  }));
  const failed: QueueSpec = {
    name: failedQueue(prefix),
    arguments: {
      "x-queue-type": type,
      ...(quorum && { "x-delivery-limit": NO_DELIVERY_LIMIT }),
    },
  };
  return [main, ...rungs, failed];
}

/** Arguments that send what leaves a queue to `target`, by way of the default exchange. */
export function deadLetterTo(target: string, quorum: boolean): QueueArguments {
  return {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": target,
    ...(quorum && { "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish" }),
  };
}

/**
 * Nothing that matters should be published into new quorum queues for so long, milliseconds.
 * RabbitMQ writes their names down when none was added for half a second; killed before that, it
 * starts them anew and empty. Measured with 20 queues on 3.10.8 and 4.0.5: lost when it was killed
 * up to 556 ms after the declarations, kept from 846 ms on.
 */
export const SAVED_AFTER_MS = 900;

/** Looks at each queue; changes nothing. */
export async function inspectQueues(link: Link, specs: readonly QueueSpec[]): Promise<Finding[]> {
  return await Promise.all(specs.map((spec) => inspectQueue(link, spec)));
}

/**
 * Declares what is missing, when nothing differs.
 *
 * @returns the names of the queues that were declared.
 * @throws {TopologyError} when a queue exists with other arguments; then none was declared.
 */
export async function ensureQueues(link: Link, specs: readonly QueueSpec[]): Promise<string[]> {
  const findings = await inspectQueues(link, specs);
  const different = findings.filter((finding) => finding.state === "different");
  if (different.length > 0) throw new TopologyError(describeDifferences(different));
  const missing = new Set(findings.filter(({ state }) => state === "missing").map((f) => f.queue));
  const declaring = specs.filter(({ name }) => missing.has(name))
    .map((spec) => withChannel(link, (channel) => declare(channel, spec)));
  await Promise.all(declaring);
  return [...missing];
}

async function inspectQueue(link: Link, spec: QueueSpec): Promise<Finding> {
  const queue = spec.name;
  const differences = new Map<string, string>();
  let compared = spec;
  for (;;) {
    try {
      const messages = await compare(link, compared);
      if (differences.size === 0) return { queue, state: "ready", messages };
      break;
    } catch (error) {
      if (isReply(error, NOT_FOUND)) return { queue, state: "missing" };
      if (!isReply(error, PRECONDITION_FAILED)) throw error;
      const found = readDifference(messageOf(error));
      if (found === undefined) differences.set("", messageOf(error));
      if (found === undefined || differences.has(found.argument)) break;
      differences.set(found.argument, describeDifference(found));
      // RabbitMQ tells only the first difference; with what is there in its place, the next one.
      compared = withArgument(compared, found);
    }
  }
  // Other arguments follow from the type, so beside it they would only confuse.
  const type = differences.get("x-queue-type");
  return { queue, state: "different", difference: type ?? [...differences.values()].join("; ") };
}

/** The number of messages that wait. @throws when the queue is missing or has other arguments. */
async function compare(link: Link, spec: QueueSpec): Promise<number> {
  return await withChannel(link, async (channel) => {
    const { messageCount } = await channel.checkQueue(spec.name);
    // The queue is there, so declaring it only compares the arguments.
    await declare(channel, spec);
    return messageCount;
  });
}

async function declare(channel: Channel, spec: QueueSpec): Promise<void> {
  await channel.assertQueue(spec.name, { durable: true, arguments: spec.arguments });
}

/** Runs `use` with a channel of its own, since a refused declaration closes its channel. */
export async function withChannel<T>(
  link: Link,
  use: (channel: Channel) => Promise<T>,
): Promise<T> {
  const channel = await link.model.createChannel();
  // Without a listener the error would take the connection down; the call itself rejects as well.
  channel.on("error", () => {});
  const result = await use(channel);
  await channel.close();
  return result;
}

const NOT_FOUND = 404;
const PRECONDITION_FAILED = 406;

function isReply(error: unknown, code: number): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

interface Difference {
  readonly argument: string;
  /** As RabbitMQ writes it: `none`, `'true'`, or `the value '3000' of type 'signedint'`. */
  readonly wanted: string;
  readonly current: string;
}

/** From RabbitMQ's `inequivalent arg 'A' for queue …: received 'X' but current is 'Y'`. */
function readDifference(text: string): Difference | undefined {
  const found = /inequivalent arg '([^']+)'.*received (.+) but current is (.+?)"?$/.exec(text);
  const [, argument, wanted, current] = found ?? [];
  if (argument === undefined || wanted === undefined || current === undefined) return undefined;
  return { argument, wanted, current };
}

function describeDifference({ argument, wanted, current }: Difference): string {
  return `${argument} is ${shown(current)} there, and the configuration asks for ${shown(wanted)}`;
}

const VALUE = /^(?:the value )?'(.*?)'(?: of type '(.*)')?$/;

function shown(text: string): string {
  const [, value = text] = VALUE.exec(text) ?? [];
  return value || '""';
}

/** The queue with the argument that is there. RabbitMQ names a value's type only beside a `none`. */
function withArgument(spec: QueueSpec, { argument, current }: Difference): QueueSpec {
  const { [argument]: wanted, ...others } = spec.arguments;
  const [, value, type = typeof wanted] = VALUE.exec(current) ?? [];
  if (value === undefined) return { ...spec, arguments: others };
  return { ...spec, arguments: { ...others, [argument]: readValue(value, type) } };
}

function readValue(value: string, type: string): string | number | boolean {
  if (/^bool/.test(type)) return value === "true";
  return /string|longstr/.test(type) ? value : Number(value);
}

function describeDifferences(findings: readonly Finding[]): string {
  const lines = findings.map((finding) =>
    `  ${finding.queue}: ${finding.state === "different" ? finding.difference : finding.state}`
  );
  return [
    `${findings.length === 1 ? "A queue exists" : "Queues exist"} with other arguments:`,
    ...lines,
    "RabbitMQ can't change the arguments of a queue. Either set the environment back to what is",
    "there, or choose another QUEUE_PREFIX and let a relay with the old one empty the old queues,",
    "or stop all relays, make sure that the queue is empty, delete it (rabbitmqctl delete_queue",
    "NAME) and start again. Nothing was declared or changed.",
  ].join("\n");
}
