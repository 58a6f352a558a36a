/**
 * What is told of an attempt: one wide line, and never the payload.
 *
 * @module
 */

import type { Config } from "../config.ts";
import { firstLevel, secondsOf } from "../delay_levels.ts";
import { maxAttempts } from "../rungs.ts";
import { delayQueue, failedQueue, rungQueue } from "../queue_names.ts";
import type { Task } from "../task.ts";
import { traceIdOf } from "../trace_context.ts";
import type { Attempt } from "./disposition.ts";
import { rungOf } from "./ladder.ts";
import { outcomeName } from "./outcome.ts";
import type { Settlement } from "./ports.ts";

/** An attempt that is over. */
export interface AttemptReport {
  readonly task: Task;
  readonly attempt: Attempt;
  readonly limiterWaitMs: number;
  readonly settlement: Settlement;
  /** False when the delivery was lost before it could be settled: the task comes again. */
  readonly settled: boolean;
}

/** The properties of the attempt's log line, as the contract names them. */
export function attemptLine(
  { task, attempt, limiterWaitMs, settlement, settled }: AttemptReport,
  { ladder, queues }: Pick<Config, "ladder" | "queues">,
): Record<string, unknown> {
  const { answer } = attempt;
  return {
    task_id: task.id,
    idempotency_key: task.idempotencyKey,
    trace_id: traceIdOf(task.traceparent),
    attempt: task.attempt,
    max_attempts: maxAttempts(ladder),
    queue_age_ms: Math.max(0, Math.round(attempt.beganAt - dueAt(task, ladder))),
    limiter_wait_ms: Math.round(limiterWaitMs),
    status: answer.kind === "status" ? answer.status : undefined,
    duration_ms: Math.round(attempt.durationMs),
    outcome: outcomeName(answer),
    error: answer.kind === "failure" ? answer.error : undefined,
    retry_after_ms: answer.kind === "status" ? answer.retryAfterMs : undefined,
    disposition: settled ? dispositionName(settlement) : "unsettled",
    next_queue: settled ? nextQueue(settlement, queues.prefix) : undefined,
  };
}

/** When the task's next attempt was due, milliseconds since the epoch. */
export function dueAt(task: Task, ladder: Config["ladder"]): number {
  const last = task.history.at(-1);
  if (last === undefined) return task.notBefore ?? task.enqueuedAt;
  const onTheRung = last.time + last.ms + (rungOf(ladder, task.attempt)?.delayMs ?? 0);
  return Math.max(onTheRung, task.notBefore ?? 0);
}

/** What the log and the metrics call it. */
export function dispositionName(
  settlement: Settlement,
): "delivered" | "retried" | "failed" | "returned" {
  switch (settlement.to) {
    case "done":
      return "delivered";
    case "rung":
    case "delay":
      return "retried";
    case "failed":
      return "failed";
    case "later":
    case "front":
      return "returned";
  }
}

function nextQueue(settlement: Settlement, prefix: string): string | undefined {
  switch (settlement.to) {
    case "rung":
      return rungQueue(prefix, settlement.delayMs);
    case "delay":
      return delayQueue(prefix, firstLevel(secondsOf(settlement.delayMs)));
    case "failed":
      return failedQueue(prefix);
    case "done":
    case "later":
    case "front":
      return undefined;
  }
}
