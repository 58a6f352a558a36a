/**
 * What stands at a moment, as metrics. Pure.
 *
 * What isn't known has no value rather than a wrong one: its metric is absent, and Prometheus shows
 * a gap.
 *
 * @module
 */

import type { MetricReading, MetricReport } from "../metric_report.ts";
import type { Stats } from "./stats.ts";

/**
 * The gauges of `/metrics`.
 *
 * @param drain seconds, Infinity when it would never end; undefined: not known.
 */
export function gaugesOf(stats: Stats, drain: number | undefined): readonly MetricReport[] {
  const { queues, inFlight, replica, gate, paused, oldestDueSeconds, version } = stats;
  const depths = queues.flatMap(({ name, messages }) =>
    messages === null ? [] : [{ value: messages, labels: { queue: name } }]
  );
  return [
    gauge("queue_messages", "Messages that lie ready in a queue.", depths),
    gauge("in_flight", "Requests to the backend that are under way.", single(inFlight)),
    gauge(
      "broker_connected",
      "1 when the broker can be published to.",
      flag(replica.broker === "connected"),
    ),
    gauge(
      "gate_closed",
      "1 when the backend is left alone: it asked for it, or it can't be reached.",
      flag(gate.reason !== null),
    ),
    gauge("paused", "1 when an operator paused the delivering, for all replicas.", flag(paused)),
    gauge(
      "consumer_active",
      "1 when this replica delivers, or is suspended until it has a slot; 0: another one may.",
      flag(replica.active),
    ),
    gauge(
      "oldest_due_seconds",
      "How long the oldest task that this replica knows of is due and has not begun; 0: none is.",
      single(oldestDueSeconds ?? 0),
    ),
    gauge(
      "drain_seconds",
      "How long what waits will take at the rate of the limit and the last minutes; +Inf: for ever.",
      drain === undefined ? [] : single(drain),
    ),
    gauge("build_info", "1, with the version of the relay.", [{ value: 1, labels: { version } }]),
  ];
}

function gauge(name: string, help: string, values: readonly MetricReading[]): MetricReport {
  return { name: `queue_relay_${name}`, help, type: "gauge", aggregator: "sum", values };
}

function single(value: number): readonly MetricReading[] {
  return [{ value, labels: {} }];
}

function flag(holds: boolean): readonly MetricReading[] {
  return single(holds ? 1 : 0);
}
