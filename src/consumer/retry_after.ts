/**
 * Retry-After as the backend sends it (RFC 9110, 10.2.3): seconds, or an HTTP date, which is measured
 * by the backend's own Date and not by this machine's clock. Anything else is ignored. Pure.
 *
 * @module
 */

import { parseHttpDate } from "../moments.ts";

/** The headers of an answer, by their names in lower case. */
export type AnswerHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What is asked of whoever reads the header. */
export interface RetryAfterReading {
  /** Milliseconds since the epoch, for an answer without a Date. */
  readonly now: number;
  /** A longer time is cut to this, milliseconds. */
  readonly longestMs: number;
}

/** With these statuses a Retry-After speaks to everybody: the backend takes nothing more for now. */
const NOT_NOW = [429, 503];

/** How long the backend asks to be left alone, in milliseconds; undefined when it does not. */
export function readRetryAfter(
  status: number,
  headers: AnswerHeaders,
  { now, longestMs }: RetryAfterReading,
): number | undefined {
  const text = headers["retry-after"];
  if (!NOT_NOW.includes(status) || typeof text !== "string") return undefined;
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : untilDate(text, headers["date"], now);
  return waitMs === undefined ? undefined : Math.min(Math.max(0, waitMs), longestMs);
}

function untilDate(text: string, date: AnswerHeaders[string], now: number): number | undefined {
  const moment = parseHttpDate(text, now);
  const reference = typeof date === "string" ? parseHttpDate(date, now) : undefined;
  return moment === undefined ? undefined : moment - (reference ?? now);
}
