/** Which bytes are a payload. The cases are those of people's clients; see case 18 and 19. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { checkPayload, MAX_NESTING } from "../../src/payload.ts";

const encoder = new TextEncoder();

function check(text: string): ReturnType<typeof checkPayload> {
  return checkPayload(encoder.encode(text));
}

function detailOf(bytes: Uint8Array): string {
  const result = checkPayload(bytes);
  assert.ok(!result.ok, "the body should have been refused");
  return result.detail;
}

Deno.test("JSON of any kind, also null, a text or a number, is a payload", () => {
  for (const text of ["null", '"text"', "42", "true", "[]", "{}", " \n-1.5e3\t\r\n", '""']) {
    assert.deepEqual(check(text), { ok: true }, text);
  }
});

Deno.test("numbers beyond 2^53, repeated names and a trailing newline are accepted", () => {
  assert.deepEqual(check('{"id":12345678901234567890, "a":1.0,"a":2}\n'), { ok: true });
});

Deno.test("a lone surrogate escape is valid JSON and accepted", () => {
  assert.deepEqual(check('"\\ud800"'), { ok: true });
});

Deno.test("an empty body is refused, one of white space too", () => {
  assert.match(detailOf(new Uint8Array()), /empty/);
  assert.match(detailOf(encoder.encode(" \n")), /too early/);
});

Deno.test("a byte order mark is refused by name, for UTF-8 and UTF-16", () => {
  assert.match(detailOf(encoder.encode("\ufeff{}")), /byte order mark/);
  assert.match(detailOf(Uint8Array.of(0xff, 0xfe, 0x31, 0)), /UTF-8/);
});

Deno.test("invalid UTF-8 is refused, and the next body is judged on its own", () => {
  const surrogate = Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22);
  const overlong = Uint8Array.of(0x22, 0xc0, 0xaf, 0x22);
  const cut = Uint8Array.of(0x22, 0xc3);
  for (const bytes of [surrogate, overlong, cut]) assert.match(detailOf(bytes), /UTF-8/);
  assert.deepEqual(check('"é"'), { ok: true });
});

Deno.test("what is not JSON is refused with its place when the parser knows it", () => {
  assert.match(detailOf(encoder.encode('{"a":1,\n "b" 2}')), /line 2, column 6/);
  for (const text of ["{", "[1,]", "nul", "01", "NaN", "{'a':1}", "1 2", '"a\nb"']) {
    assert.match(detailOf(encoder.encode(text)), /not valid JSON/, text);
  }
});

Deno.test("a refusal never quotes the payload", () => {
  for (const text of ["hunter2", '{"password":hunter2}', '{"a":"hunter2" x}', '["hunter2",]']) {
    assert.doesNotMatch(detailOf(encoder.encode(text)), /hunter2/);
  }
});

Deno.test("nesting up to the cap is accepted, one level more is refused", () => {
  const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
  assert.deepEqual(check(nested(MAX_NESTING)), { ok: true });
  assert.match(detailOf(encoder.encode(nested(MAX_NESTING + 1))), /512 levels/);
  const objects = '{"a":'.repeat(MAX_NESTING + 1) + "1" + "}".repeat(MAX_NESTING + 1);
  assert.match(detailOf(encoder.encode(objects)), /512 levels/);
});

Deno.test("brackets in strings and side by side do not count as nesting", () => {
  assert.deepEqual(check(JSON.stringify("[".repeat(2000))), { ok: true });
  assert.deepEqual(check(JSON.stringify({ 'a"\\': '\\"' + "{".repeat(2000) })), { ok: true });
  assert.deepEqual(check(`[${"[],".repeat(2000)}{}]`), { ok: true });
});

Deno.test("1,000,000 nested arrays are refused by a scan of the first few bytes", () => {
  const bytes = new Uint8Array(1_000_000).fill("[".charCodeAt(0));
  const start = performance.now();
  assert.match(detailOf(bytes), /512 levels/);
  assert.ok(performance.now() - start < 50, "the scan stops where the cap is exceeded");
});

Deno.test("whatever JSON.stringify writes is a payload unless it is too deep", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 20 }), (text) => check(text).ok));
});

Deno.test("arbitrary bytes are accepted exactly when a strict decoder and JSON.parse do", () => {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const byte = fc.oneof(fc.constantFrom(...encoder.encode('[]{}",:\\ 0123truefalsn')), fc.nat(255));
  fc.assert(fc.property(fc.array(byte, { maxLength: 12 }), (values) => {
    const bytes = Uint8Array.from(values);
    let valid = true;
    try {
      JSON.parse(strict.decode(bytes));
    } catch {
      valid = false;
    }
    return checkPayload(bytes).ok === valid;
  }));
});
