/**
 * The names of failures, for the errors that undici and Deno's node:net really raise.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { classify } from "../../src/consumer/failure.ts";

function failure(message: string, code?: string, cause?: Error): Error {
  return Object.assign(new Error(message, { cause }), code === undefined ? {} : { code });
}

const NAMES: readonly [name: string, error: Error][] = [
  ["refused", failure("connect ECONNREFUSED 127.0.0.1:1", "ECONNREFUSED")],
  ["refused", failure("no route to host", "EHOSTUNREACH")],
  ["refused", failure("several addresses", undefined, failure("one", "ECONNREFUSED"))],
  ["dns", failure("getaddrinfo ENOTFOUND nowhere.invalid", "ENOTFOUND")],
  ["dns", failure("temporary failure in name resolution", "EAI_AGAIN")],
  ["timeout", failure("Connect Timeout Error", "UND_ERR_CONNECT_TIMEOUT")],
  ["timeout", failure("connect ETIMEDOUT", "ETIMEDOUT")],
  ["reset", failure("other side closed", "UND_ERR_SOCKET")],
  ["reset", failure("read ECONNRESET", "ECONNRESET")],
  ["reset", failure("write EPIPE", "EPIPE")],
  ["tls", failure("self-signed certificate", "DEPTH_ZERO_SELF_SIGNED_CERT")],
  ["tls", failure("unable to verify", "UNABLE_TO_VERIFY_LEAF_SIGNATURE")],
  ["tls", failure("certificate has expired", "CERT_HAS_EXPIRED")],
  ["tls", failure("wrong host", "ERR_TLS_CERT_ALTNAME_INVALID")],
  ["tls", failure("invalid peer certificate: UnknownIssuer")],
  ["tls", failure("wrong version number", "ERR_SSL_WRONG_VERSION_NUMBER")],
  ["protocol", failure("Response does not match the HTTP/1.1 protocol", "HPE_INVALID_CONSTANT")],
  ["protocol", failure("something that nobody has seen")],
];

for (const [name, error] of NAMES) {
  const { code = "no code" } = error as Error & { code?: string };
  Deno.test(`classify: ${code}, "${error.message}" → ${name}`, () => {
    assert.equal(classify(error, false), name);
  });
}

Deno.test("classify: a connection lost in the middle of an answer → protocol, not reset", () => {
  assert.equal(classify(failure("read ECONNRESET", "ECONNRESET"), true), "protocol");
  assert.equal(classify(failure("other side closed", "UND_ERR_SOCKET"), true), "protocol");
  assert.equal(classify(failure("connect ETIMEDOUT", "ETIMEDOUT"), true), "timeout");
});

Deno.test("classify: whatever the code is → one of the names, never an exception", () => {
  const names = ["timeout", "refused", "reset", "dns", "tls", "protocol"];
  const anyCode = fc.oneof(fc.anything(), fc.constantFrom("__proto__", "constructor", "toString"));
  fc.assert(
    fc.property(anyCode, fc.string(), fc.boolean(), (code, message, begun) => {
      const error = Object.assign(new Error(message), { code });
      assert.ok(names.includes(classify(error, begun)));
    }),
  );
});
