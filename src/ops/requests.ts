/**
 * What operators ask for, read from queries and bodies; what can't be read is told in one sentence.
 *
 * @module
 */

import { z } from "zod";
import type { Problem } from "../http/problem.ts";
import type { PageRequest } from "./browse.ts";
import { REASONS } from "./failed_task.ts";
import { MOST_REDRIVEN, type RedriveSelection } from "./redrive.ts";

const DEFAULT_PAGE = 100;
const LARGEST_PAGE = 1_000;
const MOST_IDS = 1_000;

const ID = "must be text of 1 to 255 characters";
const IDS = `must be a list of 1 to ${MOST_IDS} ids`;

const reason = z.enum(REASONS, { error: `must be one of ${REASONS.join(", ")}` });
const status = wholeNumber(100, 999);
const id = z.string({ error: ID }).min(1, { error: ID }).max(255, { error: ID });

const listQuery = z.strictObject({
  limit: fromText(wholeNumber(1, LARGEST_PAGE)).default(DEFAULT_PAGE),
  after: id.optional(),
  reason: reason.optional(),
  status: fromText(status).optional(),
});

const deleteQuery = z.strictObject({
  all: z.literal("true", { error: "must be true, as in /failed?all=true; one is /failed/ID" }),
});

const redriveBody = z.strictObject({
  ids: z.array(id, { error: IDS }).min(1, { error: IDS }).max(MOST_IDS, { error: IDS }).optional(),
  all: z.literal(true, { error: "must be true, or left out" }).optional(),
  reason: reason.optional(),
  status: status.optional(),
  limit: wholeNumber(1, MOST_REDRIVEN).default(MOST_REDRIVEN),
  dryRun: z.boolean({ error: "must be true or false" }).default(false),
}).refine(({ ids, all }) => (ids === undefined) !== (all === undefined), {
  error: "either ids or all must be given",
});

function wholeNumber(min: number, max: number): z.ZodInt {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

/** What is no number stays text, which the number's own words are for. */
function fromText(number: z.ZodInt): z.ZodPreprocess<z.ZodInt> {
  return z.preprocess((text) => Number.isNaN(Number(text)) ? text : Number(text), number);
}

/** A request as it was meant, or the problem with it. */
export type Reading<T> = { readonly value: T } | { readonly problem: Problem };

/** The query of `GET /failed`. */
export function readListQuery(query: URLSearchParams): Reading<PageRequest> {
  return readBy(listQuery, fieldsOf(query));
}

/** The query of `DELETE /failed`. */
export function readDeleteQuery(query: URLSearchParams): Reading<{ readonly all: "true" }> {
  return readBy(deleteQuery, fieldsOf(query));
}

/** The body of `POST /failed/redrive`. */
export function readRedriveBody(bytes: Uint8Array): Reading<RedriveSelection> {
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return { problem: badRequest("the body must be JSON") };
  }
  const reading = readBy(redriveBody, body);
  if ("problem" in reading) return reading;
  const { ids: given, reason, status, limit, dryRun } = reading.value;
  const ids = given && new Set(given);
  return {
    value: { ids, reason, status, dryRun, limit: ids ? Math.min(limit, ids.size) : limit },
  };
}

function readBy<T>(schema: z.ZodType<T>, given: unknown): Reading<T> {
  const result = schema.safeParse(given);
  if (result.success) return { value: result.data };
  const faults = result.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`
  );
  return { problem: badRequest(faults.slice(0, 5).join("; ")) };
}

/** A name that comes twice is its last value. */
function fieldsOf(query: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries(query);
}

function badRequest(fault: string): Problem {
  return { status: 400, detail: `The request can't be understood: ${fault}.` };
}
