/**
 * From the metrics of a relay to the numbers that operators are shown. Pure.
 *
 * @module
 */

import type { MetricReading, MetricReport } from "../metric_report.ts";
import type { Stats } from "./stats.ts";

/** What was counted since the relay started. */
export interface Counts extends Readonly<Stats["totals"]> {
  /** Attempts that ended, by the backend's status, or by the outcome where there was none. */
  readonly statuses: ReadonlyMap<string, number>;
  /** Attempts that took up to so many seconds, ascending; the last is Infinity. */
  readonly durations: readonly Bucket[];
}

/** How many observations were at most `le`. */
export interface Bucket {
  readonly le: number;
  readonly count: number;
}

/** Reads the counts out of the metrics of both threads. */
export function countsOf(metrics: readonly MetricReport[]): Counts {
  const readings = (name: string): readonly MetricReading[] =>
    metrics.find((metric) => metric.name === `queue_relay_${name}`)?.values ?? [];
  const dispositions = readings("dispositions_total");
  const disposition = (wanted: string): number =>
    sum(dispositions.filter(({ labels }) => labels["disposition"] === wanted));
  return {
    accepted: sum(readings("tasks_accepted_total")),
    rejected: sum(readings("tasks_rejected_total")),
    delivered: disposition("delivered"),
    retried: disposition("retried"),
    failed: disposition("failed"),
    duplicate: disposition("duplicate"),
    cancelled: disposition("cancelled"),
    statuses: statusesOf(readings("attempts_total")),
    durations: bucketsOf(readings("attempt_duration_seconds")),
  };
}

/** What was counted after `before` was. */
export function differenceOf(before: Counts, after: Counts): Counts {
  const statuses = [...after.statuses].map(([status, count]) =>
    [status, count - (before.statuses.get(status) ?? 0)] as const
  );
  return {
    accepted: after.accepted - before.accepted,
    rejected: after.rejected - before.rejected,
    delivered: after.delivered - before.delivered,
    retried: after.retried - before.retried,
    failed: after.failed - before.failed,
    duplicate: after.duplicate - before.duplicate,
    cancelled: after.cancelled - before.cancelled,
    statuses: new Map(statuses.filter(([, count]) => count > 0)),
    durations: after.durations.map(({ le, count }, n) => ({
      le,
      count: count - (before.durations[n]?.count ?? 0),
    })),
  };
}

/**
 * The value below which a share of the observations lies, as Prometheus' `histogram_quantile` reads
 * it: evenly spread within a bucket, and never above the last border. Null without observations.
 *
 * @param share from 0 to 1.
 */
export function quantileOf(buckets: readonly Bucket[], share: number): number | null {
  const total = buckets.at(-1)?.count ?? 0;
  if (total <= 0) return null;
  const rank = share * total;
  const n = buckets.findIndex(({ count }) => count >= rank);
  const { le: high = 0, count = 0 } = buckets[n] ?? {};
  const { le: low = 0, count: below = 0 } = buckets[n - 1] ?? {};
  if (high === Infinity) return low;
  return count === below ? high : low + (high - low) * (rank - below) / (count - below);
}

function sum(readings: readonly MetricReading[]): number {
  return readings.reduce((total, { value }) => total + value, 0);
}

function statusesOf(attempts: readonly MetricReading[]): ReadonlyMap<string, number> {
  const statuses = new Map<string, number>();
  for (const { labels, value } of attempts) {
    const name = String(labels["status"] || labels["outcome"]);
    statuses.set(name, (statuses.get(name) ?? 0) + value);
  }
  return statuses;
}

function bucketsOf(readings: readonly MetricReading[]): readonly Bucket[] {
  return readings.filter(({ metricName }) => metricName?.endsWith("_bucket"))
    .map(({ labels, value }) => ({ le: borderOf(labels["le"]), count: value }))
    .sort((a, b) => a.le - b.le);
}

function borderOf(le: string | number | undefined): number {
  return le === "+Inf" ? Infinity : Number(le);
}
