/**
 * From a settlement to what the ledger is told of it. Pure.
 *
 * @module
 */

import type { ConcludeRequest, LastError } from "../ledger/attempt.ts";
import type { Task } from "../task.ts";
import type { Attempt } from "./disposition.ts";
import { attemptRecord } from "./disposition.ts";
import type { Settlement } from "./ports.ts";

/** How the attempt ended; undefined for a settlement that ends none. */
export function conclusionOf(
  task: Task,
  attempt: Attempt,
  settlement: Settlement,
): ConcludeRequest | undefined {
  const { id, attempt: number, enqueuedAt, redriven } = task;
  const about = { id, attempt: number, enqueuedAt, redriven };
  switch (settlement.to) {
    case "done": {
      const lastStatus = attempt.answer.kind === "status" ? attempt.answer.status : 0;
      return { ...about, conclusion: { kind: "delivered", lastStatus } };
    }
    case "rung":
    case "delay": {
      const endedAt = attempt.beganAt + attempt.durationMs;
      const nextAttemptAt = Math.round(endedAt + settlement.delayMs);
      return { ...about, conclusion: { kind: "retried", nextAttemptAt, last: lastOf(attempt) } };
    }
    case "failed":
      return { ...about, conclusion: { kind: "failed", last: lastOf(attempt) } };
    case "later":
    case "front":
      return undefined;
  }
}

function lastOf(attempt: Attempt): LastError {
  const { status, error } = attemptRecord(attempt);
  return {
    ...(status !== undefined && { lastStatus: status }),
    ...(error !== undefined && { lastError: error }),
  };
}
