/**
 * The transitions of a task that an operator sends again. Pure; see `record.ts` for where they stand
 * among the others.
 *
 * The record goes back to the first attempt BEFORE the copy is published, since a copy behind its
 * record is stale and would be acknowledged without a call. What may die in between, and what the
 * next redrive of the same failed copy then finds:
 *
 *     redrive ──► copy published ──► redriven ──► failed copy acknowledged
 *       └─ `redriving`: it is published again ─┘└─ "superseded": it goes, nothing is sent ─┘
 *
 * In the first gap a second copy may come into the main queue. It is never a second call: whichever
 * is claimed first leaves the other one stale.
 *
 * @module
 */

import type { TaskRecord, Transition } from "./record.ts";

/** A copy in the failed queue that is to be sent again. */
export interface RedriveRequest {
  readonly id: string;
  readonly enqueuedAt: number;
  /** How often it was sent again before. */
  readonly redriven: number;
  /** The broker itself laid it there, so that no attempt of it was concluded as failed. */
  readonly deadLettered: boolean;
}

/** What is to become of that copy. */
export type Redrive =
  /** Publish it as redriven so many times; then it may go. */
  | { readonly kind: "granted"; readonly redriven: number }
  /** A later copy was published, or the task was delivered or cancelled: it goes, nothing is sent. */
  | { readonly kind: "superseded" }
  /** Another copy of the task is being attempted and will come to an end: it stays meanwhile. */
  | { readonly kind: "under-way" };

/** Begins to send a failed task again. */
export function redrive(
  record: TaskRecord | undefined,
  request: RedriveRequest,
  now: number,
): Transition<Redrive> {
  const redriven = request.redriven + 1;
  const known = record?.redriven ?? 0;
  if (record?.state === "delivered" || record?.state === "cancelled" || known > redriven) {
    return { answer: { kind: "superseded" } };
  }
  if (known === redriven) {
    const answer: Redrive = record?.redriving
      ? { kind: "granted", redriven }
      : { kind: "superseded" };
    return { answer };
  }
  if (record !== undefined && isUnderWay(record, request, now)) {
    return { answer: { kind: "under-way" } };
  }
  const { key, fingerprint } = record ?? {};
  const queued: TaskRecord = {
    id: request.id,
    ...(key !== undefined && { key }),
    ...(fingerprint !== undefined && { fingerprint }),
    state: "queued",
    attempt: 1,
    attempts: 0,
    redriven,
    redriving: true,
    enqueuedAt: record?.enqueuedAt ?? request.enqueuedAt,
  };
  return { answer: { kind: "granted", redriven }, record: queued };
}

/** A dead-lettered copy is the only one, unless one is being attempted this very moment. */
function isUnderWay(
  { state, leaseUntil = 0 }: TaskRecord,
  { deadLettered }: RedriveRequest,
  now: number,
): boolean {
  if (state === "failed") return false;
  return !deadLettered || (state === "delivering" && leaseUntil > now);
}

/** The broker has the copy that was granted as `redriven`; it may be known late, after a later grant. */
export function confirmRedrive(
  record: TaskRecord | undefined,
  redriven: number,
): Transition<void> {
  if (!record?.redriving || record.redriven !== redriven) return { answer: undefined };
  const { redriving: _, ...rest } = record;
  return { answer: undefined, record: rest };
}
