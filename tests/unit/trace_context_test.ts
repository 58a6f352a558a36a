/**
 * W3C Trace Context: what each attempt sends of what the client sent.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { childOf, isTraceparent, newParentId, traceIdOf } from "../../src/trace_context.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const TRACEPARENT = `00-${TRACE_ID}-b7ad6b7169203331-01`;
const PARENT = "00f067aa0ba902b7";

function hex(digits: number): fc.Arbitrary<string> {
  return fc.uint8Array({ minLength: digits / 2, maxLength: digits / 2 }).map((b) => b.toHex());
}

function nonZero(digits: number): fc.Arbitrary<string> {
  return hex(digits).filter((text) => !/^0+$/.test(text));
}

Deno.test("a traceparent → the same trace and flags under the new parent, tracestate as it is", () => {
  const tracestate = "rojo=00f067aa0ba902b7,\tcongo=t61rcWkgMzE";
  const traceparent = `00-${TRACE_ID}-${PARENT}-01`;
  assert.deepEqual(childOf({ traceparent: TRACEPARENT, tracestate }, PARENT), {
    traceparent,
    tracestate,
  });
  assert.deepEqual(childOf({ traceparent: TRACEPARENT }, PARENT), { traceparent });
});

Deno.test("any valid traceparent → nothing but the parent id changes, and it is valid again", () => {
  fc.assert(
    fc.property(nonZero(32), nonZero(16), hex(2), nonZero(16), (trace, parent, flags, child) => {
      const sent = childOf({ traceparent: `00-${trace}-${parent}-${flags}` }, child).traceparent;
      assert.equal(sent, `00-${trace}-${child}-${flags}`);
      assert.ok(isTraceparent(sent));
    }),
  );
});

Deno.test("any text at all → a valid traceparent, or neither of the two fields", () => {
  const nearly = fc.stringMatching(
    /^[0-9a-f]{2}-[0-9a-fA-F]{30,33}-[0-9a-f]{15,17}-[0-9a-f]{1,3}-?$/,
  );
  fc.assert(fc.property(fc.oneof(fc.string(), nearly), fc.string(), (traceparent, tracestate) => {
    const sent = childOf({ traceparent, tracestate }, PARENT);
    if (!isTraceparent(traceparent)) return assert.deepEqual(sent, {});
    assert.ok(isTraceparent(String(sent.traceparent)));
    assert.equal(sent.tracestate, tracestate);
  }));
});

const UNREADABLE = [
  "",
  "nonsense",
  TRACEPARENT.toUpperCase(),
  ` ${TRACEPARENT}`,
  `${TRACEPARENT}-more`,
  `${TRACEPARENT}\r\nx: y`,
  `${TRACEPARENT}, ${TRACEPARENT}`,
  `ff${TRACEPARENT.slice(2)}`,
  `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  `00-${TRACE_ID}-${"0".repeat(16)}-01`,
  `01${TRACEPARENT.slice(2)}-${"x".repeat(1000)}`,
];

for (const traceparent of UNREADABLE) {
  Deno.test(`a traceparent that can't be read is sent on in no form, nor its tracestate: ${JSON.stringify(traceparent.slice(0, 80))}`, () => {
    assert.equal(isTraceparent(traceparent), false);
    assert.equal(traceIdOf(traceparent), undefined);
    assert.deepEqual(childOf({ traceparent, tracestate: "a=b" }, PARENT), {});
  });
}

Deno.test("a tracestate without a traceparent is not sent on", () => {
  assert.deepEqual(childOf({ tracestate: "a=b" }, PARENT), {});
});

Deno.test("a traceparent of a later version goes on as version 00, with the flags that 00 knows", () => {
  const later = `cc-${TRACE_ID}-b7ad6b7169203331-ff-what-the-future-holds`;
  const traceparent = `00-${TRACE_ID}-${PARENT}-03`;
  assert.deepEqual(childOf({ traceparent: later }, PARENT), { traceparent });
});

Deno.test("the trace id is told to the log", () => {
  assert.equal(traceIdOf(TRACEPARENT), TRACE_ID);
  assert.equal(traceIdOf(undefined), undefined);
});

Deno.test("new parent ids: 16 hexadecimal digits, each another", () => {
  const ids = Array.from({ length: 1000 }, newParentId);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.every((id) => /^[0-9a-f]{16}$/.test(id) && !/^0+$/.test(id)));
});
