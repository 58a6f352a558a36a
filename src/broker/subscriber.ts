/**
 * Subscribing to the main queue, on a connection of its own so that a publisher that the broker
 * blocks does not stop acknowledgements. The next hops are published on another connection, for the
 * same reason.
 *
 * As long as the connection lives there is one subscription after another: each has its own channel
 * and ends when the broker cancels it (the queue was deleted) or closes its channel, or when the
 * consumer is suspended. A delivery is bound to its subscription; settled too late, it is dropped,
 * because the broker has already taken it back.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { Delivery, TaskSource } from "../consumer/ports.ts";
import { messageOf } from "../errors.ts";
import { mainQueue } from "../queue_names.ts";
import { AmqpDelivery } from "./delivery.ts";
import { Hops } from "./hops.ts";
import { eitherAborts, keepLink } from "./link.ts";
import type { Link, LinkKeeper } from "./link.ts";
import { AmqpSubscription } from "./subscription.ts";
import { ensureQueues, queueSpecs } from "./topology.ts";

const log = getLogger(["relay", "broker"]);

/** Between the end of a subscription and the next on the same connection, milliseconds. */
const RESUBSCRIBE_PAUSE_MS = 200;

/** How the consumer stands with the broker. */
export type SubscriberState =
  | "connecting"
  | "consuming"
  /** Another relay consumes; the broker gives this one nothing until that one is gone. */
  | "standby"
  | "suspended";

/** What a subscriber is given. */
export interface SubscriberOptions extends Pick<Config, "rabbit" | "queues" | "ladder"> {
  /** Deliveries held unacknowledged, at most. */
  readonly prefetch: number;
  readonly clock: Clock;
  readonly onDelivery: (delivery: Delivery) => void;
  readonly onState: (state: SubscriberState) => void;
}

/** Consumes the main queue until it is closed; begins to connect when it is made. */
export class Subscriber implements TaskSource {
  readonly #options: SubscriberOptions;
  readonly #queue: string;
  readonly #hops: Hops;
  readonly #keeper: LinkKeeper;
  readonly #stopping = new AbortController();
  #current: AmqpSubscription | undefined;
  /** Aborts at the end of a suspension; undefined while there is none. */
  #suspension: AbortController | undefined;

  constructor(options: SubscriberOptions) {
    this.#options = options;
    this.#queue = mainQueue(options.queues.prefix);
    this.#hops = new Hops(options);
    this.#keeper = keepLink({
      rabbit: options.rabbit,
      name: "queue-relay consumer",
      clock: options.clock,
      setUp: (link) => this.#setUp(link),
      onChange: (open) => open || options.onState("connecting"),
    });
  }

  /** Whether the queues of the delay levels are known to exist. */
  get delaysKnown(): boolean {
    return this.#hops.delaysKnown;
  }

  suspend(): void {
    this.#suspension ??= new AbortController();
    this.#options.onState("suspended");
    void this.#current?.cancel();
  }

  resume(): void {
    this.#suspension?.abort();
    this.#suspension = undefined;
  }

  /** Settles when the broker has answered, so that what it said before is known, or is gone. */
  async verify(): Promise<void> {
    await this.#current?.verify(this.#options.prefetch);
  }

  /** Takes no more deliveries; those at hand can be settled until {@link close}. */
  async stopConsuming(): Promise<void> {
    this.#stopping.abort();
    await this.#current?.cancel();
  }

  /** Closes the connections; what is not settled goes back to the queue. Bounded. */
  async close(): Promise<void> {
    this.#stopping.abort();
    // The channel first: amqplib sends a connection's close past what its channels have yet to send,
    // and acknowledgements that come after it are not heard.
    if (this.#current) await this.#end(this.#current);
    await Promise.all([this.#keeper.close(), this.#hops.close()]);
  }

  /** Subscribes, and leaves the subscriptions after the first to go on by themselves. */
  async #setUp(link: Link): Promise<void> {
    const first = await this.#subscribe(link);
    this.#goOn(link, first).catch((error) => link.destroy(messageOf(error)));
  }

  async #goOn(link: Link, first: AmqpSubscription): Promise<void> {
    let subscription = first;
    while (true) {
      await eitherAborts(subscription.ended, link.lost, this.#stopping.signal);
      await this.#pause(link);
      if (link.lost.aborted || this.#stopping.signal.aborted) return;
      await this.#end(subscription);
      subscription = await this.#subscribe(link);
    }
  }

  async #end(subscription: AmqpSubscription): Promise<void> {
    await subscription.settleAcknowledged(this.#queue);
    await subscription.close();
  }

  async #pause(link: Link): Promise<void> {
    const { signal } = this.#stopping;
    if (this.#suspension) await eitherAborts(this.#suspension.signal, link.lost, signal);
    else await this.#options.clock.sleep(RESUBSCRIBE_PAUSE_MS, signal);
  }

  async #subscribe(link: Link): Promise<AmqpSubscription> {
    const { queues, ladder, prefetch, onState } = this.#options;
    const declared = await ensureQueues(link, queueSpecs(queues, ladder));
    if (declared.length > 0) log.info("queues declared", { queues: declared });
    const channel = await link.model.createChannel();
    await channel.prefetch(prefetch);
    // Asked before consuming: afterwards a quorum queue counts one consumer, whoever that is.
    const standby = (await channel.checkQueue(this.#queue)).consumerCount > 0;
    const subscription = new AmqpSubscription(channel, standby);
    this.#current = subscription;
    // A connection that comes back while nothing may be consumed is kept for what is in flight.
    if (this.#stopping.signal.aborted || this.#suspension) await subscription.cancel();
    let state: SubscriberState = standby ? "standby" : "consuming";
    onState(this.#suspension ? "suspended" : state);
    await subscription.consume(this.#queue, (message) => {
      if (state === "standby") onState(state = "consuming");
      this.#options.onDelivery(
        new AmqpDelivery(message, {
          subscription,
          hops: this.#hops,
          prefix: queues.prefix,
          now: this.#options.clock.now(),
        }),
      );
    });
    return subscription;
  }
}
