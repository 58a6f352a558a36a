/**
 * The backend client over TLS: whom it trusts, and what it says of a certificate that it can't trust.
 *
 * @module
 */

import assert from "node:assert/strict";
import tls from "node:tls";
import type { TLSSocket } from "node:tls";
import { withBackend } from "../support/backend.ts";
import { attempt, outcomeOf, withClient } from "../support/backend_client.ts";
import { createAuthority, selfSignedCertificate } from "../support/certificate.ts";
import type { Certificate } from "../support/certificate.ts";

const DAY_MS = 86_400_000;
const authority = await createAuthority();
const stranger = await createAuthority();

/** What one attempt comes to at a backend with this certificate, when `ca` is trusted. */
async function attemptAt(
  certificate: Certificate,
  ca: string | undefined,
  host = "localhost",
): Promise<{ readonly outcome: string; readonly error: string; readonly requests: number }> {
  return await withBackend(async (backend) => {
    const url = `https://${host}:${backend.port}`;
    const trust = ca === undefined ? {} : { ca };
    const { answer, begun } = await withClient(url, (client) => attempt(client), trust);
    assert.equal(begun, backend.requests.length);
    const error = answer.kind === "failure" ? answer.error : "";
    return { outcome: outcomeOf(answer), error, requests: backend.requests.length };
  }, { tls: certificate });
}

for (const host of ["localhost", "127.0.0.1"]) {
  Deno.test(`https://${host} with a certificate of the authority that is trusted → delivered`, async () => {
    const { outcome } = await attemptAt(await authority.issue(), authority.cert, host);
    assert.equal(outcome, "200");
  });
}

Deno.test("two authorities in one file → a certificate of either is trusted", async () => {
  const both = `${stranger.cert}\n${authority.cert}`;
  assert.equal((await attemptAt(await authority.issue(), both)).outcome, "200");
  assert.equal((await attemptAt(await stranger.issue(), both)).outcome, "200");
});

const yesterday = Date.now() - DAY_MS;
const tomorrow = Date.now() + DAY_MS;
const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

const REFUSED: readonly [
  trigger: string,
  certificate: () => Promise<Certificate>,
  ca: string | undefined,
  advice: RegExp,
][] = [
  [
    "of an authority that nobody knows",
    () => authority.issue(),
    undefined,
    /^the backend's certificate is not signed by a known authority: set BACKEND_CA_FILE /,
  ],
  [
    "self-signed",
    () => selfSignedCertificate(),
    undefined,
    /^the backend's certificate is not signed by a known authority: set BACKEND_CA_FILE /,
  ],
  [
    "of another authority than the trusted one",
    () => authority.issue(),
    stranger.cert,
    /^the backend's certificate is not signed by an authority in BACKEND_CA_FILE: put the right/,
  ],
  [
    "that has expired",
    () => authority.issue({ validFrom: yesterday - DAY_MS, validUntil: yesterday }),
    authority.cert,
    new RegExp(`^the backend's certificate expired on ${dateOf(yesterday)} .*: it must be renewed`),
  ],
  [
    "that is not valid yet",
    () => authority.issue({ validFrom: tomorrow }),
    authority.cert,
    new RegExp(`^the backend's certificate is not valid before ${dateOf(tomorrow)} .*the clocks`),
  ],
  [
    "for another host",
    () => authority.issue({ names: ["elsewhere.test"] }),
    authority.cert,
    /^the backend's certificate is not for localhost: set BACKEND_BASE_URL .*elsewhere\.test/,
  ],
];

for (const [trigger, certificate, ca, advice] of REFUSED) {
  Deno.test(`case 32: a certificate ${trigger} → tls, never begun, and what to do`, async () => {
    const { outcome, error, requests } = await attemptAt(await certificate(), ca);
    assert.match(error, advice);
    assert.deepEqual([outcome, requests], ["tls", 0]);
  });
}

Deno.test("case 32: https to a server that speaks no TLS → tls, and what to set", async () => {
  await withBackend((backend) =>
    withClient(`https://127.0.0.1:${backend.port}`, async (client) => {
      const { answer, begun } = await attempt(client);
      assert.deepEqual([outcomeOf(answer), begun], ["tls", 0]);
      const advice = /^the backend does not speak TLS at port \d+: set BACKEND_BASE_URL to http:/;
      assert.match(answer.kind === "failure" ? answer.error : "", advice);
    })
  );
});

Deno.test("case 32: http to a server that expects TLS → protocol, and what to set", async () => {
  await withBackend((backend) =>
    withClient(`http://127.0.0.1:${backend.port}`, async (client) => {
      const { answer } = await attempt(client);
      assert.equal(outcomeOf(answer), "protocol");
      const advice = /^the backend expects TLS: set BACKEND_BASE_URL to https:/;
      assert.match(answer.kind === "failure" ? answer.error : "", advice);
      assert.deepEqual(backend.requests, []);
    }), { tls: await authority.issue() });
});

Deno.test("a server that offers HTTP/2 as well → HTTP/1.1 all the same", async () => {
  const protocols: (string | false | null)[] = [];
  const answerOnce = (socket: TLSSocket): void => {
    protocols.push(socket.alpnProtocol);
    socket.on("error", () => {});
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
  };
  const certificate = await authority.issue();
  const server = tls.createServer(
    { ...certificate, ALPNProtocols: ["h2", "http/1.1"] },
    answerOnce,
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  await withClient(`https://127.0.0.1:${address.port}`, async (client) => {
    assert.equal(outcomeOf((await attempt(client)).answer), "200");
  }, { ca: authority.cert });
  await new Promise((resolve) => server.close(resolve));
  assert.deepEqual(new Set(protocols), new Set(["http/1.1"]));
});
