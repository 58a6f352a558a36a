/**
 * Metrics on their way: from the thread that counts them to the one that is asked for them.
 *
 * @module
 */

import type { Registry } from "prom-client";

/** A metric as prom-client's `getMetricsAsJSON()` gives it; it can be sent between threads. */
export interface MetricReport {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly aggregator: string;
  readonly values: readonly MetricReading[];
}

/** One line of a metric. */
export interface MetricReading {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  /** Of a histogram, where it is not the metric's own: `…_bucket`, `…_sum`, `…_count`. */
  readonly metricName?: string;
}

/** Everything in `registry` as it is now. */
export async function reportOf(registry: Registry): Promise<readonly MetricReport[]> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type, aggregator, values }) => ({
    name,
    help,
    // prom-client's types say that it is a number, and it is the name.
    type: String(type) as MetricReport["type"],
    aggregator,
    values: values as readonly MetricReading[],
  }));
}
