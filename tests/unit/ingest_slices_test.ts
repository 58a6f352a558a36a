/** Where the payloads of a batch begin and end: the very bytes, whatever is around them. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { arraySlices, lineSlices } from "../../src/ingest/slices.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The elements' texts, or the detail of what is wrong. */
function elements(text: string): string[] | string {
  const texts: string[] = [];
  for (const found of arraySlices(encoder.encode(text))) {
    if (found.kind === "malformed") return found.detail;
    texts.push(decoder.decode(found.bytes));
  }
  return texts;
}

function lines(text: string): string[] {
  return [...lineSlices(encoder.encode(text))].map(({ bytes }) => decoder.decode(bytes));
}

const space = fc.array(fc.constantFrom(" ", "\n", "\r", "\t"), { maxLength: 3 })
  .map((chars) => chars.join(""));

/** JSON text of any value, in any indentation. */
const json = fc.tuple(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 1, 4, "\t"))
  .map(([value, indent]) => JSON.stringify(value, null, indent));

/** What JSON.stringify never writes, and a batch must not change. */
const oddities = fc.constantFrom(
  "12345678901234567890",
  "1.0",
  "-0",
  '{"a":1.0,"a":2}',
  '{ "a" : [ 1 , 2 ] }',
  '"],\\"[,{\\\\"',
  '"\\ud800"',
  '["a\\\\", "b"]',
  '"é🎉,]"',
  '{"]":"[","}":"{"}',
);

Deno.test("an array of any JSON in any formatting gives each element's own bytes", () => {
  const element = fc.oneof(json, oddities);
  fc.assert(
    fc.property(
      fc.array(fc.tuple(space, element, space), { maxLength: 12 }),
      space,
      (parts, pad) => {
        const inside = parts.map(([before, text, after]) => before + text + after).join(",");
        const bytes = encoder.encode(`${pad}[${inside || pad}]${pad}`);
        const found = [...arraySlices(bytes)];
        assert.deepEqual(
          found.map((slice) => slice.kind === "slice" ? decoder.decode(slice.bytes) : slice.detail),
          parts.map(([, text]) => text),
        );
        for (const slice of found) {
          assert.ok(slice.kind === "slice");
          assert.equal(slice.bytes.buffer, bytes.buffer, "a view, not a copy");
          assert.equal(slice.bytes.byteOffset, slice.start);
        }
      },
    ),
  );
});

Deno.test("arbitrary bytes are an array of valid elements exactly when JSON.parse says so", () => {
  const alphabet = [...'[[[]]]{}",,:\\ 01tn\n', "true", "null", '"a"', "é"];
  const text = fc.array(fc.constantFrom(...alphabet), { maxLength: 14 }).map((p) =>
    `[${p.join("")}`
  );
  fc.assert(
    fc.property(text, (text) => {
      const found = elements(text);
      const accepted = typeof found !== "string" && found.every(isJson);
      assert.equal(accepted, isJson(text), text);
      if (accepted) assert.deepEqual(found.map((t) => JSON.parse(t)), JSON.parse(text));
    }),
    { numRuns: 5_000 },
  );
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

Deno.test("a malformed array is told with its place", () => {
  const cases: [string, RegExp][] = [
    ["", /not a JSON array/],
    ["  ", /not a JSON array/],
    ['{"a":1}', /not a JSON array/],
    ["1", /not a JSON array/],
    ["[", /ends before its array/],
    ["[1", /ends before its array/],
    ['[1,"a]', /ends before its array/],
    ["[[1]", /ends before its array/],
    ["[1,]", /lacks an element.*byte 3\./],
    ["[,1]", /lacks an element.*byte 1/],
    ["[1,,2]", /lacks an element.*byte 3/],
    ["[1}", /stray } at byte 2/],
    ["[1] x", /goes on.*byte 4/],
    ["[1][2]", /goes on.*byte 3/],
  ];
  for (const [text, detail] of cases) assert.match(String(elements(text)), detail, text);
  assert.deepEqual(elements(" [ ] \n"), []);
});

Deno.test("elements before a mistake are found without looking at the rest", () => {
  const found = arraySlices(encoder.encode("[1, 2, {"));
  assert.equal(found.next().value?.kind, "slice");
  assert.equal(found.next().value?.kind, "slice");
  assert.equal(found.next().value?.kind, "malformed");
  assert.ok(found.next().done);
});

Deno.test("lines: LF and CRLF, blank ones don't count, and the last needs no end", () => {
  assert.deepEqual(lines('1\n{"a": 2}\r\n\n  \t\r\n\r\n "x" '), ["1", '{"a": 2}', ' "x" ']);
  assert.deepEqual(lines("1\n2\n"), ["1", "2"]);
  assert.deepEqual(lines(""), []);
  assert.deepEqual(lines("\r\n\n"), []);
  assert.deepEqual(lines("1\r\r\n"), ["1\r"], "one CR belongs to the line's end");
  assert.deepEqual(lines("1\r2\n"), ["1\r2"], "a lone CR is no end of a line");
});

Deno.test("lines of any JSON give each line's own bytes, with their place", () => {
  const line = fc.oneof(
    fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.stringify(value)),
    oddities,
  );
  const part = fc.tuple(line, fc.constantFrom("\n", "\r\n", "\n\n", "\n \r\n"));
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), fc.boolean(), (parts, closed) => {
      const text = parts.map(([line, end]) => line + end).join("");
      const bytes = Buffer.from(closed ? text : text.trimEnd());
      const found = [...lineSlices(bytes)];
      assert.deepEqual(
        found.map(({ bytes }) => decoder.decode(bytes)),
        parts.map(([line]) => line),
      );
      for (const slice of found) {
        const again = bytes.subarray(slice.start, slice.start + slice.bytes.length);
        assert.ok(Buffer.from(slice.bytes).equals(again));
      }
    }),
  );
});
