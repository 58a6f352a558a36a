/**
 * Sending failed tasks again: the ledger is told, the copy is published and confirmed, the ledger is
 * told of that, and only then the failed message is acknowledged. `ledger/redrive.ts` says what each
 * of these steps is worth when the process dies behind it.
 *
 * What is taken at once is bounded, so that a redrive of everything holds neither the queue nor the
 * memory for long; what can't be sent again stays where it is.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import { messageOf } from "../errors.ts";
import type { RawMessage, Task } from "../task.ts";
import {
  type FailedTask,
  type Filter,
  isDeadLettered,
  matches,
  readFailed,
  redrivable,
} from "./failed_task.ts";
import type { FailedTasks, MainQueue, RedriveLedger } from "./ports.ts";

/** Tasks that are taken at once, and bytes. */
const PORTION = 500;
const PORTION_BYTES = 16 * 1024 * 1024;

/** Tasks of one request, at most. */
export const MOST_REDRIVEN = 10_000;

/** Which tasks are sent again. */
export interface RedriveSelection extends Filter {
  /** Absent: all that the filter leaves. */
  readonly ids?: ReadonlySet<string> | undefined;
  readonly limit: number;
  readonly dryRun: boolean;
}

/** What came of it. */
export interface RedriveReport {
  readonly matched: number;
  /** What the broker has confirmed in the main queue. */
  readonly redriven: number;
  /** Why it was broken off; absent when it was not. */
  readonly trouble?: string;
}

/** What sends tasks again. */
export interface Redriver {
  readonly queue: FailedTasks;
  readonly main: MainQueue;
  /** Absent with LEDGER=off. */
  readonly ledger?: RedriveLedger | undefined;
  readonly clock: Clock;
}

/** Sends the selected tasks again, the longest failed first. */
export async function redriveAll(
  redriver: Redriver,
  selection: RedriveSelection,
): Promise<RedriveReport> {
  const progress = new Progress(selection);
  while (!progress.isOver) {
    const result = await redriver.queue.pass({
      expected: Math.min(PORTION, selection.limit),
      look: (message) => progress.look(message),
      isEnough: () => progress.isPortionFull,
      settle: (taken) => progress.settle(taken, (message) => redriveOne(redriver, message)),
    });
    const { matched, redriven } = progress;
    const trouble = result.kind === "unavailable" ? result.detail : progress.trouble;
    if (trouble !== undefined) return { matched, redriven, trouble };
  }
  return { matched: progress.matched, redriven: progress.redriven };
}

/** What one message came to. */
type Outcome =
  /** It may go, and was sent or not. */
  | { readonly kind: "sent" | "superseded" }
  /** It stays, because it can't be sent now, or never. */
  | { readonly kind: "kept" }
  | { readonly kind: "trouble"; readonly detail: string };

async function redriveOne(
  { main, ledger, clock }: Redriver,
  message: RawMessage,
): Promise<Outcome> {
  const { reason, redriven } = readFailed(message);
  const task = redrivable(message, clock.now());
  if (task === undefined) return { kind: "kept" };
  const { id, enqueuedAt } = task;
  const leave = await ledger?.redrive({
    id,
    enqueuedAt,
    redriven,
    deadLettered: isDeadLettered(reason),
  });
  if (leave?.kind === "superseded") return { kind: "superseded" };
  if (leave?.kind === "under-way") return { kind: "kept" };
  const again: Task = { ...task, redriven: redriven + 1 };
  const result = await main.publish(again);
  if (result.kind !== "confirmed") return { kind: "trouble", detail: result.detail };
  await ledger?.confirmRedrive(id, redriven + 1);
  return { kind: "sent" };
}

/** What was matched and sent so far, over the passes of one request. */
class Progress {
  matched = 0;
  redriven = 0;
  trouble: string | undefined;
  /** Whether the last pass saw all that it could: another one would find nothing. */
  isOver = false;
  readonly #selection: RedriveSelection;
  /** Ids of what stays, and how many messages have each; a pass that follows sees them again. */
  readonly #kept = new Map<string, number>();
  #toSkip = new Map<string, number>();
  /** Ids of this portion. Two copies of one task are sent one after the other: the second is none. */
  readonly #portion = new Set<unknown>();
  #portionBytes = 0;
  #sawSecondCopy = false;

  constructor(selection: RedriveSelection) {
    this.#selection = selection;
  }

  get isPortionFull(): boolean {
    return this.matched >= this.#selection.limit || this.#portion.size >= PORTION ||
      this.#portionBytes >= PORTION_BYTES;
  }

  look(message: RawMessage): "leave" | "take" {
    const task = readFailed(message);
    if (!this.#isMeant(task) || this.#isKept(task.id)) return "leave";
    if (this.#selection.dryRun) {
      this.matched++;
      return "leave";
    }
    // Those without an id of their own are tasks of their own.
    const key = typeof message.id === "string" ? message.id : Symbol();
    if (this.#portion.has(key)) {
      this.#sawSecondCopy = true;
      return "leave";
    }
    this.matched++;
    this.#portion.add(key);
    this.#portionBytes += task.bytes;
    return "take";
  }

  async settle(
    taken: readonly RawMessage[],
    redriveOne: (message: RawMessage) => Promise<Outcome>,
  ): Promise<readonly RawMessage[]> {
    const outcomes = await Promise.all(
      taken.map((message) =>
        redriveOne(message).catch((error: unknown): Outcome => {
          return { kind: "trouble", detail: messageOf(error) };
        })
      ),
    );
    const leaving = taken.filter((message, n) => this.#note(message, outcomes[n]));
    const isThereMore = this.isPortionFull || this.#sawSecondCopy;
    this.isOver = !isThereMore || this.matched >= this.#selection.limit;
    this.#toSkip = new Map(this.#kept);
    this.#portion.clear();
    this.#portionBytes = 0;
    this.#sawSecondCopy = false;
    return leaving;
  }

  /** Whether the message may go. */
  #note(message: RawMessage, outcome: Outcome | undefined): boolean {
    switch (outcome?.kind) {
      case "sent":
        this.redriven++;
        return true;
      case "superseded":
        return true;
      case "trouble":
        this.trouble ??= outcome.detail;
        return false;
      default: {
        const { id } = readFailed(message);
        this.#kept.set(id, (this.#kept.get(id) ?? 0) + 1);
        return false;
      }
    }
  }

  #isMeant(task: FailedTask): boolean {
    const { ids } = this.#selection;
    return (ids === undefined || ids.has(task.id)) && matches(this.#selection, task);
  }

  #isKept(id: string): boolean {
    const left = this.#toSkip.get(id) ?? 0;
    if (left > 0) this.#toSkip.set(id, left - 1);
    return left > 0;
  }
}
