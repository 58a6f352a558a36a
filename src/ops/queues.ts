/**
 * The queues of a relay in the order of a task's way, and how many messages lie in each. Pure.
 *
 * @module
 */

import type { Config } from "../config.ts";
import { LEVELS } from "../delay_levels.ts";
import { delayQueue, failedQueue, mainQueue, rungQueue } from "../queue_names.ts";
import { delaysOf } from "../rungs.ts";
import type { QueueStats } from "./stats.ts";

/**
 * Main, the rungs, the delays that hold something, failed.
 *
 * @param depths messages by queue; undefined: the broker can't be asked.
 */
export function describeQueues(
  { queues: { prefix }, ladder }: Pick<Config, "queues" | "ladder">,
  depths: ReadonlyMap<string, number> | undefined,
): readonly QueueStats[] {
  const describe = (
    name: string,
    role: QueueStats["role"],
    delaySeconds: number | null,
  ): QueueStats => ({ name, role, delaySeconds, messages: depths?.get(name) ?? null });
  const rungs = new Set(ladder.flatMap(delaysOf).filter((delayMs) => delayMs > 0));
  const levels = Array.from({ length: LEVELS }, (_, level) => level);
  return [
    describe(mainQueue(prefix), "main", null),
    ...[...rungs].map((ms) => describe(rungQueue(prefix, ms), "retry", ms / 1000)),
    ...levels.map((level) => describe(delayQueue(prefix, level), "delay", 2 ** level))
      .filter(({ messages }) => messages !== null && messages > 0),
    describe(failedQueue(prefix), "failed", null),
  ];
}

/** Messages in the queues of these roles together; null when it is not known of one of them. */
export function messagesIn(
  queues: readonly QueueStats[],
  ...roles: readonly QueueStats["role"][]
): number | null {
  return queues.filter(({ role }) => roles.includes(role))
    .reduce<number | null>(
      (sum, { messages }) => sum === null || messages === null ? null : sum + messages,
      0,
    );
}
