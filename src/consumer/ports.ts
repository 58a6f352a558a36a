/**
 * What the consumer needs of a broker: deliveries that can be settled. Nothing here is AMQP, so
 * that another broker fits behind it.
 *
 * @module
 */

import type { Content, FailureReason, Task } from "../task.ts";

/** Why and with what a task goes to the failed queue. */
export interface Failure {
  readonly reason: FailureReason;
  /** Milliseconds since the epoch. */
  readonly failedAt: number;
  readonly lastStatus?: number;
  readonly lastError?: string;
}

/** Where a delivery goes when its handling is over. */
export type Settlement =
  /** It is done: acknowledged. */
  | { readonly to: "done" }
  /** The task as it is now goes to the rung with this delay; 0 is the end of the main queue. */
  | { readonly to: "rung"; readonly task: Task; readonly delayMs: number }
  /** The task as it is now goes back into the main queue after this long, which is no rung. */
  | { readonly to: "delay"; readonly task: Task; readonly delayMs: number }
  /** To the failed queue; `task` is absent for a message that can't be understood. */
  | { readonly to: "failed"; readonly task?: Task; readonly failure: Failure }
  /** Unchanged, back into the main queue after about this long. */
  | { readonly to: "later"; readonly task: Task; readonly delayMs: number }
  /** Unchanged, back to where it was in the main queue. */
  | { readonly to: "front" };

/** One message in this relay's hands. */
export interface Delivery {
  readonly content: Content;
  /** How many times it was delivered before, as far as the broker tells. */
  readonly deliveriesBefore: number;
  /** The subscription that it came by. */
  readonly subscription: Subscription;
  /**
   * Performs the settlement: the next hop is published and confirmed, then `record` is awaited, then
   * the delivery is acknowledged. False when the subscription was lost first; then the broker
   * delivers it again.
   */
  settle(settlement: Settlement, record?: () => Promise<void>): Promise<boolean>;
}

/** The time from one subscribing to the loss or end of it. */
export interface Subscription {
  /** Aborts when deliveries of this subscription can no longer be settled. */
  readonly lost: AbortSignal;
  /** Whether another consumer had the queue when this one subscribed. */
  readonly followsAnother: boolean;
}

/** Where deliveries come from. */
export interface TaskSource {
  /** Takes no deliveries until {@link resume}; what is held can still be settled. */
  suspend(): void;
  resume(): void;
}
