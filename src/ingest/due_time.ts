/**
 * When a task may be delivered, as its client asks by Task-Delay or Task-Not-Before.
 *
 * Nothing is guessed: a value that is not exactly what these fields may hold is refused, since a
 * task that is delivered a day too early can't be called back.
 *
 * @module
 */
import { parseHttpDate, parseRfc3339 } from "../moments.ts";

/** The two fields as they were sent; null where there was none. */
export interface DueFields {
  /** Task-Delay. */
  readonly delay: string | null;
  /** Task-Not-Before. */
  readonly notBefore: string | null;
}

/** When the task is due, or why that can't be told, in words for the client. */
export type DueTime =
  /** Milliseconds since the epoch; absent: at once. */
  | { readonly ok: true; readonly notBefore?: number }
  | { readonly ok: false; readonly detail: string };

const AT_ONCE: DueTime = { ok: true };

/**
 * Reads both fields. Pure; never throws.
 *
 * @param now milliseconds since the epoch.
 * @param maxDelayMs a task may be due this long after `now`, milliseconds.
 */
export function parseDueTime(fields: DueFields, now: number, maxDelayMs: number): DueTime {
  const { delay, notBefore } = fields;
  if (delay === null && notBefore === null) return AT_ONCE;
  if (delay !== null && notBefore !== null) {
    return refused("There are both Task-Delay and Task-Not-Before. Send one of them.");
  }
  const dueAt = delay !== null ? afterDelay(delay, now) : momentOf(notBefore ?? "", now);
  if (dueAt === undefined) return refused(delay !== null ? DELAY_DETAIL : NOT_BEFORE_DETAIL);
  if (dueAt <= now) return AT_ONCE;
  if (dueAt - now <= maxDelayMs) return { ok: true, notBefore: dueAt };
  const name = delay !== null ? "Task-Delay" : "Task-Not-Before";
  return refused(`${name} is more than ${maxDelayMs / 1000} seconds ahead. Ask for less.`);
}

const DELAY_DETAIL = "Task-Delay must be a number of seconds such as 90 or 0.5, in decimal digits.";
const NOT_BEFORE_DETAIL = "Task-Not-Before must be a date and time as in RFC 3339, such as " +
  "2026-11-30T21:40:00Z, or an HTTP date, such as Mon, 30 Nov 2026 21:40:00 GMT.";

/** Rounded up, for a task must not come early. */
function afterDelay(text: string, now: number): number | undefined {
  return /^\d+(\.\d+)?$/.test(text) ? now + Math.ceil(Number(text) * 1000) : undefined;
}

function momentOf(text: string, now: number): number | undefined {
  return parseRfc3339(text) ?? parseHttpDate(text, now);
}

function refused(detail: string): DueTime {
  return { ok: false, detail };
}
