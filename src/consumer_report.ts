/**
 * What the consumer tells of itself when it is asked: its metrics, and how it stands at that moment.
 *
 * Shared, as it travels from the consumer's thread to operators' HTTP, and neither knows the other.
 *
 * @module
 */

import type { MetricReport } from "./metric_report.ts";

/** The gate in front of the backend. */
export interface GateStanding {
  /** `rising`: open again, at less than the full limit. `probing`: one request tries, or the next will. */
  readonly state: "open" | "closed" | "probing" | "rising";
  /** What closed it; null when it is open. */
  readonly reason: "retry_after" | "breaker" | null;
  /** When it may open, milliseconds since the epoch; null when it is open, or when that isn't known. */
  readonly until: number | null;
}

/** What a consumer holds. Moments are milliseconds since the epoch. */
export interface HeldStanding {
  /** Deliveries that are held unacknowledged, those under way included. */
  readonly held: number;
  /** Since when the oldest held task that has not begun has been due; null: there is none. */
  readonly dueSince: number | null;
  /** The same of what was given back or lost, until deliveries come again: a lower bound. */
  readonly dueSinceBefore: number | null;
}

/** How the consumer stands. */
export interface ConsumerStanding extends HeldStanding {
  readonly gate: GateStanding;
  /** Requests begun in the rate limit's window that lasts now. */
  readonly used: number;
  /** Requests to the backend that are under way. */
  readonly inFlight: number;
  /** Whether the queues of delays that are no rung are known to exist. */
  readonly delaysKnown: boolean;
}

/** What a consumer answers when it is asked. */
export interface ConsumerReport {
  /** Its counters since its thread was started. */
  readonly metrics: readonly MetricReport[];
  readonly standing: ConsumerStanding;
}
