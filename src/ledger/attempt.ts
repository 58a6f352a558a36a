/**
 * The transitions of an attempt: it is claimed before it is made and concluded after it, or abandoned
 * when it was cut or its delivery lost. Pure; see `record.ts` for where they stand among the others.
 *
 * A claim is a lease, for whoever has it may die. It ends by its time, which is longer than any
 * request takes, or as soon as its owner is surely dead:
 *
 *     the lease is of …            and a delivery comes to …     then
 *     run 1 of relay A             run 1 of relay A              leased: its request is in flight
 *     run 1 of relay A             run 2 of relay A              void: there is no run 1 any more
 *     run 1 of relay A             relay B                       leased: A may live
 *
 * @module
 */

import type { LeaseOwner, TaskRecord, Transition } from "./record.ts";

/** A delivery that asks to make its attempt. */
export interface ClaimRequest {
  readonly id: string;
  readonly attempt: number;
  /** How often the task was sent again after it had failed; absent: never. */
  readonly redriven?: number | undefined;
  readonly enqueuedAt: number;
  readonly leaseMs: number;
  /** Who asks. */
  readonly owner: LeaseOwner;
}

/** Whether the attempt may be made. */
export type Claim =
  /** A lease until then, by the ledger's clock; whoever gives it up says which it was. */
  | { readonly kind: "granted"; readonly until: number }
  /** Delivered before: acknowledge without a call. */
  | { readonly kind: "duplicate" }
  /** Its attempt was made, and a later copy is on its way. */
  | { readonly kind: "stale" }
  | { readonly kind: "cancelled" }
  /**
   * Come back after this long, for an attempt is being made. `concluding`: it is an earlier one than
   * was asked for, whose end is known to its maker and about to be recorded.
   */
  | { readonly kind: "leased"; readonly waitMs: number; readonly concluding: boolean };

/** Claims an attempt. */
export function claim(
  record: TaskRecord | undefined,
  request: ClaimRequest,
  now: number,
): Transition<Claim> {
  const known = record ?? newRecord(request);
  if (known.state === "delivered") return { answer: { kind: "duplicate" } };
  if (known.state === "cancelled") return { answer: { kind: "cancelled" } };
  const ahead = aheadOf(known, request);
  if (ahead < 0) return { answer: { kind: "stale" } };
  const waitMs = isHeld(known, request.owner) ? (known.leaseUntil ?? 0) - now : 0;
  const concluding = ahead > 0;
  if (waitMs > 0) return { answer: { kind: "leased", waitMs, concluding } };
  if (known.cancelRequested) {
    return { answer: { kind: "cancelled" }, record: finish(known, "cancelled", now) };
  }
  // A failed task may come again, as when two copies of one attempt ended differently.
  const { nextAttemptAt: _, finishedAt: __, mayBePublished: ___, redriving: ____, ...rest } = known;
  const { attempt, leaseMs, owner, redriven } = request;
  const until = now + leaseMs;
  const state = "delivering" as const;
  const delivering = {
    ...rest,
    state,
    attempt,
    leaseUntil: until,
    owner,
    ...(redriven !== undefined && { redriven }),
  };
  return { answer: { kind: "granted", until }, record: delivering };
}

/** Above 0 when a delivery is for a later attempt than the record's, below 0 for an earlier one. */
function aheadOf(
  known: TaskRecord,
  { attempt, redriven = 0 }: Pick<ClaimRequest, "attempt" | "redriven">,
): number {
  return redriven - (known.redriven ?? 0) || attempt - known.attempt;
}

/** Whether an attempt may be under way, as far as `asking` can tell without a look at the time. */
function isHeld({ state, owner }: TaskRecord, asking: LeaseOwner): boolean {
  const dead = owner?.relay === asking.relay && owner.run !== asking.run;
  return state === "delivering" && !dead;
}

/** A lease that is given up. */
export interface AbandonRequest extends Pick<ClaimRequest, "id" | "owner"> {
  readonly until: number;
}

/**
 * Ends a lease before its time, when nobody makes its attempt any more and how it ended can't be
 * recorded: the same attempt is to be made again. A lease that came after it is another's business,
 * even in the same process.
 */
export function abandon(
  record: TaskRecord | undefined,
  { until, owner }: AbandonRequest,
): Transition<void> {
  if (record?.state !== "delivering") return { answer: undefined };
  const same = record.leaseUntil === until && record.owner?.run === owner.run;
  return same ? { answer: undefined, record: withoutLease(record) } : { answer: undefined };
}

/** How an attempt ended, and what comes next. */
export type Conclusion =
  | { readonly kind: "delivered"; readonly lastStatus: number }
  /** The next hop is confirmed; its attempt is due at `nextAttemptAt`. */
  | { readonly kind: "retried"; readonly nextAttemptAt: number; readonly last: LastError }
  /** The copy in the failed queue is confirmed. */
  | { readonly kind: "failed"; readonly last: LastError };

/** What the last attempt showed. */
export interface LastError {
  readonly lastStatus?: number;
  readonly lastError?: string;
}

/** What concludes an attempt. */
export interface ConcludeRequest {
  readonly id: string;
  /** Number of the attempt that was made. */
  readonly attempt: number;
  /** As in {@link ClaimRequest}. */
  readonly redriven?: number | undefined;
  readonly enqueuedAt: number;
  readonly conclusion: Conclusion;
}

/**
 * Records how an attempt ended. A delivery counts whatever the record says, since the backend has
 * the task; what else comes late, after another copy went further, changes nothing.
 */
export function conclude(
  record: TaskRecord | undefined,
  request: ConcludeRequest,
  now: number,
): Transition<void> {
  const { attempt, conclusion, redriven } = request;
  const known = record ?? newRecord(request);
  const delivered = conclusion.kind === "delivered";
  // After the last attempt there is no later copy, so one that comes to fail may do so; but not
  // while another makes that attempt.
  const last = conclusion.kind === "failed" && known.state !== "delivering" ? attempt + 1 : attempt;
  const overtaken = aheadOf(known, { attempt: last, redriven }) < 0 ||
    known.finishedAt !== undefined;
  if (known.state === "delivered" || (overtaken && !delivered)) return { answer: undefined };
  const { lastStatus: _, lastError: __, nextAttemptAt: ___, ...rest } = withoutLease(known);
  const made = { ...rest, attempts: Math.max(known.attempts, attempt) };
  if (delivered) {
    const { lastStatus } = conclusion;
    return { answer: undefined, record: finish({ ...made, lastStatus }, "delivered", now) };
  }
  const next = { ...made, ...conclusion.last, attempt: attempt + 1 };
  if (conclusion.kind === "failed") {
    return { answer: undefined, record: finish(next, "failed", now) };
  }
  const { nextAttemptAt } = conclusion;
  return { answer: undefined, record: { ...next, state: "retrying", nextAttemptAt } };
}

function newRecord(
  { id, attempt, enqueuedAt, redriven }: Pick<
    ClaimRequest,
    "id" | "attempt" | "enqueuedAt" | "redriven"
  >,
): TaskRecord {
  const record: TaskRecord = { id, state: "queued", attempt, attempts: attempt - 1, enqueuedAt };
  return redriven === undefined ? record : { ...record, redriven };
}

function finish(
  record: TaskRecord,
  state: "delivered" | "failed" | "cancelled",
  now: number,
): TaskRecord {
  const { nextAttemptAt: _, cancelRequested: __, redriving: ___, ...rest } = withoutLease(record);
  return { ...rest, state, finishedAt: now };
}

function withoutLease(record: TaskRecord): TaskRecord {
  const { leaseUntil: _, owner: __, ...rest } = record;
  return rest;
}
