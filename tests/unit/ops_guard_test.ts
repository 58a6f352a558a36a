/**
 * Who may use the operators' listener.
 *
 * @module
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { createGuard } from "../../src/ops/guard.ts";

const PORT = 8081;
const open = createGuard(undefined);

function statusFor(headers: Record<string, string>, port = PORT): number {
  return open(new Headers(headers), port)?.status ?? 200;
}

const HOSTS: readonly (readonly [host: string, status: number])[] = [
  ["localhost:8081", 200],
  ["LOCALHOST:8081", 200],
  ["127.0.0.1:8081", 200],
  ["127.1.2.3:8081", 200],
  ["[::1]:8081", 200],
  ["localhost", 403],
  ["localhost:8080", 403],
  ["localhost:08081x", 403],
  ["evil.example:8081", 403],
  ["127.0.0.1.evil.example:8081", 403],
  ["localhost.evil.example:8081", 403],
  ["evil@localhost:8081", 403],
  ["192.168.0.1:8081", 403],
  ["0.0.0.0:8081", 403],
  ["[::]:8081", 403],
  ["::1:8081", 403],
  ["", 403],
];

for (const [host, status] of HOSTS) {
  Deno.test(`without a token, Host "${host}" → ${status}`, () => {
    assert.equal(statusFor({ host }), status);
  });
}

Deno.test("on port 80 a Host without a port is the own one", () => {
  assert.equal(statusFor({ host: "localhost" }, 80), 200);
});

Deno.test("a page of another origin → 403, whatever it says of itself; the own page → 200", () => {
  const host = "localhost:8081";
  assert.equal(statusFor({ host, origin: "http://localhost:8081" }), 200);
  assert.equal(statusFor({ host, "sec-fetch-site": "same-origin" }), 200);
  assert.equal(statusFor({ host, "sec-fetch-site": "none" }), 200);
  const origins = [
    "https://evil.example",
    "null",
    "http://localhost:8080",
    "http://127.0.0.1:8081",
  ];
  for (const origin of origins) assert.equal(statusFor({ host, origin }), 403, origin);
  for (const site of ["cross-site", "same-site", "", "anything"]) {
    assert.equal(statusFor({ host, "sec-fetch-site": site }), 403, site);
  }
});

Deno.test("without a token no Host passes that is not of the loopback", () => {
  fc.assert(fc.property(fc.domain(), (name) => {
    assert.equal(statusFor({ host: `${name}:${PORT}` }), 403);
  }));
});

Deno.test("with a token → only who has it, whatever the Host", () => {
  const guard = createGuard("s3cret");
  const statusOf = (headers: Record<string, string>): number =>
    guard(new Headers(headers), PORT)?.status ?? 200;
  assert.equal(statusOf({ host: "relay.internal", authorization: "Bearer s3cret" }), 200);
  assert.equal(statusOf({ host: "localhost:8081" }), 401);
  assert.equal(statusOf({ host: "localhost:8081", authorization: "Bearer wrong" }), 401);
});
