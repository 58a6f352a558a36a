/**
 * What the main thread and the consumer's Worker say to each other.
 *
 * @module
 */

import type { SubscriberState } from "../broker/subscriber.ts";
import type { ConsumerReport } from "../consumer_report.ts";
import type { ConsumerConfig } from "./consumer.ts";

/** From the main thread to the Worker. */
export type ToWorker =
  | {
    readonly type: "start";
    readonly config: ConsumerConfig;
    readonly relay: string;
    readonly firstEver: boolean;
    readonly paused: boolean;
  }
  | { readonly type: "pause"; readonly paused: boolean }
  /** The answer to `look`. */
  | { readonly type: "looked"; readonly paused: boolean }
  /** Asks for a `report`. */
  | { readonly type: "report" }
  | { readonly type: "stop"; readonly graceMs: number };

/** From the Worker to the main thread. */
export type FromWorker =
  | { readonly type: "state"; readonly state: SubscriberState }
  /** Asks whether delivering is paused at this moment. */
  | { readonly type: "look" }
  | { readonly type: "report"; readonly report: ConsumerReport }
  | { readonly type: "stopped" };
