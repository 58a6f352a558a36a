/**
 * The queue of what never succeeded: looked at from its head, and taken out of one by one.
 *
 * Each pass has a connection of its own, opened for it and closed after it: a large one holds up
 * neither publishes nor acknowledgements, and whatever becomes of it, the broker gets back what was
 * not taken. One pass at a time: the next begins when the queue has everything back, or it would see
 * the queue without its head. A message that is held is nobody else's, so two passes, even of two
 * relays, can't both take one.
 *
 * @module
 */

import type { ConsumeMessage } from "amqplib";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import { failedQueue } from "../queue_names.ts";
import type { RawMessage } from "../task.ts";
import { type Link, openLink, orAbort } from "./link.ts";
import { rawMessage } from "./message.ts";
import { QueueWalk } from "./queue_walk.ts";
import { withChannel } from "./topology.ts";

/** A pass that takes longer is broken off, milliseconds: 100,000 messages take 3 to 9 s. */
const PASS_DEADLINE_MS = 60_000;

/** Each portion is so many times the one before it. */
const GROWTH = 4;

/** How long it is waited for the queue to have everything back, and how often it is asked. */
const RETURN_DEADLINE_MS = 5_000;
const RETURN_PAUSE_MS = 10;

/** What is done on a walk through the queue. */
export interface FailedPass {
  /** About how many messages it needs to see. */
  readonly expected: number;
  /** Sees each message from the head of the queue on, in order; "take" hands it to `settle`. */
  look(message: RawMessage): "leave" | "take";
  /** Whether it has seen enough. */
  isEnough(): boolean;
  /** Does something with what was taken, and gives those back that are to leave the queue. */
  settle?(taken: readonly RawMessage[]): Promise<readonly RawMessage[]>;
}

/** How a pass ended. */
export type PassResult =
  /** `total` lay there when it began. */
  | { readonly kind: "passed"; readonly total: number }
  | { readonly kind: "unavailable"; readonly detail: string };

/** The failed queue of a relay. */
export class FailedQueue {
  readonly #options: Pick<Config, "rabbit" | "queues"> & { readonly clock: Clock };
  readonly #queue: string;
  readonly #closing = new AbortController();
  #last: Promise<void> = Promise.resolve();

  constructor(options: Pick<Config, "rabbit" | "queues"> & { readonly clock: Clock }) {
    this.#options = options;
    this.#queue = failedQueue(options.queues.prefix);
  }

  /** Walks through the queue. Settles when the pass has what it wants; never rejects. */
  pass(pass: FailedPass): Promise<PassResult> {
    return this.#inTurn((link, answer) => this.#walk(link, pass, answer));
  }

  /** Removes everything; `total` is how many that were. */
  purge(): Promise<PassResult> {
    return this.#inTurn(async (link, answer) => {
      const { messageCount } = await withChannel(link, (ch) => ch.purgeQueue(this.#queue));
      answer({ kind: "passed", total: messageCount });
    });
  }

  /** Breaks off what is under way; bounded. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("the relay is shutting down"));
    await this.#last;
  }

  #inTurn(
    use: (link: Link, answer: (result: PassResult) => void) => Promise<void>,
  ): Promise<PassResult> {
    const { promise, resolve } = Promise.withResolvers<PassResult>();
    this.#last = this.#last.then(() => this.#connected(use, resolve));
    return promise;
  }

  async #connected(
    use: (link: Link, answer: (result: PassResult) => void) => Promise<void>,
    answer: (result: PassResult) => void,
  ): Promise<void> {
    let link: Link | undefined;
    const { signal: closing } = this.#closing;
    const deadline = AbortSignal.any([closing, AbortSignal.timeout(PASS_DEADLINE_MS)]);
    try {
      deadline.throwIfAborted();
      const opened = link = await openLink(this.#options.rabbit, CONNECTION_NAME, deadline);
      await orAbort(use(opened, answer), AbortSignal.any([opened.lost, deadline]));
    } catch (error) {
      answer({ kind: "unavailable", detail: messageOf(error) });
    }
    await link?.close();
  }

  async #walk(
    link: Link,
    pass: FailedPass,
    answer: (result: PassResult) => void,
  ): Promise<void> {
    const { clock, queues } = this.#options;
    const channel = await link.model.createChannel();
    // Without a listener the error would take the connection down; the calls reject as well.
    channel.on("error", () => {});
    const taken = new Map<RawMessage, ConsumeMessage>();
    let settled = false;
    const onMessage = (message: ConsumeMessage): void => {
      if (settled || pass.isEnough()) return;
      const raw = rawMessage(message);
      if (pass.look(raw) === "take") taken.set(raw, message);
    };
    const walk = new QueueWalk({ channel, queue: this.#queue, clock, onMessage });
    const total = await walk.ready();
    let portion = pass.expected;
    while (!pass.isEnough() && await walk.read(portion)) portion *= GROWTH;
    settled = true;
    const leaving = await pass.settle?.([...taken.keys()]) ?? [];
    for (const raw of leaving) {
      const message = taken.get(raw);
      if (message !== undefined) channel.ack(message);
    }
    taken.clear();
    const isQuorum = queues.type === "quorum";
    if (leaving.length > 0) await walk.settleAcknowledged();
    answer({ kind: "passed", total });
    while (isQuorum && walk.mustGoOn && await walk.read(portion)) portion *= GROWTH;
    const expected = await walk.ready() + walk.held - leaving.length;
    await channel.close();
    await this.#untilReady(link, expected);
  }

  async #untilReady(link: Link, count: number): Promise<void> {
    const { clock } = this.#options;
    const ready = async (): Promise<number> =>
      (await withChannel(link, (channel) => channel.checkQueue(this.#queue))).messageCount;
    const deadline = clock.monotonic() + RETURN_DEADLINE_MS;
    while (await ready() < count && clock.monotonic() < deadline) {
      await clock.sleep(RETURN_PAUSE_MS, link.lost);
    }
  }
}

/** As the broker shows it in its list of connections. */
const CONNECTION_NAME = "queue-relay operators";
