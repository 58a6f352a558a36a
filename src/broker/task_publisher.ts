/**
 * The publisher of ingest: tasks into the main queue, at once or when they are due, each confirmed.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { PublishResult, TaskPublisher } from "../ingest/ports.ts";
import { mainQueue } from "../queue_names.ts";
import type { Task } from "../task.ts";
import { Delays } from "./delays.ts";
import { taskMessage } from "./message.ts";
import { Publisher } from "./publisher.ts";
import type { Target } from "./publisher.ts";
import { ensureQueues, queueSpecs, SAVED_AFTER_MS, TopologyError } from "./topology.ts";

/**
 * After this long a client is told that the outcome is unknown, milliseconds. Together with the wait
 * for the delay levels it must stay below ingest's PUBLISH_DEADLINE_MS.
 */
const CONFIRM_DEADLINE_MS = 5_000;

/** Puts tasks into the main queue. */
export class BrokerTaskPublisher implements TaskPublisher {
  readonly #publisher: Publisher;
  readonly #main: Target;
  readonly #delays: Delays;
  readonly #clock: Clock;

  /**
   * Settles when the queues were first looked at and found or made right, with the names of those
   * that had to be declared.
   *
   * @throws {TopologyError} (rejects) when one exists with other arguments.
   */
  readonly declared: Promise<readonly string[]>;

  /** Begins to connect. */
  constructor(
    { rabbit, queues, ladder, clock }: Pick<Config, "rabbit" | "queues" | "ladder"> & {
      readonly clock: Clock;
    },
  ) {
    this.#clock = clock;
    this.#delays = new Delays(queues, clock);
    this.#main = { exchange: "", routingKey: mainQueue(queues.prefix) };
    const declared = Promise.withResolvers<readonly string[]>();
    this.declared = declared.promise;
    this.#publisher = new Publisher({
      rabbit,
      name: "queue-relay publisher",
      clock,
      confirmDeadlineMs: CONFIRM_DEADLINE_MS,
      setUp: async (link) => {
        try {
          const names = await ensureQueues(link, queueSpecs(queues, ladder));
          if (names.length > 0) await clock.sleep(SAVED_AFTER_MS, link.lost);
          declared.resolve(names);
        } catch (error) {
          if (error instanceof TopologyError) declared.reject(error);
          throw error;
        }
        this.#delays.moveTo(link);
      },
    });
  }

  /** The state in a word or two, and whether a task published now would be taken. */
  get health(): { readonly ready: boolean; readonly state: string } {
    return this.#publisher.health;
  }

  /** Whether the queues of the delay levels are known to exist. */
  get delaysKnown(): boolean {
    return this.#delays.known;
  }

  publish(task: Task): Promise<PublishResult> {
    const { notBefore } = task;
    if (notBefore === undefined) return this.#publisher.publish(this.#main, taskMessage(task));
    const left = (): number => notBefore - this.#clock.now();
    return this.#delays.publish(this.#publisher, left, taskMessage(task));
  }

  /** Closes the connection; what is not confirmed by then is settled as unknown. Bounded. */
  async close(): Promise<void> {
    await this.#publisher.close();
  }
}
