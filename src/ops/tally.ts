/**
 * The metrics of both threads, added up.
 *
 * A consumer that died takes its counters with it. What it last reported is kept and added to what
 * its followers count, so that no total falls: to Prometheus a fall is a restart of the process, and
 * it would count everything up to now once more.
 *
 * @module
 */

import { AggregatorRegistry, prometheusContentType } from "prom-client";
import type { MetricReport } from "../metric_report.ts";

/** The Content-Type of {@link exposition}. */
export const EXPOSITION_TYPE = prometheusContentType;

/** What consumers counted, the present one and those that died. */
export class Tally {
  #generation = 0;
  #last: readonly MetricReport[] = [];
  #dead: readonly MetricReport[] = [];

  /** Takes in what the consumer of this generation has counted since it was started. */
  async take(generation: number, metrics: readonly MetricReport[]): Promise<void> {
    if (generation !== this.#generation) {
      this.#dead = await added([this.#dead, this.#last]);
      this.#generation = generation;
    }
    this.#last = metrics;
  }

  /** All that consumers counted, and `own`. */
  async with(own: readonly MetricReport[]): Promise<readonly MetricReport[]> {
    return await added([own, this.#dead, this.#last]);
  }
}

/** The text that Prometheus reads. */
export async function exposition(metrics: readonly MetricReport[]): Promise<string> {
  return await AggregatorRegistry.aggregate([[...metrics]]).metrics();
}

async function added(reports: readonly (readonly MetricReport[])[]): Promise<MetricReport[]> {
  const registry = AggregatorRegistry.aggregate(reports.map((report) => [...report]));
  const metrics: readonly object[] = await registry.getMetricsAsJSON();
  // What went in as reports comes out as such; prom-client's types know less of it.
  return metrics as MetricReport[];
}
