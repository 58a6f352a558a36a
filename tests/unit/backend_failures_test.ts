/**
 * The backend client against a stub that fails in every way in which an exchange can fail.
 *
 * @module
 */

import assert from "node:assert/strict";
import { withBackend } from "../support/backend.ts";
import type { Answer as StubAnswer } from "../support/backend.ts";
import { answerTo, attempt, outcomeOf, withClient } from "../support/backend_client.ts";
import { selfSignedCertificate } from "../support/certificate.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/ports.ts";

const CAP = 64 * 1024;

Deno.test("case 31: 103, then a reset → reset: there was no answer yet", async () => {
  const answer = await answerTo({ raw: "HTTP/1.1 103 Early Hints\r\n\r\n", thenClose: true });
  assert.equal(outcomeOf(answer), "reset");
});

const BROKEN: readonly [trigger: string, stub: StubAnswer, outcome: string][] = [
  ["the connection is reset before any answer", { reset: true }, "reset"],
  ["the connection is closed before any answer", { close: true }, "reset"],
  ["half a head, then closed", { halfAnswer: true }, "reset"],
  ["half a body, then closed", {
    raw: "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
    thenClose: true,
  }, "protocol"],
  ["no HTTP at all", { raw: "SSH-2.0-OpenSSH_9.2\r\n", thenClose: true }, "protocol"],
  ["two different lengths", {
    raw: "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
  }, "protocol"],
];

for (const [trigger, stub, outcome] of BROKEN) {
  Deno.test(`case 32: ${trigger} → ${outcome}, with words`, async () => {
    const answer = await answerTo(stub);
    assert.ok(answer.kind === "failure" && answer.error.length > 0);
    assert.equal(answer.outcome, outcome);
  });
}

const SILENT: readonly [trigger: string, stub: StubAnswer][] = [
  ["no answer", { hang: true }],
  ["headers, then silence", { headersThenSilence: true }],
  ["a body that drips", { raw: "HTTP/1.1 200 OK\r\n\r\nhalf a body of unknown length" }],
  ["103, then silence", { raw: "HTTP/1.1 103 Early Hints\r\n\r\n" }],
];

for (const [trigger, stub] of SILENT) {
  Deno.test(`case 29: ${trigger} → timeout at the deadline, the connection is dropped`, async () => {
    await withBackend((backend) =>
      withClient(backend.url, async (client) => {
        const from = performance.now();
        const { answer, begun } = await attempt(client);
        assert.equal(outcomeOf(answer), "timeout");
        assert.equal(begun, 1);
        assert.ok(performance.now() - from >= 99);
        await eventually(() => assert.equal(backend.openConnections, 0));
      }, { timeoutMs: 100 }), { answer: () => stub });
  });
}

Deno.test("case 29: a peer that accepts and does not go on with the handshake → timeout, never begun", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept();
  const { answer, begun } = await withClient(
    `https://127.0.0.1:${listener.addr.port}`,
    (client) => attempt(client),
    { timeoutMs: 100 },
  );
  (await accepted).close();
  listener.close();
  assert.deepEqual([outcomeOf(answer), begun], ["timeout", 0]);
});

const LARGE: readonly [trigger: string, stub: StubAnswer][] = [
  ["a body of 1 GB", { bodyOfBytes: 1e9 }],
  ["a body that never ends", { endlessBody: true }],
];

for (const [trigger, stub] of LARGE) {
  Deno.test(`case 29: ${trigger} → the status, 64 KiB of it, the connection dropped, memory flat`, async () => {
    await withBackend((backend) =>
      withClient(backend.url, async (client) => {
        const before = Deno.memoryUsage().rss;
        for (let n = 0; n < 20; n++) {
          const { answer } = await attempt(client);
          assert.ok(answer.kind === "status" && answer.status === 200);
          assert.equal(answer.text.length, CAP);
        }
        const grown = Deno.memoryUsage().rss - before;
        assert.ok(grown < 64 * 1024 * 1024, `${grown} bytes more`);
        await eventually(() => assert.equal(backend.openConnections, 0));
      }), { answer: () => stub });
  });
}

Deno.test("case 32: nobody listens → refused, never begun; the backend comes up → delivered", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      await backend.down();
      for (let n = 0; n < 3; n++) {
        const { answer, begun } = await attempt(client);
        assert.deepEqual([outcomeOf(answer), begun], ["refused", 0]);
      }
      await backend.up();
      assert.equal(outcomeOf((await attempt(client)).answer), "200");
    })
  );
});

Deno.test("case 32: a name that can't be resolved → dns, never begun", async () => {
  const name = "a".repeat(64); // too long for a label: no name server is asked
  await withClient(`http://${name}.invalid:${freePort()}`, async (client) => {
    const { answer, begun } = await attempt(client);
    assert.deepEqual([outcomeOf(answer), begun], ["dns", 0]);
  });
});

Deno.test("case 32: https to a backend that speaks http → tls, never begun", async () => {
  await withBackend((backend) =>
    withClient(backend.url.replace("http:", "https:"), async (client) => {
      const { answer, begun } = await attempt(client);
      assert.deepEqual([outcomeOf(answer), begun], ["tls", 0]);
    })
  );
});

Deno.test("case 32: a certificate that nobody vouches for → tls, never begun, nothing sent", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      const { answer, begun } = await attempt(client);
      assert.deepEqual([outcomeOf(answer), begun], ["tls", 0]);
      assert.deepEqual(backend.requests, []);
    }), { tls: await selfSignedCertificate() });
});
