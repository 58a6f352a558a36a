/**
 * How refusals leave: logged, answered, and what the client still sends read and dropped.
 *
 * @module
 */
import { getLogger } from "@logtape/logtape";
import { type Problem, problemResponse } from "./problem.ts";

const log = getLogger(["relay", "http"]);

/** The answer to a request that is not granted; `cause` is for the log only. */
export function refuse(request: Request, problem: Problem, cause = problem.detail): Response {
  const { status } = problem;
  // At debug also for 503: an outage has its own lines, and would have one here for every post.
  log.debug("request refused", { status, cause });
  discardBody(request);
  return problemResponse(problem);
}

/**
 * Lets the server read and drop what the client still sends. Left alone, an unread body makes the
 * server close the connection, and a client that is still sending may see a reset instead of the
 * answer; cancelled, the answer arrives and the connection lives on (measured with 20 KB to 50 MB).
 */
export function discardBody(request: Request): void {
  if (!request.bodyUsed) request.body?.cancel().catch(() => {});
}
