/**
 * Deliveries without a broker: they note how they were settled.
 *
 * @module
 */

import type { Delivery, Settlement, Subscription } from "../../src/consumer/ports.ts";
import type { Content, Task } from "../../src/task.ts";
import { aTask } from "./tasks.ts";

/** A subscription that a test loses when it likes. */
export class FakeSubscription implements Subscription {
  readonly followsAnother = false;
  readonly #lost = new AbortController();

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  lose(): void {
    this.#lost.abort();
  }
}

/** A delivery, and what became of it. */
export interface FakeDelivery extends Delivery {
  /** In the order in which `settle` was called; one, if all is well. */
  readonly settlements: Settlement[];
}

/** What a test may want to be different about a delivery. */
export interface DeliveryOptions {
  readonly subscription: FakeSubscription;
  readonly deliveriesBefore?: number;
  readonly task?: Partial<Task>;
  /** Instead of a task. */
  readonly problem?: string;
  /** What `settle` waits for, as for a confirm. */
  readonly confirmed?: Promise<void>;
}

/** A delivery of the task `id`. */
export function fakeDelivery(id: string, options: DeliveryOptions): FakeDelivery {
  const { subscription, deliveriesBefore = 0, problem, confirmed } = options;
  const content: Content = problem === undefined
    ? { kind: "task", task: aTask({ ...options.task, id }) }
    : { kind: "invalid", id, problem };
  const settlements: Settlement[] = [];
  return {
    content,
    deliveriesBefore,
    subscription,
    settlements,
    async settle(settlement, record): Promise<boolean> {
      settlements.push(settlement);
      await confirmed;
      if (subscription.lost.aborted) return false;
      await record?.();
      return !subscription.lost.aborted;
    },
  };
}
