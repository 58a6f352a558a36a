/**
 * A relay's figures and failed tasks that are always the same: for tests of the dashboard, and for its
 * pictures in the README.
 *
 * @module
 */

import type { FailedTaskDetail } from "../../src/ops/failed_task.ts";
import type { Stats, StatsSample } from "../../src/ops/stats.ts";

const AT = Date.UTC(2026, 4, 1, 12, 0, 0);
const STEP_SECONDS = 5;

function isoAt(ms: number): string {
  return new Date(ms).toISOString();
}

/** The sample of the nth step: a wave of tasks, and a backend that fails for a while. */
export function sampleAt(n: number): StatsSample {
  const wave = Math.sin(n / 14) + Math.sin(n / 5) / 3;
  const isDown = n > 95 && n < 120;
  const accepted = Math.round(9 + 4 * wave);
  const delivered = isDown ? 0 : 10;
  const retried = isDown ? 4 : n % 23 === 0 ? 1 : 0;
  return {
    at: isoAt(AT - (180 - n) * STEP_SECONDS * 1_000),
    accepted,
    delivered,
    retried,
    failed: n === 130 || n === 131 ? 1 : 0,
    p50Ms: isDown ? null : Math.round(120 + 20 * wave),
    p95Ms: isDown ? null : Math.round(310 + 70 * wave),
    waiting: Math.round(100 + 40 * wave + Math.max(0, Math.min(n - 95, 25)) * 9),
    statuses: isDown
      ? { "503": retried }
      : { "200": delivered, ...(retried > 0 && { "500": retried }) },
  };
}

/** The figures, with what `over` says otherwise. */
export function sampleStats(over: Partial<Stats> = {}): Stats {
  const rungs = [10, 30, 60, 300, 900, 3_600];
  return {
    at: isoAt(AT),
    version: "0.1.0",
    queuePrefix: "tasks",
    uptimeSeconds: 273_840,
    paused: false,
    replica: { active: true, consumer: "ok", publisher: "ok", broker: "ok", ledger: "ok" },
    gate: { state: "open", reason: null, until: null },
    limit: { algorithm: "sliding-window", maxRequests: 120, windowSeconds: 60, used: 97 },
    inFlight: 3,
    concurrency: 8,
    queues: [
      { name: "tasks.main", role: "main", delaySeconds: null, messages: 1_284 },
      ...rungs.map((delaySeconds, n) => ({
        name: `tasks.retry.${delaySeconds}`,
        role: "retry" as const,
        delaySeconds,
        messages: [14, 0, 6, 3, 0, 0][n] ?? 0,
      })),
      { name: "tasks.failed", role: "failed", delaySeconds: null, messages: 3 },
    ],
    oldestDueSeconds: 74,
    drainSeconds: 653,
    totals: {
      accepted: 48_210,
      rejected: 12,
      delivered: 46_899,
      retried: 611,
      failed: 3,
      duplicate: 40,
      cancelled: 2,
    },
    history: {
      stepSeconds: STEP_SECONDS,
      samples: Array.from({ length: 180 }, (_, n) => sampleAt(n + 1)),
    },
    ...over,
  };
}

/** A failed task, with what `over` says otherwise. */
export function sampleTask(n: number, over: Partial<FailedTaskDetail> = {}): FailedTaskDetail {
  const payload = JSON.stringify({ order: 4_100 + n, amount: "12.50", currency: "EUR" });
  return {
    id: `0197a2c4-5b1e-7c3d-9f10-00000000000${n}`,
    reason: "attempts_exhausted",
    lastStatus: 500,
    lastError: "the booking service is not reachable",
    attempts: 27,
    enqueuedAt: isoAt(AT - 86_400_000),
    failedAt: isoAt(AT - n * 61_000),
    redriven: 0,
    bytes: payload.length,
    contentType: "application/json",
    idempotencyKey: null,
    history: [
      { time: AT - 120_000, outcome: "timeout", ms: 30_000, error: "no answer within 30 s" },
      { time: AT - 61_000, outcome: "status", status: 500, ms: 212, error: "not reachable" },
    ],
    payload,
    payloadEncoding: "utf-8",
    ...over,
  };
}

/** The failed tasks of the pictures. */
export function sampleTasks(): FailedTaskDetail[] {
  return [
    sampleTask(1),
    sampleTask(2, {
      reason: "permanent_status",
      lastStatus: 422,
      lastError: "unknown customer",
      attempts: 1,
    }),
    sampleTask(3, { redriven: 1 }),
  ];
}
