/**
 * What tests ask of RabbitMQ: how much lies where, what exactly, and whether all that was accepted
 * is accounted for.
 *
 * Works by AMQP alone, so that a RabbitMQ without the management plugin will do. Reading without
 * taking is a subscription of its own whose channel is closed afterwards, and not `basic.get`: a
 * quorum queue with a single active consumer refuses that (405), and RabbitMQ 3.10 gives messages
 * back in another order after a nack, but not after the closing of a channel. Each reading still
 * counts as a delivery of every message (`x-delivery-count`; the broker's limit is 20 or 100), so
 * poll `depth` and read once.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import amqplib, { type Channel, type ChannelModel, type ConfirmChannel } from "amqplib";
import type { MessageProperties, Options } from "amqplib";
import type { RabbitAddress } from "./environment.ts";
import { eventually, type Patience } from "./eventually.ts";
import { DEFAULT_LADDER, type QueueNames, queueNames } from "./queues.ts";

/** A message as it lies in a queue. */
export interface QueuedMessage {
  readonly queue: string;
  /** The property `messageId`; empty when there is none. */
  readonly id: string;
  readonly body: Uint8Array;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly properties: MessageProperties;
  readonly redelivered: boolean;
}

/** Where the tasks lie that were not delivered. */
export interface Stock {
  /** Id → queue, for the main queue, the rungs and the delay levels. */
  readonly waiting: ReadonlyMap<string, string>;
  /** Id → `relay-reason`. */
  readonly failed: ReadonlyMap<string, string>;
  /** Everything found; more than waiting and failed together when an id lies there twice. */
  readonly messages: readonly QueuedMessage[];
}

/** Runs `fn` with a connection to `rabbit` and closes it afterwards, however `fn` ends. */
export async function withAmqp<T>(
  rabbit: RabbitAddress,
  fn: (amqp: TestAmqp) => T | Promise<T>,
): Promise<T> {
  const { host: hostname, port, user: username, password, vhost = "/", tls } = rabbit;
  const protocol = tls ? "amqps" : "amqp";
  const connection = await amqplib.connect(
    { protocol, hostname, port, username, password, vhost },
    { noDelay: true, ...tls },
  );
  const gone = new Promise<void>((resolve) => connection.once("close", () => resolve()));
  // A test may kill the broker; what is asked of a dead connection rejects by itself.
  connection.on("error", () => {});
  try {
    return await fn(new TestAmqp(connection));
  } finally {
    await Promise.race([gone, connection.close().catch(() => {})]);
  }
}

/** As many as the protocol can say: "no limit" is 2,000 to a quorum queue. */
const PREFETCH = 65_535;

/** See {@link withAmqp}. */
export class TestAmqp {
  readonly #connection: ChannelModel;
  #publishing: Promise<ConfirmChannel> | undefined;
  readonly #found = new Map<string, Promise<number>>();

  constructor(connection: ChannelModel) {
    this.#connection = connection;
  }

  /** Messages that are ready, not counting those a consumer holds. @throws when it doesn't exist */
  async depth(queue: string): Promise<number> {
    return (await this.#check(queue)).messageCount;
  }

  /** Consumers subscribed to a queue. @throws when it does not exist */
  async consumers(queue: string): Promise<number> {
    return (await this.#check(queue)).consumerCount;
  }

  /** The depth of each queue; undefined for one that does not exist. */
  async depths(queues: readonly string[]): Promise<Record<string, number | undefined>> {
    const depths: Record<string, number | undefined> = {};
    for (const queue of queues) {
      depths[queue] = await this.depth(queue).catch((error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      });
    }
    return depths;
  }

  /** Every message of a queue that nobody else consumes, in order; they stay there. */
  async peekAll(queue: string): Promise<QueuedMessage[]> {
    const { messages, channel } = await this.#take(queue);
    await channel.close();
    await eventually(async () => {
      if (await this.depth(queue) < messages.length) throw new Error(`${queue} got nothing back`);
    });
    return messages;
  }

  /** Takes every message out of a queue that nobody else consumes, in order. */
  async drain(queue: string): Promise<QueuedMessage[]> {
    const { messages, channel } = await this.#take(queue);
    channel.ackAll();
    await channel.close();
    return messages;
  }

  /**
   * Publishes as any producer might, and settles when the broker has confirmed.
   *
   * @throws when the queue does not exist: the broker would confirm and drop the message
   */
  async publishRaw(
    queue: string,
    body: string | Uint8Array,
    properties: Options.Publish = {},
  ): Promise<void> {
    const found = this.#found.get(queue) ?? this.depth(queue);
    this.#found.set(queue, found);
    await found;
    this.#publishing ??= this.#connection.createConfirmChannel();
    const channel = await this.#publishing;
    const content = typeof body === "string" ? Buffer.from(body) : Buffer.from(body);
    await new Promise<void>((resolve, reject) => {
      channel.sendToQueue(queue, content, properties, (error) => error ? reject(error) : resolve());
    });
  }

  /** Declares a durable queue as somebody else would, with the broker's defaults. */
  async declareQueue(queue: string): Promise<void> {
    const channel = await this.#channel();
    await channel.assertQueue(queue, { durable: true });
    await channel.close();
  }

  /** Removes a queue with all that is in it. */
  async deleteQueue(queue: string): Promise<void> {
    const channel = await this.#channel();
    await channel.deleteQueue(queue);
    await channel.close();
  }

  /**
   * Removes the queues and exchanges of one relay with all that is in them; tries again when a
   * broker that has just started refuses, because a quorum queue has no leader yet.
   */
  async deletePrefix(prefix: string, ladder: string = DEFAULT_LADDER): Promise<void> {
    const { all, delays, paused } = queueNames(prefix, ladder);
    await eventually(async () => {
      const channel = await this.#channel();
      for (const queue of [...all, ...delays, paused]) await channel.deleteQueue(queue);
      for (const exchange of delays) await channel.deleteExchange(exchange);
      await channel.close();
    });
  }

  /**
   * Looks at everything that lies in the queues at the same time, until `check` passes, and leaves
   * it there. While it looks it holds what it sees, so that no task is missed or seen twice on its
   * way from one queue to the next; no relay may be consuming.
   *
   * @throws what `check` threw last
   */
  async census(
    names: QueueNames,
    check: (stock: Stock) => void,
    patience?: Patience,
  ): Promise<Stock> {
    const waiting = new Map<string, string>();
    const failed = new Map<string, string>();
    const messages: QueuedMessage[] = [];
    const stock: Stock = { waiting, failed, messages };
    const depths = await this.depths([...names.all, ...names.delays]);
    const existing = Object.keys(depths).filter((queue) => depths[queue] !== undefined);
    const channel = await this.#consume(existing, (message) => {
      messages.push(message);
      if (message.queue !== names.failed) waiting.set(message.id, message.queue);
      else failed.set(message.id, String(message.headers["relay-reason"]));
    });
    try {
      await eventually(() => check(stock), patience);
      return stock;
    } finally {
      await channel.close();
    }
  }

  /** Holds all that is ready in `queue` now; closing the channel gives it back. */
  async #take(queue: string): Promise<{ messages: QueuedMessage[]; channel: Channel }> {
    const count = await this.depth(queue);
    const messages: QueuedMessage[] = [];
    const channel = await this.#consume([queue], (message) => messages.push(message));
    await eventually(() => {
      if (messages.length >= count) return;
      throw new Error(`${queue} gave ${messages.length} of ${count}: does somebody else consume?`);
    });
    return { messages, channel };
  }

  async #consume(
    queues: readonly string[],
    onMessage: (message: QueuedMessage) => void,
  ): Promise<Channel> {
    const channel = await this.#channel();
    await channel.prefetch(PREFETCH);
    for (const queue of queues) {
      await channel.consume(queue, (message) => {
        if (message === null) return;
        const { content, fields, properties } = message;
        onMessage({
          queue,
          id: String(properties.messageId ?? ""),
          body: new Uint8Array(content),
          headers: properties.headers ?? {},
          properties,
          redelivered: fields.redelivered,
        });
      });
    }
    return channel;
  }

  async #check(queue: string): Promise<{ messageCount: number; consumerCount: number }> {
    const channel = await this.#channel();
    const answer = await channel.checkQueue(queue);
    await channel.close();
    return answer;
  }

  /** A channel of its own for each question: a refusal closes the channel it was asked on. */
  async #channel(): Promise<Channel> {
    const channel = await this.#connection.createChannel();
    channel.on("error", () => {});
    return channel;
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === 404;
}
