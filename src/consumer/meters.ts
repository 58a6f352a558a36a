/**
 * What is counted of attempts and tasks, in the consumer's own thread and nowhere else: the main
 * thread asks for all of it now and then, so that no attempt costs a message between threads.
 *
 * No label holds what a client chooses, as an id would be: each value of a label is a series that
 * Prometheus keeps.
 *
 * @module
 */

import { Counter, Histogram, Registry } from "prom-client";
import type { Config } from "../config.ts";
import { type MetricReport, reportOf } from "../metric_report.ts";
import { outcomeName } from "./outcome.ts";
import { type AttemptReport, dispositionName, dueAt } from "./report.ts";

/** What a task may come to, of all that a settlement may be. */
export type Disposition = "delivered" | "retried" | "failed" | "duplicate" | "cancelled";

/**
 * Seconds, from 5 ms to a minute. Fine, because the dashboard reads medians and 95th percentiles out
 * of them: each is at most half as much again as the one before it, where most answers are.
 */
// deno-fmt-ignore
const DURATION_BUCKETS = [
  0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8,
  1, 1.5, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 60,
];

/** Seconds, from what an idle relay takes to what a backlog of a day does. */
const WAIT_BUCKETS = [0.01, 0.1, 0.5, 1, 3, 10, 30, 60, 120, 300, 900, 3_600, 14_400, 86_400];

/** Attempts; the borders of the default ladder's rungs are among them. */
const ATTEMPTS_BUCKETS = [1, 2, 3, 5, 7, 12, 17, 22, 27, 50, 100];

/** The counters of one consumer. */
export class Meters {
  readonly #ladder: Config["ladder"];
  readonly #registry = new Registry();
  readonly #attempts = new Counter({
    name: "queue_relay_attempts_total",
    help: "Requests to the backend that ended, by how; status is empty where there was no answer.",
    labelNames: ["outcome", "status"],
    registers: [this.#registry],
  });
  readonly #dispositions = new Counter({
    name: "queue_relay_dispositions_total",
    help: "What became of deliveries.",
    labelNames: ["disposition"],
    registers: [this.#registry],
  });
  readonly #duration = this.#histogram(
    "queue_relay_attempt_duration_seconds",
    "Time from the beginning of a request to the end of its answer.",
    DURATION_BUCKETS,
  );
  readonly #queueAge = this.#histogram(
    "queue_relay_queue_age_seconds",
    "Time from the moment a task was due to its first attempt.",
    WAIT_BUCKETS,
  );
  readonly #limiterWait = this.#histogram(
    "queue_relay_limiter_wait_seconds",
    "Time that an attempt waited for the gate and the rate limit.",
    WAIT_BUCKETS,
  );
  readonly #taskAttempts = this.#histogram(
    "queue_relay_task_attempts",
    "Attempts that a task took until it was delivered or failed.",
    ATTEMPTS_BUCKETS,
  );

  constructor(ladder: Config["ladder"]) {
    this.#ladder = ladder;
    // From the start, so that the first failed task is a rise from 0 and not a series that appears.
    for (const disposition of DISPOSITIONS) this.#dispositions.inc({ disposition }, 0);
  }

  /** Counts an attempt that is over. */
  attempt({ task, attempt, limiterWaitMs, settlement, settled }: AttemptReport): void {
    const { answer, durationMs, beganAt } = attempt;
    const status = answer.kind === "status" ? String(answer.status) : "";
    this.#attempts.inc({ outcome: outcomeName(answer), status });
    this.#duration.observe(durationMs / 1000);
    this.#limiterWait.observe(limiterWaitMs / 1000);
    // When a task that was sent again became due is not on record.
    if (task.attempt === 1 && task.redriven === undefined) {
      this.#queueAge.observe(Math.max(0, beganAt - dueAt(task, this.#ladder)) / 1000);
    }
    if (!settled) return; // it comes again, and counts then
    const disposition = dispositionName(settlement);
    if (disposition === "returned") return;
    this.disposition(disposition);
    if (disposition !== "retried") this.#taskAttempts.observe(task.attempt);
  }

  /** Counts a delivery that was settled; {@link attempt} does so itself. */
  disposition(disposition: Disposition): void {
    this.#dispositions.inc({ disposition });
  }

  /** Everything that was counted so far. */
  async report(): Promise<readonly MetricReport[]> {
    return await reportOf(this.#registry);
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, registers: [this.#registry] });
  }
}

const DISPOSITIONS: readonly Disposition[] = [
  "delivered",
  "retried",
  "failed",
  "duplicate",
  "cancelled",
];
