/**
 * Reading a queue from its head without taking anything out of it, in an order that stays.
 *
 * What is read is held unacknowledged and given back by the closing of the channel. How RabbitMQ lays
 * it back was measured on 3.10.8 and 4.0.5, with quorum and classic queues:
 *
 *     given back by                                  quorum (3.10.8)   classic
 *     basic.get, then the channel's close            scrambled         as it was
 *     nack(multiple); nacks one by one               scrambled*        as it was
 *     close, one consumer                            as it was         as it was
 *     close, several consumers, tags by chance       by their tags     as it was
 *     close, several consumers, tags in their order  as it was         as it was
 *
 * (*) beyond a few dozen at a time. So one consumer after another reads a portion, each with a tag
 * that sorts after the one before, and the channel is closed. A quorum queue lays what it is given
 * back behind what was given back before, in front of what nobody has seen: a walk that ends among
 * the former must therefore go on to their end, which {@link QueueWalk.mustGoOn} tells.
 *
 * @module
 */

import type { Channel, ConsumeMessage } from "amqplib";
import type { Clock } from "../clock.ts";
import { untilAcknowledged } from "./acknowledged.ts";

/** A quorum queue of 3.10 sorts the tags of up to 32 consumers. */
const MOST_PORTIONS = 30;
const LARGEST_PORTION = 20_000;

/** Without a message for this long, the queue is asked whether it has any left. Milliseconds. */
const SILENCE_MS = 250;

/** One walk, on a channel of its own. */
export class QueueWalk {
  readonly #channel: Channel;
  readonly #queue: string;
  readonly #clock: Clock;
  readonly #onMessage: (message: ConsumeMessage) => void;
  #held = 0;
  #portions = 0;
  #lastWasReturned = false;

  constructor({ channel, queue, clock, onMessage }: {
    readonly channel: Channel;
    readonly queue: string;
    readonly clock: Clock;
    /** Called with each message, in the order of the queue. */
    readonly onMessage: (message: ConsumeMessage) => void;
  }) {
    this.#channel = channel;
    this.#queue = queue;
    this.#clock = clock;
    this.#onMessage = onMessage;
  }

  /** Messages that were read so far. */
  get held(): number {
    return this.#held;
  }

  /** Whether ending here would leave a quorum queue in another order. */
  get mustGoOn(): boolean {
    return this.#lastWasReturned;
  }

  /** How many messages are still to be read. */
  async ready(): Promise<number> {
    return (await this.#channel.checkQueue(this.#queue)).messageCount;
  }

  /** Reads up to so many more messages; false when there are no more, or no more can be held. */
  async read(count: number): Promise<boolean> {
    const portion = Math.min(count, LARGEST_PORTION, await this.ready());
    if (portion === 0 || this.#portions >= MOST_PORTIONS) return false;
    const consumerTag = this.#nextTag();
    const full = Promise.withResolvers<void>();
    const before = this.#held;
    await this.#channel.prefetch(portion);
    await this.#channel.consume(this.#queue, (message) => {
      if (message === null) return full.reject(new Error(`${this.#queue} was deleted`));
      this.#hold(message);
      if (this.#held - before === portion) full.resolve();
    }, { consumerTag });
    await this.#untilFullOrEmpty(full.promise);
    await this.#channel.cancel(consumerTag);
    return this.#held > before;
  }

  /** Settles when the queue has heard of all that was acknowledged. */
  async settleAcknowledged(): Promise<void> {
    await untilAcknowledged(this.#channel, this.#queue, {
      consumerTag: this.#nextTag(),
      onMessage: (message) => this.#hold(message),
    });
  }

  #nextTag(): string {
    return `walk-${String(++this.#portions).padStart(2, "0")}`;
  }

  #hold(message: ConsumeMessage): void {
    this.#held++;
    this.#lastWasReturned = message.fields.redelivered;
    this.#onMessage(message);
  }

  /** Somebody else may take what was counted. */
  async #untilFullOrEmpty(full: Promise<void>): Promise<void> {
    const over = new AbortController();
    const empty = async (): Promise<void> => {
      for (let silentSince = -1; !over.signal.aborted;) {
        const seen = this.#held;
        await this.#clock.sleep(SILENCE_MS, over.signal);
        if (over.signal.aborted || this.#held > seen) continue;
        if (silentSince === seen) return;
        if (await this.ready() === 0) silentSince = seen;
      }
    };
    try {
      await Promise.race([full, empty()]);
    } finally {
      over.abort();
    }
  }
}
