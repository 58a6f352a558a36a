/**
 * One subscription: a channel that consumes the main queue, from its first delivery to its loss.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Channel, ConsumeMessage } from "amqplib";
import type { Subscription } from "../consumer/ports.ts";
import { untilAcknowledged } from "./acknowledged.ts";
import { orAbort } from "./link.ts";

const log = getLogger(["relay", "broker"]);

/** A broker that doesn't answer a cancel or a close within this long is gone, milliseconds. */
const ANSWER_DEADLINE_MS = 2_000;

/** Ours and not the broker's choice, so that a subscription can be cancelled before it is answered. */
const CONSUMER_TAG = "tasks";

/** A consuming channel. Deliveries are acknowledged on the channel that they came on, or not at all. */
export class AmqpSubscription implements Subscription {
  readonly #channel: Channel;
  readonly #lost = new AbortController();
  readonly #ended = new AbortController();
  #consuming = false;
  #hasAcknowledged = false;

  /** @param followsAnother whether another consumer has the queue now */
  constructor(channel: Channel, readonly followsAnother: boolean) {
    this.#channel = channel;
    channel.on("error", (error) => log.error("consuming channel failed", { error: error.message }));
    channel.on("close", () => this.#lose());
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Aborts when no more deliveries come: cancelled by either side, or lost. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Begins to consume, unless it was cancelled before.
   *
   * @throws {Error} when the broker refuses.
   */
  async consume(queue: string, onMessage: (message: ConsumeMessage) => void): Promise<void> {
    if (this.ended.aborted) return;
    this.#consuming = true;
    await this.#channel.consume(queue, (message) => {
      if (message !== null) return onMessage(message);
      log.error("the broker ended the subscription; was the queue deleted?", { queue });
      this.#ended.abort();
    }, { consumerTag: CONSUMER_TAG });
  }

  /** Settles when the broker has answered on this channel; without an answer it is lost. */
  async verify(prefetch: number): Promise<void> {
    if (this.lost.aborted) return;
    try {
      // Changes nothing, and is answered. Throws at once when the channel is known to be closed.
      await orAbort(this.#channel.prefetch(prefetch), this.lost);
    } catch {
      this.#lose();
    }
  }

  /** Takes no more deliveries; those at hand can still be settled. */
  async cancel(): Promise<void> {
    if (this.ended.aborted) return;
    this.#ended.abort();
    if (!this.#consuming) return;
    const late = AbortSignal.timeout(ANSWER_DEADLINE_MS);
    await orAbort(this.#channel.cancel(CONSUMER_TAG), late).catch(() => this.#lose());
  }

  /** Settles when the queue has heard of all acknowledgements; to be cancelled before. Bounded. */
  async settleAcknowledged(queue: string): Promise<void> {
    if (this.lost.aborted || !this.#hasAcknowledged) return;
    const late = AbortSignal.any([this.lost, AbortSignal.timeout(ANSWER_DEADLINE_MS)]);
    const heard = untilAcknowledged(this.#channel, queue, { consumerTag: `${CONSUMER_TAG}-end` });
    await orAbort(heard, late).catch(() => {});
  }

  /** Closes the channel; the broker takes back what was not acknowledged. Bounded. */
  async close(): Promise<void> {
    const late = AbortSignal.timeout(ANSWER_DEADLINE_MS);
    if (!this.lost.aborted) await orAbort(this.#channel.close(), late).catch(() => {});
    this.#lose();
  }

  /** Acknowledges; false when it is too late. */
  acknowledge(message: ConsumeMessage): boolean {
    this.#hasAcknowledged = true;
    return this.#settle(() => this.#channel.ack(message));
  }

  /** Returns the message to where it was; false when it is too late. */
  requeue(message: ConsumeMessage): boolean {
    return this.#settle(() => this.#channel.nack(message, false, true));
  }

  #settle(act: () => void): boolean {
    if (this.lost.aborted) return false;
    try {
      act();
      return true;
    } catch {
      return false; // a channel that is closing throws; its `close` event is on the way
    }
  }

  #lose(): void {
    this.#ended.abort();
    this.#lost.abort();
  }
}
