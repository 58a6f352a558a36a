/** Which header fields a task takes along; see cases 10 and 38. */
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  checkContentEncoding,
  checkContentType,
  checkHeaders,
  checkTrace,
  MAX_CARRIED,
  MAX_CONTENT_TYPE,
  MAX_IDEMPOTENCY_KEY,
  MAX_TRACESTATE,
  parseIdempotencyKey,
} from "../../src/ingest/headers.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

Deno.test("application/json and application/*+json are taken, in any case, with parameters", () => {
  for (
    const value of [
      "application/json",
      "Application/JSON",
      "application/json;charset=utf-8",
      'application/json ; CHARSET="UTF-8"',
      "application/json; charset=utf8; x=y",
      "application/json;",
      "application/cloudevents+json",
      'application/vnd.api+json; profile="a;charset=latin1"',
    ]
  ) assert.equal(checkContentType(value), undefined, value);
});

Deno.test("another media type or charset is 415", () => {
  for (
    const value of [
      null,
      "",
      "text/plain",
      "text/json",
      "application/jsonx",
      "application/json+x",
      "application/+json",
      "application/json, application/json",
      "application/json; charset=iso-8859-1",
      'application/json; a="b"; charset="utf-16"',
      "application/json charset=utf-8",
      "application/json; =",
      'application/json; a="b',
    ]
  ) assert.equal(checkContentType(value)?.status, 415, String(value));
});

Deno.test("a Content-Type that AMQP cannot hold is 400", () => {
  const fits = `application/json; a=${"b".repeat(MAX_CONTENT_TYPE - 20)}`;
  assert.equal(fits.length, MAX_CONTENT_TYPE);
  assert.equal(checkContentType(fits), undefined);
  assert.equal(checkContentType(`${fits}b`)?.status, 400);
});

Deno.test("a Content-Type with a control or non-ASCII character is 415", () => {
  for (const value of ['application/json; a="\0"', 'application/json; a="é"']) {
    assert.equal(checkContentType(value)?.status, 415);
  }
});

Deno.test("a Content-Encoding other than identity is 415 and says what is taken", () => {
  assert.equal(checkContentEncoding(null), undefined);
  assert.equal(checkContentEncoding("Identity"), undefined);
  for (const value of ["gzip", "br", "identity, gzip", "deflate"]) {
    const problem = checkContentEncoding(value);
    assert.equal(problem?.status, 415);
    assert.equal(problem?.headers?.["accept-encoding"], "identity");
  }
});

Deno.test("an Idempotency-Key is taken plain and in the quoted form, escapes undone", () => {
  assert.equal(parseIdempotencyKey("order-17"), "order-17");
  assert.equal(parseIdempotencyKey("two words"), "two words");
  assert.equal(parseIdempotencyKey('"order-17"'), "order-17");
  assert.equal(parseIdempotencyKey('"a\\"b\\\\c"'), 'a"b\\c');
  assert.equal(parseIdempotencyKey('a"b'), 'a"b');
});

Deno.test("an Idempotency-Key of 255 characters is taken, of 256 or none is refused", () => {
  const longest = "k".repeat(MAX_IDEMPOTENCY_KEY);
  assert.equal(parseIdempotencyKey(longest), longest);
  assert.equal(parseIdempotencyKey(`"${longest}"`), longest);
  for (const value of [`${longest}k`, `"${longest}k"`, "", '""']) {
    assert.equal(parseIdempotencyKey(value), undefined);
  }
});

Deno.test("CR, LF or NUL in an Idempotency-Key is refused, quoted or plain", () => {
  for (const char of ["\r", "\n", "\0", "\r\nX-Evil: 1", "\t", "\x7f", "é"]) {
    assert.equal(parseIdempotencyKey(`a${char}b`), undefined);
    assert.equal(parseIdempotencyKey(`"a${char}b"`), undefined);
    assert.equal(parseIdempotencyKey(`a${char}`), undefined);
  }
});

Deno.test("a malformed quoted Idempotency-Key is refused", () => {
  for (const value of ['"', '"a', '"a"b"', '"a\\"', '"a\\n"', '"a", "b"', '" a"', '"a "']) {
    assert.equal(parseIdempotencyKey(value), undefined, value);
  }
});

Deno.test("every key of printable ASCII survives the quoted form", () => {
  const key = fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/);
  fc.assert(fc.property(key, (text) => {
    const quoted = `"${text.replace(/[\\"]/g, "\\$&")}"`;
    return parseIdempotencyKey(quoted) === text;
  }));
});

Deno.test("a trace context is carried as it came", () => {
  const tracestate = "rojo=00f067aa0ba902b7,\tcongo=t61rcWkgMzE";
  assert.deepEqual(checkTrace(TRACEPARENT, tracestate), { traceparent: TRACEPARENT, tracestate });
  assert.deepEqual(checkTrace(TRACEPARENT, null), { traceparent: TRACEPARENT });
  const later = `01${TRACEPARENT.slice(2)}-more`;
  assert.deepEqual(checkTrace(later, null), { traceparent: later });
});

Deno.test("a malformed traceparent is dropped, and its tracestate with it", () => {
  for (
    const value of [
      "",
      "nonsense",
      TRACEPARENT.toUpperCase(),
      `ff${TRACEPARENT.slice(2)}`,
      `${TRACEPARENT}-more`,
      `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
      `00-0af7651916cd43dd8448eb211c80319c-${"0".repeat(16)}-01`,
      `${TRACEPARENT}, ${TRACEPARENT}`,
      `01${TRACEPARENT.slice(2)}-${"x".repeat(1000)}`,
      null,
    ]
  ) assert.deepEqual(checkTrace(value, "a=b"), {}, String(value));
});

Deno.test("CR, LF or NUL in a traceparent or tracestate is refused", () => {
  for (const char of ["\r", "\n", "\0", "\x7f"]) {
    assert.equal(typeof checkTrace(TRACEPARENT + char, null), "string");
    assert.equal(typeof checkTrace(TRACEPARENT, `a=b${char}`), "string");
  }
});

Deno.test("a tracestate over 8 KiB is refused", () => {
  const longest = "a".repeat(MAX_TRACESTATE);
  assert.deepEqual(checkTrace(TRACEPARENT, longest), {
    traceparent: TRACEPARENT,
    tracestate: longest,
  });
  assert.equal(typeof checkTrace(TRACEPARENT, `${longest}a`), "string");
});

Deno.test("header values over 64 KiB in sum are refused with 400", () => {
  const check = checkHeaders(
    new Headers({
      "content-type": "application/json",
      traceparent: "x".repeat(MAX_CARRIED),
    }),
  );
  assert.ok(!check.ok);
  assert.equal(check.problem.status, 400);
  assert.match(check.problem.detail, /65536/);
});

Deno.test("the fields a task takes along are those that were sent, and no others", () => {
  const plain = checkHeaders(new Headers({ "content-type": "application/json" }));
  assert.deepEqual(plain, { ok: true, fields: { contentType: "application/json" } });
  const all = checkHeaders(
    new Headers({
      "content-type": "application/json",
      "idempotency-key": '"k"',
      traceparent: TRACEPARENT,
      tracestate: "a=b",
    }),
  );
  assert.deepEqual(all, {
    ok: true,
    fields: {
      contentType: "application/json",
      idempotencyKey: "k",
      traceparent: TRACEPARENT,
      tracestate: "a=b",
    },
  });
});
