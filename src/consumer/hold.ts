/**
 * How much a relay holds unacknowledged, and for how long at most. Pure.
 *
 * RabbitMQ closes the channel of a consumer that holds a delivery for half an hour
 * (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout), so nothing is held for more
 * than five minutes: no more is prefetched than is begun within {@link HOLD_MS}, and when the next
 * slot is further away than that, what is held goes back and the consumer pauses.
 *
 * @module
 */

import type { Config } from "../config.ts";
import type { Waits } from "./waiting_line.ts";

/** The longest wait that is foreseen with deliveries in hand, milliseconds. */
export const HOLD_MS = 120_000;

/** How long a delivery may wait for its slot; what remains to five minutes is for its request. */
export const LONGEST_WAITS: Waits = { foreseeable: HOLD_MS, altogether: 180_000 };

/** The prefetch count: what was configured, or less when the limit or the timeout is slow. */
export function effectivePrefetch(
  { consumer, limit, backend }: Pick<Config, "consumer" | "limit"> & {
    readonly backend: Pick<Config["backend"], "timeoutMs">;
  },
): number {
  const byLimit = Math.floor(limit.maxRequests * HOLD_MS / limit.windowMs);
  const byTimeout = consumer.concurrency * (1 + Math.floor(HOLD_MS / backend.timeoutMs));
  return Math.max(1, Math.min(consumer.prefetch, byLimit, byTimeout));
}
