/**
 * Moving a task on: the next hop is published and confirmed before the delivery is acknowledged.
 *
 * A hop that is not confirmed is tried again for as long as the delivery is ours, since there is
 * nothing better to do with it: returning it would repeat an attempt that was already made.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { PublishResult } from "../ingest/ports.ts";
import { Delays } from "./delays.ts";
import { Publisher } from "./publisher.ts";
import type { OutgoingMessage } from "./publisher.ts";
import { ensureQueues, queueSpecs } from "./topology.ts";

const log = getLogger(["relay", "broker"]);

/** After this long a hop is published again: rather a second copy than none. Milliseconds. */
const CONFIRM_DEADLINE_MS = 30_000;

/** Between tries, milliseconds. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/** Publishes hops until they are confirmed. */
export class Hops {
  readonly #clock: Clock;
  readonly #delays: Delays;
  readonly #publisher: Publisher;

  constructor(
    { rabbit, queues, ladder, clock }: Pick<Config, "rabbit" | "queues" | "ladder"> & {
      readonly clock: Clock;
    },
  ) {
    this.#clock = clock;
    this.#delays = new Delays(queues, clock);
    this.#publisher = new Publisher({
      rabbit,
      name: "queue-relay hops",
      clock,
      confirmDeadlineMs: CONFIRM_DEADLINE_MS,
      setUp: async (link) => {
        await ensureQueues(link, queueSpecs(queues, ladder));
        this.#delays.moveTo(link);
      },
    });
  }

  /** Whether the queues of the delay levels are known to exist. */
  get delaysKnown(): boolean {
    return this.#delays.known;
  }

  /** To the end of a queue; false when `lost` aborted before it was confirmed. */
  toQueue(queue: string, message: OutgoingMessage, lost: AbortSignal): Promise<boolean> {
    const target = { exchange: "", routingKey: queue };
    return this.#move(queue, message, lost, () => this.#publisher.publish(target, message));
  }

  /** Into the main queue after `delayMs`, rounded up to whole seconds; false as above. */
  toDelay(delayMs: number, message: OutgoingMessage, lost: AbortSignal): Promise<boolean> {
    const due = this.#clock.monotonic() + delayMs;
    const left = (): number => due - this.#clock.monotonic();
    const publish = (): Promise<PublishResult> =>
      this.#delays.publish(this.#publisher, left, message);
    return this.#move(`a delay of ${delayMs / 1000}s`, message, lost, publish);
  }

  /** Closes the connection; bounded. */
  async close(): Promise<void> {
    await this.#publisher.close();
  }

  async #move(
    next: string,
    { options }: OutgoingMessage,
    lost: AbortSignal,
    publish: () => Promise<PublishResult>,
  ): Promise<boolean> {
    for (let tries = 0; !lost.aborted; tries++) {
      const result = await publish();
      if (result.kind === "confirmed") return true;
      log.warning("next hop not confirmed; trying again", {
        task_id: options.messageId,
        next,
        error: result.detail,
      });
      await this.#clock.sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries), lost);
    }
    return false;
  }
}
