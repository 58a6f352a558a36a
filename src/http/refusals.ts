/**
 * Refusals that have nothing to do with what was asked for: the relay is shutting down, or the body
 * did not come.
 *
 * @module
 */
import type { BodyResult } from "./body.ts";
import type { Problem } from "./problem.ts";

/** Seconds after which one is asked to try again: about what a reconnect takes. */
export const RETRY_AFTER_SEC = 5;

export const RETRY_AFTER = { "retry-after": String(RETRY_AFTER_SEC) };

export const SHUTTING_DOWN: Problem = {
  status: 503,
  detail: `The relay is shutting down; nothing was accepted. Send it again after ` +
    `${RETRY_AFTER_SEC} seconds.`,
  headers: { ...RETRY_AFTER, "connection": "close" },
};

/** The problem for a body that could not be read. */
export function bodyProblem(
  { kind }: Exclude<BodyResult, { kind: "bytes" }>,
  { tooLarge, deadlineMs }: { readonly tooLarge: Problem; readonly deadlineMs: number },
): Problem {
  switch (kind) {
    case "too-large":
      return tooLarge;
    case "timed-out":
      return {
        status: 408,
        detail: `The body did not arrive within ${deadlineMs / 1000} seconds. Nothing was ` +
          `accepted; send the request again.`,
      };
    case "aborted":
      return { status: 400, detail: "The body ended before its announced end. Send it again." };
    case "closed":
      return SHUTTING_DOWN;
  }
}
