/**
 * A record as a client may see it: what is asked of the ledger by `GET /queue/tasks/{id}`. Pure.
 *
 * @module
 */

import type { RecordState, TaskRecord } from "./record.ts";

/** What a client is told of a task. */
export interface TaskStatus {
  readonly id: string;
  readonly status: Exclude<RecordState, "accepting">;
  readonly attempts: number;
  readonly lastStatus?: number;
  readonly lastError?: string;
  readonly enqueuedAt: number;
  /** Never in the past: absent when the task is due and waits its turn. */
  readonly nextAttemptAt?: number;
  readonly finishedAt?: number;
}

/** The record as a client may see it at `now`. */
export function statusOf(record: TaskRecord, now: number): TaskStatus {
  const { id, attempts, lastStatus, lastError, enqueuedAt, finishedAt } = record;
  const status = visibleState(record, now);
  const nextAttemptAt = status === "cancelled" ? undefined : record.nextAttemptAt;
  return {
    id,
    status,
    attempts,
    enqueuedAt,
    ...(lastStatus !== undefined && { lastStatus }),
    ...(lastError !== undefined && { lastError }),
    ...(nextAttemptAt !== undefined && nextAttemptAt > now && { nextAttemptAt }),
    ...(finishedAt !== undefined && { finishedAt }),
  };
}

function visibleState(record: TaskRecord, now: number): TaskStatus["status"] {
  const { state, cancelRequested, nextAttemptAt = 0, leaseUntil = 0, attempts } = record;
  if (state === "delivering" && leaseUntil > now) return "delivering";
  if (cancelRequested) return "cancelled";
  switch (state) {
    case "accepting":
      return "queued";
    case "delayed":
      return nextAttemptAt > now ? "delayed" : "queued";
    case "delivering": // its lease ran out: the broker is about to deliver it again
      return attempts > 0 ? "retrying" : "queued";
    default:
      return state;
  }
}
