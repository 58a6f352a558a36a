/**
 * Publishing with confirms: a message counts as published when the broker says that it has it.
 *
 * Every publish is `mandatory`, because RabbitMQ confirms what it could not route anywhere; only a
 * returned message tells (https://www.rabbitmq.com/docs/confirms#when-publishes-are-confirmed).
 * A confirm that does not come in time means *unknown*: the broker may have the message or not.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { getLogger } from "@logtape/logtape";
import type { ConfirmChannel, Options } from "amqplib";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import type { PublishResult } from "../ingest/ports.ts";
import { keepLink } from "./link.ts";
import type { Link, LinkKeeper } from "./link.ts";

const log = getLogger(["relay", "broker"]);

/** Beyond this many messages or bytes without a confirm, publishes are refused at once. */
const MOST_OUTSTANDING = 20_000;
const MOST_OUTSTANDING_BYTES = 64 * 1024 * 1024;

/** How often outstanding publishes are looked over for their deadline, milliseconds. */
const SWEEP_MS = 100;

const CONNECTION_LOST = "the connection was lost before the broker's confirm";

/** A message on its way to a queue. */
export interface OutgoingMessage {
  readonly body: Uint8Array;
  /** Options of the publish: id, content type, headers. */
  readonly options: Options.Publish & { readonly messageId: string };
}

/** Where a message is published: a queue through the default exchange, or an exchange and a key. */
export interface Target {
  readonly exchange: string;
  readonly routingKey: string;
}

/** What a publisher is given. */
export interface PublisherOptions {
  readonly rabbit: Config["rabbit"];
  readonly name: string;
  readonly clock: Clock;
  /** Declares what must be there before anything is published. */
  readonly setUp: (link: Link) => Promise<void>;
  /** After this long without a confirm the result is unknown, milliseconds. */
  readonly confirmDeadlineMs: number;
  /** Called when the connection was set up, and when it was lost. */
  readonly onChange?: (open: boolean) => void;
}

interface Outstanding {
  readonly settle: (result: PublishResult) => void;
  readonly bytes: number;
  readonly deadline: number;
}

/** Publishes on a connection of its own. */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #keeper: LinkKeeper;
  /** In the order of their deadlines. */
  readonly #outstanding = new Set<Outstanding>();
  readonly #returned = new Set<string>();
  #outstandingBytes = 0;
  #channel: ConfirmChannel | undefined;
  #sweeper: ReturnType<typeof setInterval> | undefined;
  #restoring = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#keeper = keepLink({
      ...options,
      setUp: (link) => this.#setUp(link),
      onChange: (open) => options.onChange?.(open),
    });
  }

  /** The state in a word or two, and whether a publish made now would be taken. */
  get health(): { readonly ready: boolean; readonly state: string } {
    const { link } = this.#keeper;
    if (link === undefined) return { ready: false, state: "disconnected" };
    if (link.blocked !== undefined) return { ready: false, state: `blocked: ${link.blocked}` };
    return { ready: true, state: "connected" };
  }

  /** Publishes and settles with what became of it; never rejects. */
  publish(target: Target, message: OutgoingMessage): Promise<PublishResult> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.resolve({ kind: "unavailable", detail: refusal });
    return new Promise((resolve) => {
      const outstanding = this.#add(message.body.length, resolve);
      try {
        this.#send(target, message, outstanding);
      } catch (error) {
        // A closed channel throws at once, and so does what can't be encoded.
        this.#settle(outstanding, { kind: "unavailable", detail: messageOf(error) });
      }
    });
  }

  /** Sets the open connection up once more; if that fails, it is opened anew. */
  async setUpAgain(): Promise<void> {
    const { link } = this.#keeper;
    if (link === undefined) return;
    await this.#options.setUp(link).catch((error) => link.destroy(messageOf(error)));
  }

  /** Closes the connection; what is outstanding is settled as unknown. Bounded. */
  async close(): Promise<void> {
    await this.#keeper.close();
    this.#settleAll("the relay is closing its connection");
  }

  #refusal(): string | undefined {
    const { health } = this;
    if (!health.ready) return `the broker does not take tasks now (${health.state})`;
    const full = this.#outstanding.size >= MOST_OUTSTANDING ||
      this.#outstandingBytes >= MOST_OUTSTANDING_BYTES;
    return full ? "too many tasks wait for the broker's confirm" : undefined;
  }

  #send(target: Target, { body, options }: OutgoingMessage, outstanding: Outstanding): void {
    this.#channel?.publish(
      target.exchange,
      target.routingKey,
      Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      { ...options, persistent: true, mandatory: true },
      (error: unknown) =>
        this.#settle(outstanding, this.#readConfirm(error, options.messageId, target)),
    );
  }

  /** The broker returns an unroutable message right before it confirms it. */
  #readConfirm(error: unknown, id: string, target: Target): PublishResult {
    if (this.#returned.delete(id)) {
      const place = target.exchange || target.routingKey;
      return { kind: "unavailable", detail: `the broker has no queue behind ${place}` };
    }
    if (!error) return { kind: "confirmed" };
    return messageOf(error) === "message nacked"
      ? { kind: "unavailable", detail: "the broker refused the task" }
      : { kind: "unknown", detail: CONNECTION_LOST };
  }

  async #setUp(link: Link): Promise<void> {
    await this.#options.setUp(link);
    const channel = await link.model.createConfirmChannel();
    channel.on(
      "error",
      (error) => log.error("publishing channel failed", { error: error.message }),
    );
    channel.on("return", (message) => {
      this.#returned.add(String(message.properties.messageId));
      this.#restore(message.fields.exchange || message.fields.routingKey);
    });
    channel.on("close", () => {
      this.#channel = undefined;
      this.#settleAll(CONNECTION_LOST);
      link.destroy("the publishing channel was closed");
    });
    this.#channel = channel;
  }

  /** A queue, or one behind this exchange, was deleted since the connection was set up. */
  #restore(queue: string): void {
    if (this.#restoring) return;
    this.#restoring = true;
    log.error("a queue is not there any more; declaring it again", { queue });
    this.setUpAgain().finally(() => this.#restoring = false);
  }

  #add(bytes: number, settle: (result: PublishResult) => void): Outstanding {
    const deadline = this.#options.clock.monotonic() + this.#options.confirmDeadlineMs;
    const outstanding = { settle, bytes, deadline };
    this.#outstanding.add(outstanding);
    this.#outstandingBytes += bytes;
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS);
    return outstanding;
  }

  #settle(outstanding: Outstanding, result: PublishResult): void {
    if (!this.#outstanding.delete(outstanding)) return;
    this.#outstandingBytes -= outstanding.bytes;
    outstanding.settle(result);
  }

  #settleAll(detail: string): void {
    for (const outstanding of this.#outstanding) {
      this.#settle(outstanding, { kind: "unknown", detail });
    }
  }

  /** One timer for all deadlines: a timer for each publish was a tenth of its cost. */
  #sweep(): void {
    const now = this.#options.clock.monotonic();
    for (const outstanding of this.#outstanding) {
      if (outstanding.deadline > now) return;
      const detail = `no confirm within ${this.#options.confirmDeadlineMs} ms`;
      this.#settle(outstanding, { kind: "unknown", detail });
    }
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }
}
