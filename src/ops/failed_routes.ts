/**
 * The routes of failed tasks: list, show, send again, delete.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import { refuse } from "../http/answers.ts";
import { type BodyReader, createBodyReader } from "../http/body.ts";
import type { Problem } from "../http/problem.ts";
import { bodyProblem, RETRY_AFTER } from "../http/refusals.ts";
import { deleteFailed, findFailed, readPage } from "./browse.ts";
import { readFailedDetail } from "./failed_task.ts";
import { redriveAll, type Redriver } from "./redrive.ts";
import { readDeleteQuery, readListQuery, readRedriveBody } from "./requests.ts";

const log = getLogger(["relay", "ops"]);

/** A thousand ids of 255 characters, and room. */
const MOST_BODY_BYTES = 512 * 1024;
const BODY_DEADLINE_MS = 10_000;

/** Requests that may wait for the queue; it is walked through by one at a time. */
const MOST_WAITING = 8;

/** The routes, by what they do. */
export interface FailedRoutes {
  list(request: Request): Promise<Response>;
  show(request: Request, id: string): Promise<Response>;
  redrive(request: Request): Promise<Response>;
  remove(request: Request, id: string): Promise<Response>;
  removeAll(request: Request): Promise<Response>;
  /** Ends what waits for a body; nothing more is taken. */
  close(): void;
}

type Answer = { readonly json: unknown } | { readonly problem: Problem };

/** Makes the routes. */
export function createFailedRoutes(redriver: Redriver): FailedRoutes {
  const { queue } = redriver;
  const bodies: BodyReader = createBodyReader({
    maxBytes: MOST_BODY_BYTES,
    deadlineMs: BODY_DEADLINE_MS,
  });
  let waiting = 0;

  async function answer(request: Request, work: () => Promise<Answer>): Promise<Response> {
    if (waiting >= MOST_WAITING) return refuse(request, BUSY);
    waiting++;
    try {
      const answer = await work();
      return "problem" in answer ? refuse(request, answer.problem) : jsonResponse(answer.json);
    } finally {
      waiting--;
    }
  }

  return {
    list: (request) =>
      answer(request, async () => {
        const reading = readListQuery(new URL(request.url).searchParams);
        if ("problem" in reading) return reading;
        const page = await readPage(queue, reading.value);
        if (page === "gone") return { problem: AFTER_GONE };
        return "kind" in page ? { problem: unavailable(page.detail) } : { json: page };
      }),
    show: (request, id) =>
      answer(request, async () => {
        const found = await findFailed(queue, id);
        if (found === undefined) return { problem: NO_SUCH_TASK };
        if ("kind" in found) return { problem: unavailable(found.detail) };
        return { json: readFailedDetail(found) };
      }),
    redrive: (request) =>
      answer(request, async () => {
        const body = await bodies.read(request);
        if (body.kind !== "bytes") {
          const limits = { tooLarge: TOO_LARGE, deadlineMs: BODY_DEADLINE_MS };
          return { problem: bodyProblem(body, limits) };
        }
        const reading = readRedriveBody(body.bytes);
        if ("problem" in reading) return reading;
        const { matched, redriven, trouble } = await redriveAll(redriver, reading.value);
        if (redriven > 0) log.info("failed tasks sent again", { matched, redriven });
        if (trouble === undefined) return { json: { matched, redriven } };
        return { problem: brokenOff(redriven, trouble) };
      }),
    remove: (request, id) =>
      answer(request, async () => {
        const deleted = await deleteFailed(queue, id);
        if (deleted === false) return { problem: NO_SUCH_TASK };
        if (deleted !== true) return { problem: unavailable(deleted.detail) };
        log.info("failed task deleted", { task_id: id });
        return { json: { deleted: 1 } };
      }),
    removeAll: (request) =>
      answer(request, async () => {
        const reading = readDeleteQuery(new URL(request.url).searchParams);
        if ("problem" in reading) return reading;
        const purged = await queue.purge();
        if (purged.kind === "unavailable") return { problem: unavailable(purged.detail) };
        log.info("failed tasks deleted", { count: purged.total });
        return { json: { deleted: purged.total } };
      }),
    close: () => bodies.close(),
  };
}

const BUSY: Problem = {
  status: 503,
  detail: "Too many requests wait for the failed tasks already. Send it again later.",
  headers: RETRY_AFTER,
};

const NO_SUCH_TASK: Problem = {
  status: 404,
  detail: "No failed task has this id now. It may have been sent again or deleted.",
};

const AFTER_GONE: Problem = {
  status: 404,
  detail: "The task named by `after` is not there any more. Begin again without `after`.",
};

const TOO_LARGE: Problem = {
  status: 413,
  detail: `The body is larger than ${MOST_BODY_BYTES} bytes. Send fewer ids.`,
};

function unavailable(detail: string): Problem {
  return {
    status: 503,
    detail: `The failed tasks can't be reached now: ${detail}. Nothing was changed.`,
    headers: RETRY_AFTER,
  };
}

function brokenOff(redriven: number, detail: string): Problem {
  return {
    status: 503,
    detail:
      `Broken off after ${redriven} tasks were sent again: ${detail}. Those that were not are ` +
      "still here; send the request again.",
    headers: RETRY_AFTER,
  };
}

function jsonResponse(body: unknown): Response {
  return new Response(JSON.stringify(body), {
    headers: {
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    },
  });
}
