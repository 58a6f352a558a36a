/**
 * Accepting one task: a key is reserved before the publish, and recorded after the confirm.
 *
 *     with a key:     reserve ──► publish ──► confirmed: accept ──► 202
 *                        │           ├─────► surely not: release ──► 503, the key is free again
 *                        │           └────► who knows: doubt ──► 503, the same id is published next time
 *                        └──► replayed (202), mismatched (422), still being accepted (409)
 *     without one:    publish ──► confirmed: 202, recorded meanwhile
 *
 * What this file keeps true: a key stands for one id, whatever fails in between. A task that the
 * broker has confirmed is accepted even if the ledger can't be told.
 *
 * @module
 */
import { hash } from "node:crypto";
import { getLogger } from "@logtape/logtape";
import { messageOf } from "../errors.ts";
import type { Acceptance } from "../ledger/record.ts";
import { LedgerUnavailableError } from "../ledger/store.ts";
import type { Task } from "../task.ts";
import type { TaskHeaders } from "./headers.ts";
import { PUBLISH_DEADLINE_MS, type TaskLedger, type TaskPublisher } from "./ports.ts";
import type { Problem } from "../http/problem.ts";
import { KEY_MISMATCH, LEDGER_UNAVAILABLE, publishProblem, stillAccepting } from "./refusals.ts";

const log = getLogger(["relay", "ingest"]);

/**
 * A reservation is another's after this time. No publish takes that long, so that two requests with
 * one key never publish at once; a client waits no longer for it after a crash. Milliseconds.
 */
const LEASE_MS = PUBLISH_DEADLINE_MS + 2_000;

/** A ledger that fails at thousands of tasks a second is worth a line a second. */
const LOG_EVERY_MS = 1_000;

/** What is to become a task. */
export interface Candidate {
  /** Checked; not to be changed afterwards. */
  readonly payload: Uint8Array;
  readonly fields: TaskHeaders;
  /** Not to be delivered before, milliseconds since the epoch; absent: at once. */
  readonly notBefore?: number;
}

/** What became of a candidate. */
export type Outcome =
  /** `replayed`: the key came before, and nothing was enqueued now. */
  | { readonly kind: "accepted"; readonly id: string; readonly replayed: boolean }
  /** `cause` is for the log. */
  | { readonly kind: "refused"; readonly problem: Problem; readonly cause?: string };

/** Accepts tasks. */
export interface Acceptor {
  /** Rejects only when a part of the relay breaks its promise. */
  accept(candidate: Candidate): Promise<Outcome>;
}

/** What {@link createAcceptor} works with. */
export interface AcceptorOptions {
  readonly publisher: TaskPublisher;
  /** Absent: keys are passed on to the backend and not kept. */
  readonly ledger?: TaskLedger | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Makes an acceptor. */
export function createAcceptor({ publisher, ledger, now }: AcceptorOptions): Acceptor {
  let silentUntil = 0;

  /** The lease and the consumer make up for what was not written. */
  function logUnrecorded(error: unknown): void {
    const moment = performance.now();
    if (moment < silentUntil) return;
    silentUntil = moment + LOG_EVERY_MS;
    log.error("record of a posted task not written", { error: messageOf(error) });
  }

  async function acceptPlain(task: Task): Promise<Outcome> {
    const published = await publisher.publish(task);
    if (published.kind !== "confirmed") {
      return refused(publishProblem(published), published.detail);
    }
    // Not awaited: nothing depends on the record but a GET, which the ledger answers after it.
    ledger?.accept(acceptanceOf(task)).catch(logUnrecorded);
    return accepted(task.id);
  }

  async function acceptKeyed(ledger: TaskLedger, key: string, task: Task): Promise<Outcome> {
    const fingerprint = hash("sha256", task.body, "hex");
    const request = { ...acceptanceOf(task), key, fingerprint, leaseMs: LEASE_MS };
    const reservation = await ledger.reserve(request);
    switch (reservation.kind) {
      case "reserved":
        return await publishReserved(ledger, task, reservation.id);
      case "replayed":
        return { kind: "accepted", id: reservation.id, replayed: true };
      case "mismatched":
        return refused(KEY_MISMATCH);
      case "accepting":
        return refused(stillAccepting(reservation.waitMs));
    }
  }

  async function publishReserved(ledger: TaskLedger, task: Task, id: string): Promise<Outcome> {
    const reserved = { ...task, id };
    const published = await publisher.publish(reserved);
    if (published.kind === "confirmed") {
      await ledger.accept(acceptanceOf(reserved)).catch(logUnrecorded);
      return accepted(id);
    }
    const surelyNot = published.kind === "unavailable";
    await (surelyNot ? ledger.release(id) : ledger.doubt(id)).catch(logUnrecorded);
    return refused(publishProblem(published), published.detail);
  }

  return {
    async accept({ payload, fields, notBefore }): Promise<Outcome> {
      const task: Task = {
        id: crypto.randomUUID(),
        body: payload,
        ...fields,
        attempt: 1,
        enqueuedAt: now(),
        history: [],
        ...(notBefore !== undefined && { notBefore }),
      };
      const key = fields.idempotencyKey;
      if (ledger === undefined || key === undefined) return await acceptPlain(task);
      try {
        return await acceptKeyed(ledger, key, task);
      } catch (error) {
        if (error instanceof LedgerUnavailableError) {
          return refused(LEDGER_UNAVAILABLE, error.message);
        }
        throw error;
      }
    },
  };
}

function acceptanceOf({ id, enqueuedAt, notBefore }: Task): Acceptance {
  return { id, enqueuedAt, ...(notBefore !== undefined && { notBefore }) };
}

function accepted(id: string): Outcome {
  return { kind: "accepted", id, replayed: false };
}

function refused(problem: Problem, cause = problem.detail): Outcome {
  return { kind: "refused", problem, cause };
}
