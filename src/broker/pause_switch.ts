/**
 * The switch that pauses delivering, for all relays of a prefix: a durable queue that is there while
 * they are paused. RabbitMQ keeps it over every restart, and shows it to whoever looks for why nothing
 * is delivered; deleting it by hand resumes.
 *
 * Whether it is there is asked once a connection by a passive declare, which closes the channel and
 * writes an error into the broker's log when it isn't. Each second it is asked by a message that is
 * returned then; the return comes before the answer to what is asked after it on the same channel.
 * Messages that are not returned expire at once, and no more than one is kept. While an alarm of the
 * broker blocks who publishes, what was known last holds.
 *
 * It is a classic queue whatever QUEUE_TYPE says: one that exists in the broker's own database. A
 * quorum queue whose broker is killed within seconds of its declaration comes back without a leader
 * (3.10.8, 4.0.5), and whoever publishes to it waits for ever. In a cluster a classic queue can't be
 * reached while its node is down, which must not be taken for its end: only then it is asked for.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Channel } from "amqplib";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import { pausedQueue } from "../queue_names.ts";
import { keepLink, orAbort } from "./link.ts";
import type { Link, LinkKeeper } from "./link.ts";
import { withChannel } from "./topology.ts";

/** How often the switch is looked at, milliseconds: so late other relays pause and resume. */
const LOOK_MS = 1_000;

/** For one look or one turn of the switch; a broker that takes longer is connected anew. */
const ANSWER_DEADLINE_MS = 3_000;

/** The reply codes for a queue that exists with other arguments, or not at all. */
const PRECONDITION_FAILED = 406;
const NOT_FOUND = 404;

/** As it is declared. */
const OPTIONS = { durable: true, arguments: { "x-queue-type": "classic", "x-max-length": 1 } };

/** What came of turning the switch. */
export type SwitchResult =
  | { readonly kind: "done" }
  | { readonly kind: "unavailable"; readonly detail: string };

/** What {@link PauseSwitch} is given. */
export interface PauseSwitchOptions extends Pick<Config, "rabbit" | "queues"> {
  readonly clock: Clock;
  /** Called with each change after the first look. */
  readonly onChange: (paused: boolean) => void;
}

function hasCode(error: unknown, code: number): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

/** Whether delivering is paused: whether the switch is there, within reach or not. */
export async function isPaused(
  link: Link,
  { prefix }: Pick<Config["queues"], "prefix">,
): Promise<boolean> {
  try {
    await withChannel(link, (channel) => channel.checkQueue(pausedQueue(prefix)));
    return true;
  } catch (error) {
    if (!hasCode(error, NOT_FOUND)) throw error;
    // Of a queue that it has and can't use the broker says so: its node is down, it has crashed.
    return !messageOf(error).includes("no queue");
  }
}

/** The switch as one relay knows it. While the broker can't be asked, what was known last holds. */
export class PauseSwitch {
  /** Settles when the switch was looked at for the first time. */
  readonly known: Promise<void>;
  readonly #options: PauseSwitchOptions;
  readonly #queue: string;
  readonly #keeper: LinkKeeper;
  readonly #stopping = new AbortController();
  readonly #firstLook = Promise.withResolvers<void>();
  #paused: boolean | undefined;
  #channel: Channel | undefined;
  #returned = false;
  /** One look or turn after the other: a return doesn't tell which look it belongs to. */
  #last: Promise<unknown> = Promise.resolve();

  /** Begins to connect, and to look. */
  constructor(options: PauseSwitchOptions) {
    this.#options = options;
    this.#queue = pausedQueue(options.queues.prefix);
    this.known = this.#firstLook.promise;
    this.#keeper = keepLink({
      rabbit: options.rabbit,
      name: "queue-relay pause",
      clock: options.clock,
      setUp: (link) => this.#setUp(link),
      onChange: () => {},
    });
    void this.#lookAgainAndAgain();
  }

  /** Whether delivering is paused, as far as it is known. */
  get paused(): boolean {
    return this.#paused ?? false;
  }

  /** Looks now; what was known last when the broker can't be asked. Never rejects. */
  async look(): Promise<boolean> {
    const { link } = this.#keeper;
    if (link !== undefined) await this.#inTurn(link, () => this.#look(link)).catch(() => {});
    return this.paused;
  }

  /** Pauses or resumes, for all relays. Never rejects. */
  async set(paused: boolean): Promise<SwitchResult> {
    const { link } = this.#keeper;
    if (link === undefined) return { kind: "unavailable", detail: "the broker is not connected" };
    try {
      await this.#inTurn(link, () => this.#turn(link, paused));
    } catch (error) {
      return { kind: "unavailable", detail: messageOf(error) };
    }
    return this.#paused === paused
      ? { kind: "done" }
      : { kind: "unavailable", detail: `${this.#queue} was changed by somebody else meanwhile` };
  }

  /** Looks no more and closes the connection; bounded. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#keeper.close();
  }

  async #setUp(link: Link): Promise<void> {
    const channel = await link.model.createChannel();
    channel.on("error", () => {}); // told by its close
    channel.on("close", () => link.destroy("the channel that looks for a pause was closed"));
    channel.on("return", () => this.#returned = true);
    this.#channel = channel;
    this.#last = Promise.resolve(); // whatever waited for the connection before
    await this.#inTurn(link, async () => this.#note(await isPaused(link, this.#options.queues)));
  }

  async #lookAgainAndAgain(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await clock.sleep(LOOK_MS, signal);
      const { link } = this.#keeper;
      if (link === undefined || signal.aborted) continue;
      // The connection may be lost meanwhile; then the next one begins with a look.
      const looked = this.#inTurn(link, () => this.#look(link));
      await looked.catch((error) => {
        if (link.blocked === undefined) link.destroy(messageOf(error));
      });
    }
  }

  async #inTurn(link: Link, act: () => Promise<void>): Promise<void> {
    const acting = this.#last.then(act);
    this.#last = acting.catch(() => {});
    const over = AbortSignal.any([link.lost, AbortSignal.timeout(ANSWER_DEADLINE_MS)]);
    await orAbort(acting, over);
  }

  async #look(link: Link): Promise<void> {
    const channel = this.#channel;
    if (channel === undefined || link.blocked !== undefined) return;
    this.#returned = false;
    channel.publish("", this.#queue, Buffer.alloc(0), { mandatory: true, expiration: "0" });
    await channel.prefetch(1); // changes nothing, and is answered after the return
    if (!this.#returned) this.#note(true);
    else if (this.#paused) this.#note(await isPaused(link, this.#options.queues));
  }

  async #turn(link: Link, paused: boolean): Promise<void> {
    await withChannel<unknown>(
      link,
      (channel) =>
        paused ? channel.assertQueue(this.#queue, OPTIONS) : channel.deleteQueue(this.#queue),
    ).catch((error: unknown) => {
      // With whatever arguments: it is there.
      if (!hasCode(error, PRECONDITION_FAILED)) throw error;
    });
    await this.#look(link);
  }

  #note(paused: boolean): void {
    const before = this.#paused;
    this.#paused = paused;
    this.#firstLook.resolve();
    if (before !== undefined && before !== paused) this.#options.onChange(paused);
  }
}
