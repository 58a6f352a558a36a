/**
 * What became of a task, and the wish that it be not sent any more.
 *
 * @module
 */
import type { TaskStatus } from "../ledger/status.ts";
import { LedgerUnavailableError } from "../ledger/store.ts";
import { refuse } from "../http/answers.ts";
import type { TaskLedger } from "./ports.ts";
import type { Problem } from "../http/problem.ts";
import { ALREADY_FINISHED, LEDGER_OFF, LEDGER_UNAVAILABLE, NO_SUCH_TASK } from "./refusals.ts";

/** What {@link createStatusRoutes} works with. */
export interface StatusOptions {
  /** Absent: nothing is known of any task. */
  readonly ledger?: TaskLedger | undefined;
  /** How often a task is attempted before it is given up. */
  readonly maxAttempts: number;
}

/** The two routes of a single task. */
export interface StatusRoutes {
  /** What is known of the task. */
  get(request: Request, id: string): Promise<Response>;
  /** Asks for it not to be sent any more. */
  cancel(request: Request, id: string): Promise<Response>;
}

/** Makes the routes; without a ledger they answer 404. */
export function createStatusRoutes({ ledger, maxAttempts }: StatusOptions): StatusRoutes {
  async function statusOf(id: string): Promise<TaskStatus | Problem> {
    if (ledger === undefined) return LEDGER_OFF;
    return await ledger.status(id) ?? NO_SUCH_TASK;
  }

  async function cancel(id: string): Promise<TaskStatus | Problem> {
    if (ledger === undefined) return LEDGER_OFF;
    switch (await ledger.cancel(id)) {
      case "cancelled":
        return await statusOf(id);
      case "finished":
        return ALREADY_FINISHED;
      case "unknown":
        return NO_SUCH_TASK;
    }
  }

  async function answer(
    request: Request,
    status: 200 | 202,
    asked: Promise<TaskStatus | Problem>,
  ): Promise<Response> {
    const found = await asked.catch(readUnavailable);
    return "id" in found ? statusResponse(status, found, maxAttempts) : refuse(request, found);
  }

  return {
    get: (request, id) => answer(request, 200, statusOf(id)),
    cancel: (request, id) => answer(request, 202, cancel(id)),
  };
}

function readUnavailable(error: unknown): Problem {
  if (error instanceof LedgerUnavailableError) return LEDGER_UNAVAILABLE;
  throw error;
}

/** Every field is there in every answer, in the order of the contract. */
function statusResponse(status: 200 | 202, task: TaskStatus, maxAttempts: number): Response {
  const body = {
    id: task.id,
    status: task.status,
    attempts: task.attempts,
    maxAttempts,
    lastStatus: task.lastStatus ?? null,
    lastError: task.lastError ?? null,
    enqueuedAt: timeOf(task.enqueuedAt),
    nextAttemptAt: timeOf(task.nextAttemptAt),
    finishedAt: timeOf(task.finishedAt),
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });
}

/** RFC 3339 in UTC. */
function timeOf(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}
