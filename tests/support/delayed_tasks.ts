/**
 * Delayed tasks from the publisher into the main queue, without a relay: when each one arrives there.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { ConsumeMessage } from "amqplib";
import { type Link, openLink, orAbort } from "../../src/broker/link.ts";
import { BrokerTaskPublisher } from "../../src/broker/task_publisher.ts";
import { systemClock } from "../../src/clock.ts";
import type { Task } from "../../src/task.ts";
import { withAmqp } from "./amqp.ts";
import { type RabbitAddress, uniquePrefix } from "./environment.ts";
import { eventually } from "./eventually.ts";
import { type QueueNames, queueNames } from "./queues.ts";

const LADDER = "1x0s,1x0.1s";

const CONSUME_DEADLINE_MS = 5_000;

/** A message that arrived in the main queue. */
export interface Arrival {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly message: ConsumeMessage;
}

/** A publisher with queues of its own. */
export interface DelayedTasks {
  readonly publisher: BrokerTaskPublisher;
  readonly prefix: string;
  readonly names: QueueNames;
  /** By the id of the task; at least once each. */
  readonly arrivals: ReadonlyMap<string, Arrival>;
  /** How many messages arrived; more than the ids when one came twice. */
  readonly count: number;
  /** Consumes the main queue from now on; once more after the broker was killed. */
  consume(): Promise<void>;
  /** Publishes a task that is due in `delayMs` and asserts that it is confirmed. */
  publish(delayMs: number): Promise<Task>;
}

/** Runs `fn` with a publisher that is connected, and removes its queues afterwards. */
export async function withDelayedTasks(
  rabbit: RabbitAddress,
  fn: (tasks: DelayedTasks) => Promise<void>,
): Promise<void> {
  const prefix = uniquePrefix();
  const names = queueNames(prefix, LADDER);
  const publisher = new BrokerTaskPublisher({
    rabbit: { ...rabbit, vhost: "/" },
    queues: { prefix, type: "quorum", singleActiveConsumer: true },
    ladder: [{ attempts: 1, delayMs: 0 }, { attempts: 1, delayMs: 100 }],
    clock: systemClock,
  });
  const arrivals = new Map<string, Arrival>();
  const links: Link[] = [];
  let count = 0;
  try {
    await eventually(() => assert.ok(publisher.health.ready, publisher.health.state));
    await fn({
      publisher,
      prefix,
      names,
      arrivals,
      get count() {
        return count;
      },
      async consume(): Promise<void> {
        links.push(
          await consumeAll(rabbit, names.main, (message) => {
            count++;
            arrivals.set(String(message.properties.messageId), { at: Date.now(), message });
          }),
        );
      },
      async publish(delayMs): Promise<Task> {
        const task = taskDueIn(delayMs);
        assert.deepEqual(await publisher.publish(task), { kind: "confirmed" });
        return task;
      },
    });
  } finally {
    for (const link of links) await link.close();
    await publisher.close();
    await withAmqp(rabbit, (amqp) => amqp.deletePrefix(prefix, LADDER));
  }
}

/** A task that is due in `delayMs`. */
export function taskDueIn(delayMs: number): Task {
  const now = Date.now();
  return {
    id: crypto.randomUUID(),
    body: new TextEncoder().encode("{}"),
    contentType: "application/json",
    attempt: 1,
    enqueuedAt: now,
    history: [],
    notBefore: now + delayMs,
  };
}

async function consumeAll(
  rabbit: RabbitAddress,
  queue: string,
  onMessage: (message: ConsumeMessage) => void,
): Promise<Link> {
  const link = await openLink({ ...rabbit, vhost: "/" }, "arrivals");
  const consume = async (): Promise<void> => {
    const channel = await link.model.createChannel();
    channel.on("error", () => {});
    await channel.consume(queue, (message) => {
      if (message === null) return;
      onMessage(message);
      channel.ack(message);
    });
  };
  try {
    // A broker that has just started may keep a consumer waiting until its queues have leaders.
    await orAbort(consume(), AbortSignal.timeout(CONSUME_DEADLINE_MS));
    return link;
  } catch (error) {
    link.destroy("no subscription in time");
    throw error;
  }
}
