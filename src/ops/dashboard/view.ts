/**
 * What the parts of the page say of a relay. Pure; runs in the browser.
 *
 * @module
 */

import type { Reason } from "../failed_task.ts";
import type { QueueStats, Stats, StatsSample } from "../stats.ts";
import { formatCount, formatDuration, formatRate, secondsUntil } from "./format.ts";

/** The stats without what happened before. */
export type Now = Omit<Stats, "history">;

/** How a part of the page is to look. */
export type Tone = "calm" | "warn" | "bad";

/** A part: what is large, what is said of it, and how it looks. */
export interface Part {
  readonly value: string;
  readonly note: string;
  readonly tone: Tone;
}

/** A reason in words. */
export const REASON_TEXT: Readonly<Record<Reason, string>> = {
  attempts_exhausted: "all attempts failed",
  permanent_status: "refused for good",
  invalid_message: "not a valid message",
  delivery_limit: "given up by the broker",
  unknown: "unknown",
};

/** The samples that are kept: 15 minutes. */
export function addSample(
  samples: readonly StatsSample[],
  sample: StatsSample,
  stepSeconds: number,
): readonly StatsSample[] {
  return [...samples, sample].slice(-slotsOf(stepSeconds));
}

/** How many samples 15 minutes are. */
export function slotsOf(stepSeconds: number): number {
  return Math.max(1, Math.round(900 / stepSeconds));
}

/** The messages of a queue by its role; null: unknown. */
export function depthOf(now: Now, role: QueueStats["role"]): number | null {
  return now.queues.find((queue) => queue.role === role)?.messages ?? null;
}

/** The parts of the diagram, by the ends of their ids. */
export function partsOf(now: Now, last: StatsSample | undefined, step: number): Record<
  "clients" | "main" | "limiter" | "backend" | "done" | "failed",
  Part
> {
  const { totals, limit } = now;
  const rate = (count: number | undefined): string => formatRate((count ?? 0) / step);
  const failed = depthOf(now, "failed");
  const isFull = limit.used >= limit.maxRequests;
  return {
    clients: {
      value: rate(last?.accepted),
      note: `${formatCount(totals.accepted)} accepted, ${formatCount(totals.rejected)} refused`,
      tone: "calm",
    },
    main: { value: formatCount(depthOf(now, "main")), note: "wait for their turn", tone: "calm" },
    limiter: {
      value: `${formatCount(limit.used)} of ${formatCount(limit.maxRequests)}`,
      note: `per ${formatDuration(limit.windowSeconds)}, ${limit.algorithm.replace("-", " ")}`,
      tone: isFull ? "warn" : "calm",
    },
    backend: {
      value: `${formatCount(now.inFlight)} of ${formatCount(now.concurrency)}`,
      note: "requests in flight",
      tone: now.gate.state === "closed" ? "bad" : "calm",
    },
    done: {
      value: rate(last?.delivered),
      note: `${formatCount(totals.delivered)} delivered`,
      tone: "calm",
    },
    failed: {
      value: formatCount(failed),
      note: "need a person",
      tone: failed !== null && failed > 0 ? "bad" : "calm",
    },
  };
}

/** The gate in a sentence, with the time that is left. */
export function gateText({ gate, at }: Now): string {
  const { state, reason, until } = gate;
  if (state === "open") return "open";
  if (state === "rising") return "open again, at less than the full limit";
  const why = reason === "retry_after"
    ? "the backend asked for a pause"
    : "breaker: too many failures";
  if (state === "probing") return `probing with single requests (${why})`;
  const left = until === null ? "" : `, ${formatDuration(secondsUntil(until, at))} left`;
  return `closed, ${why}${left}`;
}

/** What this replica does, and what of it is not well. */
export function replicaText({ replica, uptimeSeconds }: Now): string {
  const { active, broker, ledger, limit } = replica;
  const role = active ? "active" : "standing by";
  const shared = limit === undefined ? "" : `, limit in Redis ${limit}`;
  return `${role}, up ${
    formatDuration(uptimeSeconds)
  }; broker ${broker}, ledger ${ledger}${shared}`;
}

/** Attempts by status over the samples, the most frequent first. */
export function statusCounts(samples: readonly StatsSample[]): readonly [string, number][] {
  const counts = new Map<string, number>();
  for (const { statuses } of samples) {
    for (const [status, count] of Object.entries(statuses)) {
      counts.set(status, (counts.get(status) ?? 0) + count);
    }
  }
  return [...counts].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
}
