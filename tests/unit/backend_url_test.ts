/**
 * The join of BACKEND_BASE_URL and BACKEND_PATH (case 33 of the field notes).
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { joinUrl } from "../../src/config.ts";

const JOINED: readonly [base: string, path: string, url: string][] = [
  ["http://h", "/task", "http://h/task"],
  ["http://h/", "/task", "http://h/task"],
  ["http://h", "task", "http://h/task"],
  ["http://h/", "task", "http://h/task"],
  ["http://h/api", "/task", "http://h/api/task"],
  ["http://h/api/", "/task", "http://h/api/task"],
  ["http://h/api//", "//task", "http://h/api/task"],
  ["http://h/api", "task/", "http://h/api/task/"],
  ["http://h/api", "", "http://h/api"],
  ["http://h/api/", "", "http://h/api/"],
  ["http://h/api", "/", "http://h/api/"],
  ["http://h", "", "http://h/"],
  ["http://h", "/", "http://h/"],
  ["https://h:8443/a/b", "/c/d", "https://h:8443/a/b/c/d"],
  ["http://[::1]:8090", "/task", "http://[::1]:8090/task"],
  ["http://[2001:db8::1]/api/", "task", "http://[2001:db8::1]/api/task"],
  ["http://h/api", "/task?x=1", "http://h/api/task?x=1"],
  ["http://h/api", "?x=1", "http://h/api?x=1"],
  ["http://h/api", "/task?next=/a?b", "http://h/api/task?next=/a?b"],
  ["http://h", "/task?to=../../x", "http://h/task?to=../../x"],
  ["http://h", "//evil/x", "http://h/evil/x"],
  ["http://h", "\\\\evil\\x", "http://h/evil/x"],
  ["http://h", "/.//evil/x", "http://h/evil/x"],
  ["http://h", "http://evil/x", "http://h/http://evil/x"],
  ["http://h", "@evil/x", "http://h/@evil/x"],
  ["http://h", ":81/x", "http://h/:81/x"],
  ["http://h/api", "/a//b", "http://h/api/a//b"],
  ["http://h/api", "/a/./b/../c", "http://h/api/a/c"],
  ["http://h/api", "/../../x", "http://h/api/x"],
  ["http://h/api", "/%2e%2e/x", "http://h/api/x"],
  ["http://h/api", "/a%2Fb%20c", "http://h/api/a%2Fb%20c"],
  ["http://h/api", "/100%", "http://h/api/100%"],
  ["http://h/api", "/größe/✓ x", "http://h/api/gr%C3%B6%C3%9Fe/%E2%9C%93%20x"],
  ["http://h/api%20v1", "/task", "http://h/api%20v1/task"],
];

for (const [base, path, url] of JOINED) {
  Deno.test(`case 33: base ${base} and path ${JSON.stringify(path)} are ${url}`, () => {
    assert.equal(joinUrl(new URL(base), path).href, url);
  });
}

Deno.test("case 33: a path with a fragment is refused, not cut", () => {
  assert.throws(() => joinUrl(new URL("http://h"), "/task#part"), /fragment \(#\)/);
});

Deno.test("joinUrl: leaves the base that it is given as it was", () => {
  const base = new URL("http://h/api");
  joinUrl(base, "/task?x=1");
  assert.equal(base.href, "http://h/api");
});

Deno.test("joinUrl: a query and a fragment of the base are no part of the request", () => {
  assert.equal(joinUrl(new URL("http://h/api?x=1#y"), "/task").href, "http://h/api/task");
});

/** Paths made of the pieces that URL parsers treat specially, and of anything else. */
const anyPath = fc.array(
  fc.oneof(
    fc.constantFrom("/", "//", "\\", ".", "..", "%2e", "?", "@", ":", ":80", "\t", "\n", " "),
    fc.string({ unit: "binary", maxLength: 5 }),
  ),
  { maxLength: 8 },
).map((pieces) => pieces.join("").replaceAll("#", ""));

const anyBase = fc.constantFrom(
  "http://h",
  "https://h:1/a",
  "http://[::1]:8/a/b/",
  "http://h/a%20b",
);

Deno.test("joinUrl: keeps the base's origin and stays under its path, whatever the path", () => {
  fc.assert(
    fc.property(anyBase, anyPath, (text, path) => {
      const base = new URL(text);
      const url = joinUrl(base, path);
      assert.equal(url.origin, base.origin);
      assert.equal(url.username + url.password + url.hash, "");
      const below = `${base.pathname.replace(/\/+$/, "")}/`;
      assert.ok(url.pathname === base.pathname || url.pathname.startsWith(below), url.href);
    }),
    { numRuns: 2000 },
  );
});

Deno.test("joinUrl: what it gives is read by others as the same URL", () => {
  fc.assert(
    fc.property(anyBase, anyPath, (base, path) => {
      const { href } = joinUrl(new URL(base), path);
      assert.equal(new URL(href).href, href);
    }),
  );
});
