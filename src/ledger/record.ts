/**
 * One record a task, and the transitions that clients bring about; those of an attempt are in
 * `attempt.ts`. Pure: a store applies them atomically.
 *
 *     (none) ──reserve──► accepting ──accept──► queued | delayed ──claim──► delivering ──► delivered
 *        └──────accept, or claim of a task that came from elsewhere──┘         │   ▲
 *                                                                    advance   ▼   │ claim
 *                                                                           retrying
 *                                     any of them but the finished ──► failed | cancelled
 *                                                   failed ──redrive (redrive.ts)──► queued
 *
 * `attempt` is the number of the attempt to be made next, or being made. A delivery whose number is
 * smaller, or that was redriven fewer times, is a stale copy: its attempt was made, and the copy that
 * follows it is on its way.
 *
 * @module
 */

/** Where a task stands, as the ledger keeps it. */
export type RecordState =
  | "accepting"
  | "queued"
  | "delayed"
  | "delivering"
  | "retrying"
  | "delivered"
  | "failed"
  | "cancelled";

/** Who makes an attempt, told in such a way that whoever comes after it knows that it is dead. */
export interface LeaseOwner {
  /** No two processes have it at once: see `identity.ts`. */
  readonly relay: string;
  /** Of one consumer, from its start to its end. */
  readonly run: string;
}

/** What the ledger knows of a task. All times are milliseconds since the epoch. */
export interface TaskRecord {
  readonly id: string;
  readonly key?: string;
  /** Of the payload that came with the key. */
  readonly fingerprint?: string;
  readonly state: RecordState;
  readonly attempt: number;
  /** Attempts that were made and are over. */
  readonly attempts: number;
  /** Until when an `accepting` or `delivering` record belongs to whoever made it so. */
  readonly leaseUntil?: number;
  /** Whose the lease of a `delivering` record is; absent: of a relay that didn't say so. */
  readonly owner?: LeaseOwner;
  /** An earlier request may have published an `accepting` task: its key must keep its id. */
  readonly mayBePublished?: true;
  /** A client asked for it not to be sent any more. */
  readonly cancelRequested?: true;
  /** How often it was sent again after it had failed; absent: never. */
  readonly redriven?: number;
  /** Its copy for being sent again may not have been published yet. */
  readonly redriving?: true;
  readonly lastStatus?: number;
  readonly lastError?: string;
  readonly enqueuedAt: number;
  readonly nextAttemptAt?: number;
  readonly finishedAt?: number;
}

/** What a transition gives: its answer, and the record from now on (null: it goes; absent: as it was). */
export interface Transition<Answer> {
  readonly answer: Answer;
  readonly record?: TaskRecord | null;
}

/** A task that asks to be accepted. */
export interface Acceptance {
  readonly id: string;
  readonly enqueuedAt: number;
  /** Not to be delivered before; absent: at once. */
  readonly notBefore?: number;
}

/** An acceptance with an idempotency key. */
export interface KeyedAcceptance extends Acceptance {
  readonly key: string;
  readonly fingerprint: string;
  /** How long the acceptance may take before another may take it up. */
  readonly leaseMs: number;
}

/** What a key is good for. */
export type Reservation =
  /** Publish under this id: it's this request's own, or that of one that died before it published. */
  | { readonly kind: "reserved"; readonly id: string }
  /** The task was accepted before. */
  | { readonly kind: "replayed"; readonly id: string }
  /** The key was used with another payload. */
  | { readonly kind: "mismatched" }
  /** Another request is being accepted under the key, for at most this long. */
  | { readonly kind: "accepting"; readonly waitMs: number };

/** Reserves a key; `record` is the key's. */
export function reserve(
  record: TaskRecord | undefined,
  request: KeyedAcceptance,
  now: number,
): Transition<Reservation> {
  const leaseUntil = now + request.leaseMs;
  if (record === undefined) {
    const { id, key, fingerprint, enqueuedAt, notBefore } = request;
    const fresh: TaskRecord = {
      id,
      key,
      fingerprint,
      state: "accepting",
      attempt: 1,
      attempts: 0,
      leaseUntil,
      enqueuedAt,
      ...(notBefore !== undefined && { nextAttemptAt: notBefore }),
    };
    return { answer: { kind: "reserved", id }, record: fresh };
  }
  if (record.fingerprint !== request.fingerprint) return { answer: { kind: "mismatched" } };
  if (record.state !== "accepting") return { answer: { kind: "replayed", id: record.id } };
  const waitMs = (record.leaseUntil ?? 0) - now;
  if (waitMs > 0) return { answer: { kind: "accepting", waitMs } };
  const takenUp = { ...record, leaseUntil, mayBePublished: true as const };
  return { answer: { kind: "reserved", id: record.id }, record: takenUp };
}

/** The broker has the task. */
export function accept(record: TaskRecord | undefined, request: Acceptance): Transition<void> {
  if (record !== undefined && record.state !== "accepting") return { answer: undefined };
  const { id, enqueuedAt, notBefore } = request;
  const { leaseUntil: _, nextAttemptAt: __, mayBePublished: ___, ...reserved } = record ??
    { id, attempt: 1, attempts: 0, enqueuedAt };
  const waiting = notBefore === undefined
    ? { state: "queued" as const }
    : { state: "delayed" as const, nextAttemptAt: notBefore };
  return { answer: undefined, record: { ...reserved, ...waiting } };
}

/**
 * This request's publishing surely failed: the key is free again, unless the publishing of a request
 * before it may have succeeded; then its id stays with the key.
 */
export function release(record: TaskRecord | undefined, now: number): Transition<void> {
  if (record?.mayBePublished) return doubt(record, now);
  return record?.state === "accepting"
    ? { answer: undefined, record: null }
    : { answer: undefined };
}

/** The broker may have the task: whoever comes next with the key publishes under the same id. */
export function doubt(record: TaskRecord | undefined, now: number): Transition<void> {
  return record?.state === "accepting"
    ? { answer: undefined, record: { ...record, leaseUntil: now } }
    : { answer: undefined };
}

/** What became of a wish to cancel. */
export type Cancellation = "cancelled" | "finished" | "unknown";

/**
 * A client wants the task not to be sent any more. The record is not finished by that: it must
 * outlive every copy of the task, so it ends when the next delivery is dropped.
 */
export function cancel(record: TaskRecord | undefined): Transition<Cancellation> {
  if (record === undefined) return { answer: "unknown" };
  if (record.state === "cancelled") return { answer: "cancelled" };
  if (record.finishedAt !== undefined) return { answer: "finished" };
  return { answer: "cancelled", record: { ...record, cancelRequested: true } };
}
