/**
 * Metrics for tests: made of numbers, and read from the text that Prometheus reads.
 *
 * @module
 */

import type { MetricReport } from "../../src/metric_report.ts";

/** A value, its labels, and what its name ends with if it is not the metric's own. */
export type Line = readonly [
  value: number,
  labels: Readonly<Record<string, string | number>>,
  suffix?: string,
];

/** A metric of the relay, without the prefix of its name. */
export function aMetric(
  name: string,
  lines: readonly Line[],
  type: MetricReport["type"] = "counter",
): MetricReport {
  const full = `queue_relay_${name}`;
  return {
    name: full,
    help: `${name}.`,
    type,
    aggregator: "sum",
    values: lines.map(([value, labels, suffix]) => ({
      value,
      labels,
      ...(suffix !== undefined && { metricName: full + suffix }),
    })),
  };
}

/** The value behind `series`, such as `in_flight` or `queue_messages{queue="a"}`; undefined: none. */
export function valueIn(text: string, series: string): number | undefined {
  const start = `queue_relay_${series} `;
  const line = text.split("\n").find((candidate) => candidate.startsWith(start));
  if (line === undefined) return undefined;
  const value = line.slice(start.length);
  return value === "+Inf" ? Infinity : Number(value);
}

/** The names of all metrics that a text describes, as `# TYPE` gives them. */
export function namesIn(text: string): string[] {
  return [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name = ""]) => name);
}
