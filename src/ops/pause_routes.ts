/**
 * The routes that pause and resume delivering, for all relays of the prefix. Both may be repeated.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import { discardBody, refuse } from "../http/answers.ts";
import { RETRY_AFTER } from "../http/refusals.ts";
import type { PauseControl } from "./ports.ts";

const log = getLogger(["relay", "ops"]);

/** Pauses (`paused`) or resumes; answers when the broker has it. */
export async function setPaused(
  request: Request,
  pause: PauseControl,
  paused: boolean,
): Promise<Response> {
  const result = await pause.set(paused);
  if (result.kind === "unavailable") {
    const what = paused ? "paused" : "resumed";
    return refuse(request, {
      status: 503,
      detail: `Delivering can't be ${what} now: ${result.detail}. Send it again later.`,
      headers: RETRY_AFTER,
    }, result.detail);
  }
  discardBody(request);
  log.info(paused ? "delivering paused by an operator" : "delivering resumed by an operator");
  return Response.json({ paused }, { headers: { "cache-control": "no-store" } });
}
