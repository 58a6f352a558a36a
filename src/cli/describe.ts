/**
 * What the listener tells, for people to read. Pure.
 *
 * @module
 */

import type { FailedTask, FailedTaskDetail } from "../ops/failed_task.ts";
import type { Stats } from "../ops/stats.ts";
import { layOutTable, printable } from "./table.ts";

/** The list of failed tasks. */
export function describeFailed(tasks: readonly FailedTask[], width: number): string {
  const heads = [
    "ID",
    "FAILED AT",
    "REASON",
    "STATUS",
    "ATTEMPTS",
    "REDRIVEN",
    "BYTES",
    "LAST ERROR",
  ];
  const rows = tasks.map((task) => [
    task.id,
    task.failedAt ?? "-",
    task.reason,
    String(task.lastStatus ?? "-"),
    String(task.attempts),
    String(task.redriven),
    String(task.bytes),
    task.lastError ?? "-",
  ]);
  return layOutTable(heads, rows, width);
}

/** One failed task. */
export function describeTask(task: FailedTaskDetail, width: number): string {
  const facts: readonly (readonly [string, string])[] = [
    ["id", task.id],
    ["reason", task.reason],
    ["last status", String(task.lastStatus ?? "-")],
    ["last error", task.lastError ?? "-"],
    ["enqueued at", task.enqueuedAt ?? "-"],
    ["failed at", task.failedAt ?? "-"],
    ["redriven", String(task.redriven)],
    ["idempotency key", task.idempotencyKey ?? "-"],
    ["content type", task.contentType ?? "-"],
    ["payload", `${task.bytes} bytes; --payload writes them`],
  ];
  const attempts = task.history.map(({ time, outcome, status, ms, error }) => [
    new Date(time).toISOString(),
    outcome,
    String(status ?? "-"),
    String(Math.round(ms)),
    error ?? "-",
  ]);
  const lines = facts.map(([name, value]) => `${name.padEnd(17)}${printable(value)}`);
  if (attempts.length === 0) return lines.join("\n");
  const heads = ["ATTEMPT BEGAN", "OUTCOME", "STATUS", "MS", "ERROR"];
  return [...lines, "", layOutTable(heads, attempts, width)].join("\n");
}

/** How a relay and its queues stand. */
export function describeStats(stats: Stats, width: number): string {
  const { replica, gate, limit, totals } = stats;
  const shared = replica.limit === undefined ? "" : `; in Redis, ${replica.limit}`;
  const until = gate.until === null ? "" : ` until ${gate.until}`;
  const facts: readonly (readonly [string, string])[] = [
    ["relay", `${stats.queuePrefix}, version ${stats.version}, up ${stats.uptimeSeconds} s`],
    ["delivering", deliveringOf(stats)],
    ["broker", `${replica.broker}, publisher ${replica.publisher}, ledger ${replica.ledger}`],
    ["gate", `${gate.state}${gate.reason === null ? "" : ` (${gate.reason})`}${until}`],
    [
      "rate",
      `${limit.used} of ${limit.maxRequests} in ${limit.windowSeconds} s, ${limit.algorithm}${shared}`,
    ],
    ["in flight", `${stats.inFlight} of ${stats.concurrency}`],
    ["oldest due", secondsOf(stats.oldestDueSeconds, "nothing is due")],
    ["drained in", secondsOf(stats.drainSeconds, "not known, or never")],
    ["since the start", Object.entries(totals).map(([name, n]) => `${n} ${name}`).join(", ")],
  ];
  const queues = stats.queues.map(({ name, messages }) => [name, String(messages ?? "-")]);
  const lines = facts.map(([name, value]) => `${name.padEnd(17)}${printable(value)}`);
  return [...lines, "", layOutTable(["QUEUE", "MESSAGES"], queues, width)].join("\n");
}

function deliveringOf({ paused, replica }: Stats): string {
  if (paused) return "paused";
  return replica.active ? "by this relay" : `not by this relay (${replica.consumer})`;
}

function secondsOf(seconds: number | null, otherwise: string): string {
  return seconds === null ? otherwise : `${seconds} s`;
}
