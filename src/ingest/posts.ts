/**
 * The two routes that take tasks: header fields are checked, the body is read, its payload or
 * payloads are checked, and only then is anything accepted (see accept.ts and batch.ts).
 *
 * What this file keeps true: no 202 without a confirm; the payload that is published is the very
 * bytes that arrived.
 *
 * @module
 */
import { checkPayload } from "../payload.ts";
import { createAcceptor } from "./accept.ts";
import { refuse } from "../http/answers.ts";
import { acceptBatch, type BatchAnswer, resultsResponse } from "./batch.ts";
import {
  BATCH_DEADLINE_MS,
  BODY_DEADLINE_MS,
  type BodyReader,
  createBodyReader,
} from "../http/body.ts";
import { parseDueTime } from "./due_time.ts";
import { checkBatchType, checkContentType, checkHeaders, type TaskHeaders } from "./headers.ts";
import type { PostMeter, TaskLedger, TaskPublisher } from "./ports.ts";
import type { Problem } from "../http/problem.ts";
import { bodyProblem, SHUTTING_DOWN } from "../http/refusals.ts";
import { batchTooLarge, taskTooLarge } from "./refusals.ts";

/** What {@link createPostRoutes} works with. */
export interface PostOptions {
  readonly publisher: TaskPublisher;
  /** Absent: keys are passed on to the backend and not kept. */
  readonly ledger?: TaskLedger | undefined;
  /** Absent: nothing is counted. */
  readonly meter?: PostMeter | undefined;
  /** The largest payload, in bytes. */
  readonly maxTaskBytes: number;
  /** The most tasks of a batch. */
  readonly maxBatchTasks: number;
  /** The largest batch, in bytes. */
  readonly maxBatchBytes: number;
  /** The longest delay of a task, milliseconds. */
  readonly maxDelayMs: number;
  /** Milliseconds since the epoch; by default the system's clock. */
  readonly now?: () => number;
  /** Milliseconds the body of a task may take to arrive; by default {@link BODY_DEADLINE_MS}. */
  readonly bodyDeadlineMs?: number;
  /** Milliseconds that of a batch may take; by default {@link BATCH_DEADLINE_MS}. */
  readonly batchDeadlineMs?: number;
}

/** The routes that take tasks. */
export interface PostRoutes {
  /** One task. */
  task(request: Request): Promise<Response>;
  /** Many at once. */
  batch(request: Request): Promise<Response>;
  /** Takes no more: what is still arriving and what comes later is answered 503. Idempotent. */
  close(): void;
}

/** What posts of one kind are read by. */
interface PostKind {
  readonly checkType: typeof checkContentType;
  readonly reader: BodyReader;
  readonly deadlineMs: number;
  readonly tooLarge: Problem;
}

/** A post whose header fields are in order. */
interface Post {
  readonly bytes: Uint8Array;
  readonly fields: TaskHeaders;
  readonly notBefore?: number;
}

/** Makes the routes. Call `close()` in the end: it also stops the timers of the deadlines. */
export function createPostRoutes(options: PostOptions): PostRoutes {
  const { publisher, ledger, meter, now = Date.now, maxDelayMs } = options;
  const acceptor = createAcceptor({ publisher, ledger, now });
  const [tasks, batches] = [taskKind(options), batchKind(options)];
  let closed = false;

  async function read(request: Request, kind: PostKind): Promise<Post | Problem> {
    if (closed) return SHUTTING_DOWN;
    const { headers } = request;
    const checked = checkHeaders(headers, kind.checkType);
    if (!checked.ok) return checked.problem;
    const asked = { delay: headers.get("task-delay"), notBefore: headers.get("task-not-before") };
    const due = parseDueTime(asked, now(), maxDelayMs);
    if (!due.ok) return { status: 400, detail: due.detail };
    const body = await kind.reader.read(request);
    if (body.kind !== "bytes") return bodyProblem(body, kind);
    const { notBefore } = due;
    return {
      bytes: body.bytes,
      fields: checked.fields,
      ...(notBefore !== undefined && { notBefore }),
    };
  }

  function reject(request: Request, problem: Problem, cause?: string, count = 1): Response {
    meter?.rejected(problem.status, count);
    return refuse(request, problem, cause);
  }

  return {
    async task(request): Promise<Response> {
      const post = await read(request, tasks);
      if ("status" in post) return reject(request, post);
      const { bytes: payload, ...asked } = post;
      const check = checkPayload(payload);
      if (!check.ok) return reject(request, { status: 400, detail: check.detail });
      const outcome = await acceptor.accept({ payload, ...asked });
      if (outcome.kind === "refused") return reject(request, outcome.problem, outcome.cause);
      if (!outcome.replayed) meter?.accepted(1);
      return accepted(outcome.id, outcome.replayed);
    },
    async batch(request): Promise<Response> {
      const post = await read(request, batches);
      if ("status" in post) return reject(request, post);
      const answer = await acceptBatch(post, acceptor, options);
      if (answer.kind === "refused") {
        return reject(request, answer.problem, answer.cause, answer.tasks);
      }
      if (meter !== undefined) countEntries(meter, answer.results);
      return resultsResponse(answer);
    },
    close(): void {
      closed = true;
      tasks.reader.close();
      batches.reader.close();
    },
  };
}

type Entries = Extract<BatchAnswer, { kind: "results" }>["results"];

function countEntries(meter: PostMeter, entries: Entries): void {
  for (const entry of entries) {
    if (entry.status !== 202) meter.rejected(entry.status, 1);
    else if (!("replayed" in entry)) meter.accepted(1);
  }
}

function taskKind({ maxTaskBytes, bodyDeadlineMs = BODY_DEADLINE_MS }: PostOptions): PostKind {
  return {
    checkType: checkContentType,
    reader: createBodyReader({ maxBytes: maxTaskBytes, deadlineMs: bodyDeadlineMs }),
    deadlineMs: bodyDeadlineMs,
    tooLarge: taskTooLarge(maxTaskBytes),
  };
}

function batchKind({ maxBatchBytes, batchDeadlineMs = BATCH_DEADLINE_MS }: PostOptions): PostKind {
  return {
    checkType: checkBatchType,
    reader: createBodyReader({ maxBytes: maxBatchBytes, deadlineMs: batchDeadlineMs }),
    deadlineMs: batchDeadlineMs,
    tooLarge: batchTooLarge(maxBatchBytes),
  };
}

function accepted(id: string, replayed: boolean): Response {
  return new Response(`{"id":"${id}","status":"queued"}`, {
    status: 202,
    headers: {
      "content-type": "application/json",
      "location": `/queue/tasks/${id}`,
      ...(replayed && { "idempotency-replayed": "true" }),
    },
  });
}
