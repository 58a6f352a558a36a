/**
 * How many messages lie in each queue, asked for on a connection of its own so that nobody's publish
 * or acknowledgement waits behind it.
 *
 * Asked passively: what isn't there is not declared by being looked at. A queue that is missing costs
 * its channel, and the broker writes a line about it; so the delay levels, which exist only once a
 * relay has needed them, are looked for once a connection and otherwise asked for when it is known
 * that they exist, and a queue that was missing is left alone for a while.
 *
 * @module
 */

import type { Channel } from "amqplib";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import { delayTopology } from "./delay_topology.ts";
import { keepLink, orAbort } from "./link.ts";
import type { Link, LinkKeeper } from "./link.ts";
import { queueSpecs } from "./topology.ts";

/** For all queues together, one after the other: a hundred with jitter. Milliseconds. */
const READ_DEADLINE_MS = 4_000;

/** A queue that was missing is not asked for again so soon, milliseconds. */
const MISSING_PAUSE_MS = 10_000;

/** What {@link QueueDepths} is given. */
export interface QueueDepthsOptions extends Pick<Config, "rabbit" | "queues" | "ladder"> {
  /** Whether the delay levels are known to exist. */
  readonly delaysKnown: () => boolean;
  readonly clock: Clock;
}

/** The depths of a relay's queues. */
export class QueueDepths {
  readonly #options: QueueDepthsOptions;
  readonly #queues: readonly string[];
  readonly #levels: readonly string[];
  readonly #keeper: LinkKeeper;
  /** Queues that were missing, and until when (monotonic ms) they are left alone. */
  readonly #missing = new Map<string, number>();
  #levelsFound = false;
  #channel: Channel | undefined;

  /** Begins to connect. */
  constructor(options: QueueDepthsOptions) {
    this.#options = options;
    this.#queues = queueSpecs(options.queues, options.ladder).map(({ name }) => name);
    this.#levels = delayTopology(options.queues).queues.map(({ name }) => name);
    this.#keeper = keepLink({
      rabbit: options.rabbit,
      name: "queue-relay depths",
      clock: options.clock,
      setUp: (link) => this.#setUp(link),
      onChange: () => {},
    });
  }

  /**
   * Ready messages by queue, of those that are there; undefined when the broker can't be asked now.
   * Never rejects. To be called again only when it has settled.
   */
  async read(): Promise<ReadonlyMap<string, number> | undefined> {
    const { link } = this.#keeper;
    if (link === undefined) return undefined;
    try {
      const answered = orAbort(this.#readAll(link), link.lost);
      return await orAbort(answered, AbortSignal.timeout(READ_DEADLINE_MS));
    } catch (error) {
      // A broker that doesn't answer has questions left to answer; a new connection has none.
      link.destroy(`the depths of the queues could not be read: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** Closes the connection; bounded. */
  async close(): Promise<void> {
    await this.#keeper.close();
  }

  async #setUp(link: Link): Promise<void> {
    this.#channel = undefined;
    this.#missing.clear();
    const last = this.#levels.at(-1);
    if (last !== undefined) this.#levelsFound = await this.#depth(link, last) !== undefined;
  }

  async #readAll(link: Link): Promise<ReadonlyMap<string, number>> {
    const hasLevels = this.#levelsFound || this.#options.delaysKnown();
    const asked = hasLevels ? [...this.#queues, ...this.#levels] : this.#queues;
    const now = this.#options.clock.monotonic();
    const depths = new Map<string, number>();
    for (const queue of asked) {
      if ((this.#missing.get(queue) ?? -Infinity) > now) continue;
      const depth = await this.#depth(link, queue);
      if (depth !== undefined) depths.set(queue, depth);
      else this.#missing.set(queue, now + MISSING_PAUSE_MS);
    }
    return depths;
  }

  /** The depth of one queue; undefined when it is not there. */
  async #depth(link: Link, queue: string): Promise<number | undefined> {
    const channel = this.#channel ??= await this.#open(link);
    try {
      return (await channel.checkQueue(queue)).messageCount;
    } catch (error) {
      if (link.lost.aborted) throw error;
      this.#channel = undefined;
      const isMissing = error instanceof Error && "code" in error && error.code === NOT_FOUND;
      if (isMissing) return undefined;
      throw error;
    }
  }

  async #open(link: Link): Promise<Channel> {
    const channel = await link.model.createChannel();
    // Without a listener the error would take the connection down; the call itself rejects as well.
    channel.on("error", () => {});
    return channel;
  }
}

/** The broker's reply code for a queue that isn't there. */
const NOT_FOUND = 404;
