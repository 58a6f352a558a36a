/**
 * A delivery of the main queue: what it holds, and how each settlement is performed.
 *
 * @module
 */

import type { ConsumeMessage } from "amqplib";
import type { Delivery, Settlement } from "../consumer/ports.ts";
import { failedQueue, rungQueue } from "../queue_names.ts";
import { readMessage } from "../task.ts";
import type { Content } from "../task.ts";
import type { Hops } from "./hops.ts";
import { failedMessage, failedTask, rawMessage, taskMessage } from "./message.ts";
import type { AmqpSubscription } from "./subscription.ts";

/** A message of the main queue in this relay's hands. */
export class AmqpDelivery implements Delivery {
  readonly content: Content;
  readonly deliveriesBefore: number;
  readonly subscription: AmqpSubscription;
  readonly #message: ConsumeMessage;
  readonly #hops: Hops;
  readonly #prefix: string;

  constructor(
    message: ConsumeMessage,
    { subscription, hops, prefix, now }: {
      readonly subscription: AmqpSubscription;
      readonly hops: Hops;
      readonly prefix: string;
      readonly now: number;
    },
  ) {
    this.#message = message;
    this.#hops = hops;
    this.#prefix = prefix;
    this.subscription = subscription;
    this.content = readMessage(rawMessage(message), now);
    this.deliveriesBefore = countDeliveries(message);
  }

  async settle(settlement: Settlement, record?: () => Promise<void>): Promise<boolean> {
    if (settlement.to === "front") return this.subscription.requeue(this.#message);
    if (!await this.#move(settlement)) return false;
    await record?.();
    return this.subscription.acknowledge(this.#message);
  }

  async #move(settlement: Exclude<Settlement, { to: "front" }>): Promise<boolean> {
    const { lost } = this.subscription;
    switch (settlement.to) {
      case "done":
        return true;
      case "rung": {
        const queue = rungQueue(this.#prefix, settlement.delayMs);
        return await this.#hops.toQueue(queue, taskMessage(settlement.task), lost);
      }
      case "delay":
      case "later":
        return await this.#hops.toDelay(settlement.delayMs, taskMessage(settlement.task), lost);
      case "failed": {
        const message = this.#failed(settlement);
        return await this.#hops.toQueue(failedQueue(this.#prefix), message, lost);
      }
    }
  }

  #failed(
    { task, failure }: Extract<Settlement, { to: "failed" }>,
  ): ReturnType<typeof failedMessage> {
    if (task !== undefined) return failedTask(task, failure);
    const id = this.content.kind === "task" ? this.content.task.id : this.content.id;
    return failedMessage(id, this.#message, failure);
  }
}

/** Quorum queues count in a header, which counts returns; classic ones only tell that there was one. */
function countDeliveries({ fields, properties }: ConsumeMessage): number {
  const counted: unknown = properties.headers?.["x-delivery-count"];
  if (typeof counted === "number") return counted;
  return fields.redelivered ? 1 : 0;
}
