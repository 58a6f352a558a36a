/**
 * From an answer to the task's next place. Pure: the deed is the settlement's.
 *
 * @module
 */

import type { Config } from "../config.ts";
import { delaysOf } from "../rungs.ts";
import type { Rung } from "../rungs.ts";
import type { AttemptRecord, Task } from "../task.ts";
import { withAttempt } from "../task.ts";
import { stepAfter } from "./ladder.ts";
import { judge, outcomeName } from "./outcome.ts";
import type { Answer } from "./outcome.ts";
import type { Failure, Settlement } from "./ports.ts";

/** The rules that a task is judged by. */
export type Rules = Pick<Config, "ladder" | "permanentStatuses">;

/** The longest error text on record for the last attempt, in characters. */
const LAST_ERROR_LENGTH = 2_000;

/** The longest error text in the history of attempts, in characters: 30 must fit into one header. */
const HISTORY_ERROR_LENGTH = 200;

/** When an attempt began (ms since the epoch), how long it took (ms), and what came of it. */
export interface Attempt {
  readonly beganAt: number;
  readonly durationMs: number;
  readonly answer: Answer;
}

/**
 * Where the task goes after this attempt.
 *
 * @param random from 0 up to 1, for the jitter.
 */
export function dispose(task: Task, attempt: Attempt, rules: Rules, random: number): Settlement {
  const verdict = judge(attempt.answer, rules.permanentStatuses);
  if (verdict === "delivered") return { to: "done" };
  const next = withAttempt(task, attemptRecord(attempt));
  const failedAt = attempt.beganAt + Math.round(attempt.durationMs);
  if (verdict === "permanent") return toFailed("permanent_status", next, failedAt, attempt.answer);
  const step = stepAfter(rules.ladder, task.attempt);
  return step.kind === "retry"
    ? toNextAttempt(next, step.rung, attempt, random)
    : toFailed("attempts_exhausted", next, failedAt, attempt.answer);
}

function toNextAttempt(
  task: Task,
  rung: Rung,
  { beganAt, durationMs, answer }: Attempt,
  random: number,
): Settlement {
  const delays = delaysOf(rung);
  const rungMs = delays[Math.floor(random * delays.length)] ?? rung.delayMs;
  const askedMs = answer.kind === "status" ? answer.retryAfterMs ?? 0 : 0;
  const delayMs = Math.max(rungMs, askedMs);
  if (delayMs === rung.delayMs) return { to: "rung", task, delayMs };
  // What the attempt's number doesn't tell: when it is due.
  const due = { ...task, notBefore: Math.round(beganAt + durationMs + delayMs) };
  return { to: delayMs === rungMs ? "rung" : "delay", task: due, delayMs };
}

/** For a task whose number of attempts is beyond the ladder, as after the ladder was shortened. */
export function disposeExhausted(
  task: Task,
  failedAt: number,
): Extract<Settlement, { to: "failed" }> {
  const last = task.history.at(-1);
  const failure: Failure = {
    reason: "attempts_exhausted",
    failedAt,
    ...(last?.status !== undefined && { lastStatus: last.status }),
    ...(last?.error !== undefined && { lastError: last.error }),
  };
  return { to: "failed", task, failure };
}

/** For a message that can't be understood. */
export function disposeInvalid(problem: string, failedAt: number): Settlement {
  return { to: "failed", failure: { reason: "invalid_message", failedAt, lastError: problem } };
}

/** The attempt as the history keeps it. */
export function attemptRecord({ beganAt, durationMs, answer }: Attempt): AttemptRecord {
  const outcome = outcomeName(answer);
  return {
    time: Math.round(beganAt),
    outcome,
    ms: Math.round(durationMs),
    ...(answer.kind === "status" && { status: answer.status }),
    ...(outcome !== "ok" && { error: errorText(answer, HISTORY_ERROR_LENGTH) }),
  };
}

function toFailed(
  reason: Failure["reason"],
  task: Task,
  failedAt: number,
  answer: Answer,
): Settlement {
  const lastError = errorText(answer, LAST_ERROR_LENGTH);
  const lastStatus = answer.kind === "status" ? { lastStatus: answer.status } : {};
  return { to: "failed", task, failure: { reason, failedAt, lastError, ...lastStatus } };
}

function errorText(answer: Answer, length: number): string {
  if (answer.kind === "failure") return answer.error.slice(0, length);
  // Control characters would make a mess of the terminals and tables that show this.
  const text = answer.text.replace(/\p{Cc}+/gu, " ").trim();
  return (text || `status ${answer.status}`).slice(0, length);
}
