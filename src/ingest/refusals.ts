/**
 * Why a task or a batch is not accepted: each refusal with what the client should do next.
 *
 * @module
 */
import { RETRY_AFTER, RETRY_AFTER_SEC } from "../http/refusals.ts";
import type { PublishResult } from "./ports.ts";
import type { Problem } from "../http/problem.ts";

const AGAIN = `Send it again after ${RETRY_AFTER_SEC} seconds`;

export const UNEXPECTED: Problem = {
  status: 500,
  detail: "The relay failed unexpectedly. Send the request again with the same Idempotency-Key; " +
    "if this goes on, tell the operator.",
};

/** The broker surely does not have the task. */
export const BROKER_UNAVAILABLE: Problem = {
  status: 503,
  detail: `The broker cannot take tasks now; this one was not accepted. ${AGAIN}.`,
  headers: RETRY_AFTER,
};

/** The broker may have the task. */
export const NOT_CONFIRMED: Problem = {
  status: 503,
  detail: `The broker did not confirm the task in time; it may have been accepted all the ` +
    `same. ${AGAIN} with the same Idempotency-Key, by which the backend can tell a repeat; ` +
    `without a key it may be processed twice.`,
  headers: RETRY_AFTER,
};

export const LEDGER_UNAVAILABLE: Problem = {
  status: 503,
  detail: `The ledger, which tells whether a key is new and what became of a task, cannot be ` +
    `reached now; nothing was accepted or changed. ${AGAIN}.`,
  headers: RETRY_AFTER,
};

export const KEY_MISMATCH: Problem = {
  status: 422,
  detail: "This Idempotency-Key came before with another payload. Send a new key with a new " +
    "payload, or the first payload with this one.",
};

export const NO_SUCH_TASK: Problem = {
  status: 404,
  detail: "There is no task with this id, or it was finished so long ago that it is forgotten.",
};

export const LEDGER_OFF: Problem = {
  status: 404,
  detail: "The relay keeps no record of tasks, because its ledger is off (LEDGER=off).",
};

export const ALREADY_FINISHED: Problem = {
  status: 409,
  detail: "The task is finished and can't be cancelled. GET tells how it ended; what has failed " +
    "operators can send again or delete.",
};

/** Another request with the same key is on its way, for at most `waitMs` milliseconds. */
export function stillAccepting(waitMs: number): Problem {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return {
    status: 409,
    detail: "Another request with this Idempotency-Key is still being accepted. Send it again " +
      `after ${seconds} ${seconds === 1 ? "second" : "seconds"}.`,
    headers: { "retry-after": String(seconds) },
  };
}

/** The problem for a task without a confirm. */
export function publishProblem({ kind }: Exclude<PublishResult, { kind: "confirmed" }>): Problem {
  switch (kind) {
    case "unavailable":
      return BROKER_UNAVAILABLE;
    case "unknown":
      return NOT_CONFIRMED;
  }
}

/** The one problem for a batch of which nothing could be taken, for these reasons. */
export function batchUnavailable(reasons: ReadonlySet<Problem>): Problem {
  const detail = reasons.has(NOT_CONFIRMED)
    ? `The broker did not confirm the tasks in time; they may have been accepted all the same. ` +
      `${AGAIN} with the same Idempotency-Key, by which the backend can tell repeats; without a ` +
      `key they may be processed twice.`
    : `The relay cannot take tasks now; none of the batch was accepted. ${AGAIN}.`;
  return { status: 503, detail, headers: RETRY_AFTER };
}

/** A payload over the limit. */
export function taskTooLarge(maxBytes: number): Problem {
  return {
    status: 413,
    detail:
      `The payload is larger than ${maxBytes} bytes. Send a smaller one, or a reference to it.`,
  };
}

/** A batch over the limit. */
export function batchTooLarge(maxBytes: number): Problem {
  return {
    status: 413,
    detail: `The batch is larger than ${maxBytes} bytes. Nothing was accepted. Send it in parts.`,
  };
}
