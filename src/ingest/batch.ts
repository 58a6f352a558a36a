/**
 * A batch: its payloads are found, all of them checked, and all accepted at once.
 *
 * What this file keeps true: each payload is published as the very bytes that came; a batch that is
 * no batch is refused before anything of it is published; a task that can't be taken takes no other
 * with it; and however large the batch, other requests get their turn meanwhile.
 *
 * @module
 */
import { getLogger } from "@logtape/logtape";
import { checkPayload } from "../payload.ts";
import type { Acceptor, Outcome } from "./accept.ts";
import { isNdjson, MAX_IDEMPOTENCY_KEY, type TaskHeaders } from "./headers.ts";
import { type Problem, titleOf } from "../http/problem.ts";
import { batchUnavailable, taskTooLarge, UNEXPECTED } from "./refusals.ts";
import { arraySlices, lineSlices, type Slice } from "./slices.ts";
import { Turn } from "../http/turn.ts";

const log = getLogger(["relay", "ingest"]);

/** What a batch may be. */
export interface BatchLimits {
  readonly maxTaskBytes: number;
  readonly maxBatchTasks: number;
}

/** A batch as it came, its header fields checked. */
export interface Batch {
  readonly bytes: Uint8Array;
  readonly fields: TaskHeaders;
  /** As for a single task; for all. */
  readonly notBefore?: number;
}

/** What is answered: one problem for the batch, or an entry for each task in order. */
export type BatchAnswer =
  | {
    readonly kind: "refused";
    readonly problem: Problem;
    readonly cause?: string;
    /** How many tasks it had, where they were counted. */
    readonly tasks?: number;
  }
  | { readonly kind: "results"; readonly accepted: number; readonly results: readonly Entry[] };

/** What became of one task. */
export type Entry =
  | { readonly index: number; readonly status: 202; readonly id: string; readonly replayed?: true }
  | {
    readonly index: number;
    readonly status: Problem["status"];
    readonly title: string;
    readonly detail: string;
  };

/** A payload that may be accepted, or why not. */
type Checked =
  | { readonly ok: true; readonly payload: Uint8Array }
  | { readonly ok: false; readonly problem: Problem; readonly malformed: boolean };

/** Accepts what can be accepted of a batch. */
export async function acceptBatch(
  batch: Batch,
  acceptor: Acceptor,
  limits: BatchLimits,
): Promise<BatchAnswer> {
  const turn = new Turn();
  const checked = await checkBatch(batch, limits, turn);
  if ("status" in checked) return { kind: "refused", problem: checked };
  const outcomes: Promise<Outcome>[] = [];
  for (const [index, payload] of checked.entries()) {
    outcomes.push(
      payload.ok ? acceptOne(batch, payload.payload, index, acceptor) : refused(payload),
    );
    if (turn.isOver) await turn.giveWay();
  }
  return summarise(await Promise.all(outcomes));
}

/** The answer that tells the results. */
export function resultsResponse(
  { accepted, results }: Extract<BatchAnswer, { kind: "results" }>,
): Response {
  const rejected = results.length - accepted;
  const replayed = results.every((entry) => "replayed" in entry);
  return new Response(JSON.stringify({ accepted, rejected, results }), {
    status: rejected === 0 ? 202 : 207,
    headers: {
      "content-type": "application/json",
      ...(replayed && { "idempotency-replayed": "true" }),
    },
  });
}

/** Every payload in order, or the problem with the batch as a whole. */
async function checkBatch(
  { bytes, fields }: Batch,
  limits: BatchLimits,
  turn: Turn,
): Promise<Checked[] | Problem> {
  const lines = isNdjson(fields.contentType);
  const checked: Checked[] = [];
  for (const found of lines ? lineSlices(bytes) : arraySlices(bytes)) {
    if (found.kind === "malformed") return notAnArray(found.detail);
    if (checked.length === limits.maxBatchTasks) return tooManyTasks(limits.maxBatchTasks);
    // A line that is too long need not be parsed; an element must be, to know where the next begins.
    const tooLong = lines && found.bytes.length > limits.maxTaskBytes;
    const payload = tooLong
      ? { ok: false as const, problem: taskTooLarge(limits.maxTaskBytes), malformed: false }
      : checkOne(found, limits.maxTaskBytes);
    if (!payload.ok && payload.malformed && !lines) {
      return brokenElement(checked.length, found.start, payload.problem);
    }
    checked.push(payload);
    if (turn.isOver) await turn.giveWay();
  }
  if (checked.length === 0) return EMPTY;
  return keyProblem(fields.idempotencyKey, checked.length) ?? checked;
}

function checkOne({ bytes }: Slice, maxTaskBytes: number): Checked {
  const check = checkPayload(bytes);
  const malformed = !check.ok && check.reason === "malformed";
  if (!malformed && bytes.length > maxTaskBytes) {
    return { ok: false, problem: taskTooLarge(maxTaskBytes), malformed };
  }
  if (check.ok) return { ok: true, payload: bytes };
  return { ok: false, problem: { status: 400, detail: check.detail }, malformed };
}

async function acceptOne(
  { fields, notBefore }: Batch,
  payload: Uint8Array,
  index: number,
  acceptor: Acceptor,
): Promise<Outcome> {
  const { idempotencyKey, contentType } = fields;
  const candidate = {
    payload,
    fields: {
      ...fields,
      contentType: isNdjson(contentType) ? "application/json" : contentType,
      ...(idempotencyKey !== undefined && { idempotencyKey: `${idempotencyKey}/${index}` }),
    },
    ...(notBefore !== undefined && { notBefore }),
  };
  try {
    return await acceptor.accept(candidate);
  } catch (error) {
    // The others' ids must still be told.
    log.error("task of a batch failed unexpectedly", { error });
    return { kind: "refused", problem: UNEXPECTED };
  }
}

function refused({ problem }: { readonly problem: Problem }): Promise<Outcome> {
  return Promise.resolve({ kind: "refused", problem });
}

function summarise(outcomes: readonly Outcome[]): BatchAnswer {
  const refusals = outcomes.filter((outcome) => outcome.kind === "refused");
  const failed = refusals.filter(({ problem }) => problem.status >= 500);
  const { cause = "" } = failed[0] ?? {};
  const reasons = new Set(refusals.map(({ problem }) => problem));
  const unavailable = [...reasons].every(({ status }) => status === 503);
  if (unavailable && refusals.length === outcomes.length) {
    const problem = batchUnavailable(reasons);
    return { kind: "refused", problem, cause, tasks: outcomes.length };
  }
  if (failed.length > 0) log.debug("tasks of a batch refused", { failed: failed.length, cause });
  const accepted = outcomes.length - refusals.length;
  return { kind: "results", accepted, results: outcomes.map(entryOf) };
}

function entryOf(outcome: Outcome, index: number): Entry {
  if (outcome.kind === "accepted") {
    const { id, replayed } = outcome;
    return { index, status: 202, id, ...(replayed && { replayed: true as const }) };
  }
  const { status, detail } = outcome.problem;
  return { index, status, title: titleOf(status), detail };
}

const EMPTY: Problem = {
  status: 400,
  detail: "The batch has no task. Send at least one payload.",
};

function notAnArray(detail: string): Problem {
  return {
    status: 400,
    detail:
      `${detail} Nothing was accepted. Send a JSON array of payloads, or one payload a line ` +
      `as application/x-ndjson.`,
  };
}

function brokenElement(index: number, start: number, { detail }: Problem): Problem {
  return {
    status: 400,
    detail: `Element ${index} of the array, from byte ${start}: ${detail} Nothing was accepted.`,
  };
}

function tooManyTasks(most: number): Problem {
  return {
    status: 413,
    detail: `The batch has more than ${most} tasks. Nothing was accepted. Send it in parts.`,
  };
}

/** KEY/INDEX must fit for the last task. */
function keyProblem(key: string | undefined, tasks: number): Problem | undefined {
  const longest = key === undefined ? 0 : `${key}/${tasks - 1}`.length;
  if (longest <= MAX_IDEMPOTENCY_KEY) return undefined;
  return {
    status: 400,
    detail: `Idempotency-Key has ${longest} characters with the /INDEX of the last task. ` +
      `Send at most ${MAX_IDEMPOTENCY_KEY} in all.`,
  };
}
