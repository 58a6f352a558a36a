/**
 * Publishing with a delay: the delay levels are declared when a connection first needs them.
 *
 * Everybody who needs them meanwhile waits for the same declaration, since a publish to an exchange
 * that isn't there costs the channel. When they can't be declared, only what is delayed is refused:
 * plain tasks go on.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { messageOf } from "../errors.ts";
import type { PublishResult } from "../ingest/ports.ts";
import { mainQueue } from "../queue_names.ts";
import { delayTarget, ensureDelayLevels } from "./delay_topology.ts";
import { orAbort } from "./link.ts";
import type { Link } from "./link.ts";
import type { OutgoingMessage, Publisher } from "./publisher.ts";
import { SAVED_AFTER_MS } from "./topology.ts";

const log = getLogger(["relay", "broker"]);

/** A publish waits for the levels at most this long, milliseconds; it takes them about two seconds. */
const LONGEST_WAIT_MS = 4_000;

/** A connection, and how far the levels are on it. */
interface Place {
  readonly link: Link;
  /** Gives what is wrong, if anything is. */
  declaring?: Promise<string | undefined> | undefined;
  declared: boolean;
}

/** The delay levels as one publisher uses them. */
export class Delays {
  readonly #queues: Config["queues"];
  readonly #clock: Clock;
  #place: Place | undefined;
  #known = false;

  constructor(queues: Config["queues"], clock: Clock) {
    this.#queues = queues;
    this.#clock = clock;
  }

  /** Whether the levels' queues are known to exist. */
  get known(): boolean {
    return this.#known;
  }

  /** From now on the publisher uses this connection, or the same one after something was deleted. */
  moveTo(link: Link): void {
    this.#place = { link, declared: false };
  }

  /**
   * Publishes so that the message is in the main queue when `left` has passed, rounded up to whole
   * seconds. Never rejects.
   *
   * @param left milliseconds; asked when the levels are there, since declaring them takes a while.
   */
  async publish(
    publisher: Publisher,
    left: () => number,
    message: OutgoingMessage,
  ): Promise<PublishResult> {
    const problem = await this.#declared();
    if (problem !== undefined) return { kind: "unavailable", detail: problem };
    const { prefix } = this.#queues;
    const delayMs = left();
    const target = delayMs > 0
      ? delayTarget(prefix, delayMs)
      : { exchange: "", routingKey: mainQueue(prefix) };
    return await publisher.publish(target, message);
  }

  async #declared(): Promise<string | undefined> {
    const place = this.#place;
    // Without a connection the publisher refuses by itself.
    if (place === undefined || place.declared) return undefined;
    const declaring = place.declaring ??= this.#declare(place);
    const decided = new AbortController();
    const late = this.#clock.sleep(LONGEST_WAIT_MS, decided.signal)
      .then(() => "the queues for delays are still being declared");
    const problem = await Promise.race([declaring, late]);
    decided.abort();
    return problem;
  }

  async #declare(place: Place): Promise<string | undefined> {
    const { link } = place;
    try {
      const isNew = await orAbort(ensureDelayLevels(link, this.#queues), link.lost);
      if (isNew) await this.#clock.sleep(SAVED_AFTER_MS, link.lost);
      place.declared = true;
      this.#known = true;
      return undefined;
    } catch (error) {
      place.declaring = undefined; // whoever comes next tries again
      const problem = `the queues for delays could not be declared: ${messageOf(error)}`;
      log.error("queues for delays not declared", { error: messageOf(error) });
      return problem;
    }
  }
}
