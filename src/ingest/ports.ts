/**
 * What ingest needs from the rest of the relay.
 *
 * The ports are declared here, where they are used: ingest knows neither the broker nor the
 * consumer, and a test hands it a publisher of five lines.
 *
 * @module
 */
import type { Acceptance, Cancellation, KeyedAcceptance, Reservation } from "../ledger/record.ts";
import type { TaskStatus } from "../ledger/status.ts";
import type { Task } from "../task.ts";

/** Any publish settles within this time, milliseconds. */
export const PUBLISH_DEADLINE_MS = 10_000;

/** What became of one publish. The three kinds differ in what the client may safely do next. */
export type PublishResult =
  /** The broker has the task: 202. */
  | { readonly kind: "confirmed" }
  /** Surely not accepted: no connection, blocked, refused, unroutable, too much outstanding. */
  | { readonly kind: "unavailable"; readonly detail: string }
  /** No confirm within the publisher's deadline: the task may have been taken all the same. */
  | { readonly kind: "unknown"; readonly detail: string };

/** Hands tasks to the broker. */
export interface TaskPublisher {
  /**
   * Hands over a task, to be delivered not before `task.notBefore`. Settles within
   * {@link PUBLISH_DEADLINE_MS} and never rejects. `task.body` must not be changed afterwards.
   */
  publish(task: Task): Promise<PublishResult>;
}

/**
 * What became of keys and tasks. Every method rejects with `LedgerUnavailableError` when the ledger
 * can't be reached; calls of this process take effect in the order in which they were made.
 */
export interface TaskLedger {
  /** Reserves a key before its task is published. */
  reserve(request: KeyedAcceptance): Promise<Reservation>;
  /** The broker has the task. */
  accept(request: Acceptance): Promise<void>;
  /** The broker surely does not have the task: its key is free again. */
  release(id: string): Promise<void>;
  /** The broker may have the task: whoever comes next with its key publishes under the same id. */
  doubt(id: string): Promise<void>;
  /** What a client may know; undefined when there is no record. */
  status(id: string): Promise<TaskStatus | undefined>;
  /** Asks for a task not to be sent any more. */
  cancel(id: string): Promise<Cancellation>;
}

/** Counts what becomes of posts. */
export interface PostMeter {
  /** So many tasks were enqueued; none for a repeated key. */
  accepted(count: number): void;
  /** So many tasks were refused with this status. */
  rejected(status: number, count: number): void;
}

/** The state of the relay as `/healthz` and `/readyz` show it. */
export interface Health {
  /** True when a task posted now would be accepted. */
  readonly ready: boolean;
  /** One word or phrase for each part, by name: publisher, consumer, broker. */
  readonly parts: Readonly<Record<string, string>>;
}
