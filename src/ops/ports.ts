/**
 * What operators' HTTP needs from the rest of the relay, declared where it is used.
 *
 * @module
 */

import type { ConsumerReport } from "../consumer_report.ts";
import type { Redrive, RedriveRequest } from "../ledger/redrive.ts";
import type { RawMessage, Task } from "../task.ts";

/** What is done on a walk through the failed queue. */
export interface Pass {
  /** About how many messages it needs to see. */
  readonly expected: number;
  /** Sees each message from the head of the queue on, in order; "take" hands it to `settle`. */
  look(message: RawMessage): "leave" | "take";
  /** Whether it has seen enough. */
  isEnough(): boolean;
  /** Does something with what was taken, and gives those back that are to leave the queue. */
  settle?(taken: readonly RawMessage[]): Promise<readonly RawMessage[]>;
}

/** How a pass ended; `total` lay in the queue when it began. */
export type PassResult =
  | { readonly kind: "passed"; readonly total: number }
  | { readonly kind: "unavailable"; readonly detail: string };

/** The queue of what never succeeded. */
export interface FailedTasks {
  /** Walks through the queue, one pass at a time; never rejects. */
  pass(pass: Pass): Promise<PassResult>;
  /** Removes everything; `total` is how many that were. */
  purge(): Promise<PassResult>;
}

/** Puts tasks into the main queue; never rejects. */
export interface MainQueue {
  /** Settles with `confirmed` when the broker surely has the task, else with why it may not. */
  publish(task: Task): Promise<
    | { readonly kind: "confirmed" }
    | { readonly kind: "unavailable" | "unknown"; readonly detail: string }
  >;
}

/** What became of tasks. Every method rejects with `LedgerUnavailableError` when it can't be reached. */
export interface RedriveLedger {
  /** Begins to send a failed task again, before its copy is published. */
  redrive(request: RedriveRequest): Promise<Redrive>;
  /** The broker has the copy that was granted as redriven so many times. */
  confirmRedrive(id: string, redriven: number): Promise<void>;
}

/** The consumer, whose counters and standing are its own thread's. */
export interface ConsumerSide {
  /** As `/readyz` names it. */
  readonly state: string;
  /** 1 for the first thread, and one more for each that followed one that died. */
  readonly generation: number;
  /** Undefined when there is no answer in time. Never rejects. */
  report(): Promise<ConsumerReport | undefined>;
}

/** The switch that pauses delivering, for all relays of the prefix. */
export interface PauseControl {
  /** Settles when the broker has it; never rejects. */
  set(paused: boolean): Promise<
    { readonly kind: "done" } | { readonly kind: "unavailable"; readonly detail: string }
  >;
}

/** The queues, seen from outside. */
export interface Depths {
  /** Ready messages by queue; undefined when the broker can't be asked now. Never rejects. */
  read(): Promise<ReadonlyMap<string, number> | undefined>;
}
