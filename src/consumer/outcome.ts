/**
 * What the backend's answer means for the task. Pure; the table is contract's:
 *
 * | the backend                                  | verdict   |
 * |----------------------------------------------|-----------|
 * | 2xx                                          | delivered |
 * | 429, or 503, with a valid Retry-After        | retry     |
 * | a status in PERMANENT_STATUSES               | permanent |
 * | any other status, or no answer to be read    | retry     |
 *
 * @module
 */

import type { OutcomeName } from "../task.ts";
import type { Signal } from "./gate.ts";

/** What came of one request. */
export type Answer =
  | {
    readonly kind: "status";
    readonly status: number;
    /** The beginning of the body, for people. */
    readonly text: string;
    /** With 429 or 503: how long the backend asks to be left alone. */
    readonly retryAfterMs?: number;
  }
  | {
    readonly kind: "failure";
    readonly outcome: Exclude<OutcomeName, "ok" | "status">;
    readonly error: string;
  };

/** What is to happen with the task. */
export type Verdict = "delivered" | "permanent" | "retry";

/** Decides over an answer. */
export function judge(answer: Answer, permanentStatuses: readonly number[]): Verdict {
  if (answer.kind === "failure") return "retry";
  if (answer.status >= 200 && answer.status <= 299) return "delivered";
  if (answer.retryAfterMs !== undefined) return "retry";
  return permanentStatuses.includes(answer.status) ? "permanent" : "retry";
}

/** The one name that an answer has in logs, metrics and the history. */
export function outcomeName(answer: Answer): OutcomeName {
  if (answer.kind === "failure") return answer.outcome;
  return answer.status >= 200 && answer.status <= 299 ? "ok" : "status";
}

/** Statuses of a proxy that has nobody behind it, or nobody who can answer. */
const UNREACHED: readonly number[] = [502, 503, 504];

/** What the answer tells the gate. */
export function signalOf(answer: Answer): Signal {
  if (answer.kind === "failure") return { unreached: true };
  const { status, retryAfterMs } = answer;
  return {
    unreached: UNREACHED.includes(status),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}
