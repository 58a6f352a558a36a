/**
 * Looking at failed tasks: a page of them, or one.
 *
 * A page begins where the one before it ended, so the queue is read from its head up to there again;
 * behind that a filter may need to read on, and how far is bounded: a page that is not full has a
 * `next` all the same.
 *
 * @module
 */

import type { RawMessage } from "../task.ts";
import { type FailedTask, type Filter, matches, readFailed } from "./failed_task.ts";
import type { FailedTasks, PassResult } from "./ports.ts";

/** Messages behind `after` that are looked at for one page. */
export const MOST_EXAMINED = 10_000;

/** Which page of which tasks. */
export interface PageRequest extends Filter {
  readonly limit: number;
  /** Id of the last message that was looked at for the page before. */
  readonly after?: string | undefined;
}

/** A page, in the order of the queue: the longest failed first. */
export interface Page {
  /** All that lie in the queue, whatever the filter. */
  readonly total: number;
  readonly tasks: readonly FailedTask[];
  /** The `after` of the next page; null when there is none. */
  readonly next: string | null;
}

type Unavailable = Extract<PassResult, { kind: "unavailable" }>;

/** Reads a page; "gone" when there is no message called `after` any more. */
export async function readPage(
  queue: FailedTasks,
  { limit, after, ...filter }: PageRequest,
): Promise<Page | "gone" | Unavailable> {
  const tasks: FailedTask[] = [];
  let begun = after === undefined;
  let examined = 0;
  let last: string | undefined;
  let next: string | null = null;
  const look = (message: RawMessage): "leave" => {
    const task = readFailed(message);
    if (!begun) {
      begun = task.id === after;
      return "leave";
    }
    // One more than belongs to the page tells that there is a next one.
    if (tasks.length === limit || examined === MOST_EXAMINED) {
      next = last ?? null;
      return "leave";
    }
    examined++;
    last = task.id;
    if (matches(filter, task)) tasks.push(task);
    return "leave";
  };
  const result = await queue.pass({ expected: limit + 1, look, isEnough: () => next !== null });
  if (result.kind === "unavailable") return result;
  return begun ? { total: result.total, tasks, next } : "gone";
}

/** Finds the first message called `id`; undefined when there is none. */
export async function findFailed(
  queue: FailedTasks,
  id: string,
): Promise<RawMessage | undefined | Unavailable> {
  let found: RawMessage | undefined;
  const look = (message: RawMessage): "leave" => {
    if (readFailed(message).id === id) found = message;
    return "leave";
  };
  const result = await queue.pass({ expected: 100, look, isEnough: () => found !== undefined });
  return result.kind === "unavailable" ? result : found;
}

/** Removes the first message called `id`; false when there is none. */
export async function deleteFailed(
  queue: FailedTasks,
  id: string,
): Promise<boolean | Unavailable> {
  let found = false;
  const look = (message: RawMessage): "leave" | "take" => {
    found = readFailed(message).id === id;
    return found ? "take" : "leave";
  };
  const settle = (taken: readonly RawMessage[]): Promise<readonly RawMessage[]> =>
    Promise.resolve(taken);
  const result = await queue.pass({ expected: 100, look, isEnough: () => found, settle });
  return result.kind === "unavailable" ? result : found;
}
