/**
 * The backend client as the tests of it use it: one that is closed in the end, and one attempt.
 *
 * @module
 */

import assert from "node:assert/strict";
import { systemClock } from "../../src/clock.ts";
import { Backend } from "../../src/consumer/backend.ts";
import type { BackendOptions } from "../../src/consumer/backend.ts";
import type { Answer } from "../../src/consumer/outcome.ts";
import type { Task } from "../../src/task.ts";
import { withBackend } from "./backend.ts";
import type { Answer as StubAnswer } from "./backend.ts";
import { aTask } from "./tasks.ts";

/** A timeout long enough not to matter on a busy machine. */
const LONG_MS = 20_000;

/** A signal that never aborts. */
export const NEVER: AbortSignal = new AbortController().signal;

/** For tests that tell by its number whether a connection was used again. */
export const ONE = { connections: 1 } as const;

/** Runs `use` with a client of the backend at `url` and closes it. */
export async function withClient<T>(
  url: string,
  use: (client: Backend) => Promise<T>,
  options: Partial<BackendOptions> = {},
): Promise<T> {
  const defaults = {
    url: new URL(url),
    timeoutMs: LONG_MS,
    connections: 10,
    maxAttempts: 27,
    retryAfterMaxMs: 3_600_000,
    clock: systemClock,
  };
  const client = new Backend({ ...defaults, ...options });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** One attempt, and how often it said that it begins. */
export async function attempt(
  client: Backend,
  task: Task = aTask(),
  signal = NEVER,
): Promise<{ readonly answer: Answer; readonly begun: number }> {
  let begun = 0;
  const answer = await client.send(task, () => ++begun > 0, signal);
  assert.ok(answer !== undefined);
  return { answer, begun };
}

/** What one attempt comes to when the backend gives this answer; it must be asked exactly once. */
export async function answerTo(stub: StubAnswer, timeoutMs = LONG_MS): Promise<Answer> {
  return await withBackend(
    (backend) =>
      withClient(backend.url, async (client) => {
        const { answer, begun } = await attempt(client);
        assert.equal(begun, 1);
        assert.equal(backend.requests.length, 1, "asked once");
        return answer;
      }, { timeoutMs }),
    { answer: () => stub },
  );
}

/** The status, or the name of the failure. */
export function outcomeOf(answer: Answer): string {
  return answer.kind === "status" ? String(answer.status) : answer.outcome;
}
