/**
 * What ingest accepted and refused, counted in the main thread.
 *
 * @module
 */

import { Counter, Registry } from "prom-client";
import { type MetricReport, reportOf } from "../metric_report.ts";

/** Counters of posts. */
export class Intake {
  readonly #registry = new Registry();
  readonly #accepted = new Counter({
    name: "queue_relay_tasks_accepted_total",
    help: "Tasks that were answered 202 and enqueued; a repeat of a key is none.",
    registers: [this.#registry],
  });
  readonly #rejected = new Counter({
    name: "queue_relay_tasks_rejected_total",
    help: "Tasks that were refused, by the status that was answered; a batch as a whole is one.",
    labelNames: ["status"],
    registers: [this.#registry],
  });

  /** Tasks were accepted. */
  accepted(count: number): void {
    this.#accepted.inc(count);
  }

  /** Tasks were refused with this status. */
  rejected(status: number, count: number): void {
    this.#rejected.inc({ status }, count);
  }

  /** Everything that was counted so far. */
  async report(): Promise<readonly MetricReport[]> {
    return await reportOf(this.#registry);
  }
}
