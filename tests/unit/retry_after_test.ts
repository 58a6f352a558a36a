/**
 * Retry-After as backends send it (cases 20 and 21 of the field notes).
 *
 * @module
 */

import assert from "node:assert/strict";
import { readRetryAfter } from "../../src/consumer/retry_after.ts";
import type { AnswerHeaders } from "../../src/consumer/retry_after.ts";

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);
const LONGEST_MS = 3_600_000;
const IN_TWO_MINUTES = "Mon, 30 Nov 2026 12:02:00 GMT";

function read(headers: AnswerHeaders, status = 429): number | undefined {
  return readRetryAfter(status, headers, { now: NOW, longestMs: LONGEST_MS });
}

const READ: readonly [text: string, ms: number | undefined][] = [
  ["120", 120_000],
  ["0", 0],
  ["007", 7_000],
  [IN_TWO_MINUTES, 120_000],
  ["Monday, 30-Nov-26 12:02:00 GMT", 120_000],
  ["Mon Nov 30 12:02:00 2026", 120_000],
  ["Mon, 30 Nov 2026 11:00:00 GMT", 0],
  ["9999999999", LONGEST_MS],
  ["9".repeat(400), LONGEST_MS],
  ["Fri, 31 Dec 2199 23:59:59 GMT", LONGEST_MS],
  ["-5", undefined],
  ["+5", undefined],
  ["1.5", undefined],
  ["1e3", undefined],
  ["0x10", undefined],
  ["120junk", undefined],
  ["120, 60", undefined],
  ["١٢٠", undefined],
  ["", undefined],
  [" ", undefined],
  ["2026-11-30T12:02:00Z", undefined],
  ["Mon, 31 Nov 2026 12:02:00 GMT", undefined],
];

for (const [text, ms] of READ) {
  Deno.test(`case 20: Retry-After: ${text.slice(0, 40)} → ${ms ?? "ignored"}`, () => {
    assert.equal(read({ "retry-after": text }), ms);
  });
}

Deno.test("case 21: a date while the backend's clock is an hour off → measured by its own Date", () => {
  for (
    const [date, retryAfter] of [
      ["Mon, 30 Nov 2026 13:00:00 GMT", "Mon, 30 Nov 2026 13:02:00 GMT"],
      ["Mon, 30 Nov 2026 11:00:00 GMT", "Mon, 30 Nov 2026 11:02:00 GMT"],
    ] as const
  ) {
    assert.equal(read({ date, "retry-after": retryAfter }), 120_000);
  }
  assert.equal(read({ date: "yesterday", "retry-after": IN_TWO_MINUTES }), 120_000);
});

Deno.test("only 429 and 503 close the gate; Retry-After twice is none", () => {
  for (const status of [200, 301, 404, 500, 502, 504]) {
    assert.equal(read({ "retry-after": "120" }, status), undefined);
  }
  assert.equal(read({ "retry-after": "120" }, 503), 120_000);
  assert.equal(read({ "retry-after": ["120", "60"] }), undefined);
  assert.equal(read({}), undefined);
});
