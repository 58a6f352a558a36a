/**
 * What an answer means, over every status that can be on the wire.
 *
 * @module
 */

import assert from "node:assert/strict";
import { judge, outcomeName } from "../../src/consumer/outcome.ts";
import type { Answer } from "../../src/consumer/outcome.ts";

const EVERY_STATUS = Array.from({ length: 900 }, (_, n) => 100 + n);
const PERMANENT = [300, 400, 410, 422, 599];
const FAILURES = ["timeout", "refused", "reset", "dns", "tls", "protocol"] as const;

function status(code: number): Answer {
  return { kind: "status", status: code, text: "" };
}

function among<T>(verdict: T, permanent: readonly number[], all = EVERY_STATUS): number[] {
  return all.filter((code) => judge(status(code), permanent) === verdict);
}

Deno.test("judge: 200 to 299 are delivered, and nothing else of 100 to 999 is", () => {
  assert.deepEqual(among("delivered", PERMANENT), EVERY_STATUS.filter((s) => s >= 200 && s < 300));
});

Deno.test("judge: PERMANENT_STATUSES are permanent, and nothing else is", () => {
  assert.deepEqual(among("permanent", PERMANENT), PERMANENT);
  assert.deepEqual(among("permanent", []), []);
});

Deno.test("case 30, case 31: redirects, 304, 600 and 999 → tried again", () => {
  const odd = [301, 302, 303, 304, 307, 308, 600, 999];
  assert.deepEqual(among("retry", PERMANENT, odd), odd);
});

Deno.test("judge: a request without an answer → tried again, under its own name", () => {
  for (const outcome of FAILURES) {
    const answer: Answer = { kind: "failure", outcome, error: "why" };
    assert.equal(judge(answer, EVERY_STATUS), "retry");
    assert.equal(outcomeName(answer), outcome);
  }
});

Deno.test("outcomeName: ok for what is delivered, else status", () => {
  for (const code of EVERY_STATUS) {
    const delivered = judge(status(code), PERMANENT) === "delivered";
    assert.equal(outcomeName(status(code)), delivered ? "ok" : "status");
  }
});
