/**
 * Tests of the stub backend and of the TCP relay, only where a fault in them would make other tests
 * pass or fail for the wrong reason.
 *
 * @module
 */
import assert from "node:assert/strict";
import net from "node:net";
import { Agent, request } from "undici";
import { type Answer, withBackend } from "../support/backend.ts";
import { selfSignedCertificate } from "../support/certificate.ts";
import { eventually } from "../support/eventually.ts";
import { type TcpRelay, withTcpRelay } from "../support/tcp_relay.ts";

const ascii = new TextEncoder();

const HANG: Answer = { hang: true };
const HEADERS_THEN_SILENCE: Answer = { headersThenSilence: true };
const ENDLESS_BODY: Answer = { endlessBody: true };
/** After these nothing comes, or never an end. */
const SILENT: readonly Answer[] = [HANG, HEADERS_THEN_SILENCE, ENDLESS_BODY];

/**
 * What an undici client with one connection makes of `answer`: its status and body, its error, or
 * `nothing more` when it is still waiting a while after the request arrived.
 */
async function seenByClient(answer: Answer): Promise<string> {
  return await withBackend(async (backend) => {
    const client = new Agent({ connections: 1, headersTimeout: 0, bodyTimeout: 0 });
    try {
      const patience = new AbortController();
      const { signal } = patience;
      const options = { method: "POST", body: "{}", dispatcher: client, signal } as const;
      if (SILENT.includes(answer)) {
        const giveUp = (): void => patience.abort(new DOMException("", "nothing more"));
        void backend.waitFor(1).then(() => setTimeout(giveUp, 150));
      }
      const answered = await request(`${backend.url}/process`, options);
      const body = await answered.body.arrayBuffer();
      return `${answered.statusCode} with ${body.byteLength} bytes`;
    } catch (error) {
      assert.ok(error instanceof Error);
      return error instanceof DOMException || !("code" in error) ? error.name : String(error.code);
    } finally {
      await client.destroy();
      assert.equal(backend.requests.length, 1);
    }
  }, { answer: () => answer });
}

const ANSWERS: readonly (readonly [string, Answer, string])[] = [
  ["status", { status: 503, body: "later", headers: { "retry-after": "5" } }, "503 with 5 bytes"],
  ["delayMs", { status: 204, delayMs: 20 }, "204 with 0 bytes"],
  ["bodyOfBytes", { bodyOfBytes: 3_000_000 }, "200 with 3000000 bytes"],
  [
    "raw",
    { raw: "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n" },
    "999 with 0 bytes",
  ],
  ["reset", { reset: true }, "ECONNRESET"],
  ["close", { close: true }, "UND_ERR_SOCKET"],
  ["halfAnswer", { halfAnswer: true }, "UND_ERR_SOCKET"],
  ["hang", HANG, "nothing more"],
  ["headersThenSilence", HEADERS_THEN_SILENCE, "nothing more"],
  ["endlessBody", ENDLESS_BODY, "nothing more"],
];

for (const [name, answer, expected] of ANSWERS) {
  Deno.test(`backend: a client sees ${name} as what it is`, async () => {
    assert.equal(await seenByClient(answer), expected);
  });
}

Deno.test("backend: resetNext resets the second request on the same connection, and counts it", async () => {
  await withBackend(async (backend) => {
    backend.answer = () => ({ status: 200, afterwards: "resetNext" });
    const client = new Agent({ connections: 1, headersTimeout: 0, bodyTimeout: 0 });
    const options = { method: "POST", body: "{}", dispatcher: client } as const;
    await (await request(backend.url, options)).body.dump();
    await assert.rejects(request(backend.url, options), { code: "ECONNRESET" });
    await (await request(backend.url, options)).body.dump();
    await client.destroy();
    assert.deepEqual(backend.requests.map(({ connectionId }) => connectionId), [1, 1, 2]);
    await eventually(() => assert.equal(backend.openConnections, 0));
  });
});

Deno.test("backend: down refuses, up takes the same port again", async () => {
  await withBackend(async (backend) => {
    const before = backend.url;
    await backend.down();
    await assert.rejects(Deno.connect({ port: backend.port }), Deno.errors.ConnectionRefused);
    await backend.up();
    assert.equal(backend.url, before);
    assert.equal(await (await fetch(before)).text(), "");
    await backend.waitFor(1);
    await assert.rejects(backend.waitFor(2, { within: 10 }), /1 of 2 requests/);
  });
});

Deno.test("backend: over TLS it is trusted by who knows its certificate, and by nobody else", async () => {
  const tls = await selfSignedCertificate();
  await withBackend(async (backend) => {
    const options = { method: "POST", body: "{}" } as const;
    const timeouts = { headersTimeout: 0, bodyTimeout: 0 };
    const knowing = new Agent({ ...timeouts, connect: { ca: tls.cert } });
    const stranger = new Agent(timeouts);
    const { statusCode, body } = await request(backend.url, { ...options, dispatcher: knowing });
    await body.dump();
    assert.equal(statusCode, 200);
    await assert.rejects(request(backend.url, { ...options, dispatcher: stranger }), /self-signed/);
    await knowing.destroy();
    await stranger.destroy();
    assert.equal(backend.requests.length, 1);
  }, { tls });
});

/** A server that sends back what it gets, behind a relay, and a connected client. */
async function withEcho(
  fn: (relay: TcpRelay, client: Deno.Conn) => Promise<void>,
): Promise<void> {
  const server = net.createServer((socket) => socket.on("error", () => {}).pipe(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address !== "string");
  const target = { targetHost: "127.0.0.1", targetPort: address.port };
  await withTcpRelay(target, async (relay) => {
    const client = await Deno.connect({ port: relay.port });
    try {
      await fn(relay, client);
    } finally {
      client.close();
    }
  });
  await new Promise((resolve) => server.close(resolve));
}

/** The next `length` bytes as text. */
async function read(client: Deno.Conn, length: number): Promise<string> {
  const bytes = new Uint8Array(length);
  for (let got = 0; got < length;) got += await client.read(bytes.subarray(got)) ?? Infinity;
  return new TextDecoder().decode(bytes);
}

Deno.test("tcp relay: cut resets what is open and takes new connections", async () => {
  await withEcho(async (relay, client) => {
    await client.write(ascii.encode("hello"));
    assert.equal(await read(client, 5), "hello");
    relay.cut();
    await assert.rejects(client.read(new Uint8Array(1)), Deno.errors.ConnectionReset);
    const second = await Deno.connect({ port: relay.port });
    await second.write(ascii.encode("again"));
    assert.equal(await read(second, 5), "again");
    second.close();
    assert.equal(relay.accepted, 2);
    await eventually(() => assert.equal(relay.connections, 0));
  });
});

Deno.test("tcp relay: a black hole is silent, and what it held comes out when healed", async () => {
  await withEcho(async (relay, client) => {
    relay.blackhole();
    await client.write(ascii.encode("hello"));
    const late = await Deno.connect({ port: relay.port });
    await late.write(ascii.encode("late"));
    const heard = Promise.all([read(client, 5), read(late, 4)]);
    const silence = new Promise((resolve) => setTimeout(resolve, 50, "silence"));
    assert.equal(await Promise.race([heard, silence]), "silence");
    relay.heal();
    assert.deepEqual(await heard, ["hello", "late"]);
    late.close();
  });
});

Deno.test("tcp relay: closing it ends connections that a black hole holds", async () => {
  await withEcho(async (relay, client) => {
    relay.blackhole();
    await client.write(ascii.encode("hello"));
    await relay.close();
    await assert.rejects(client.read(new Uint8Array(1)), Deno.errors.ConnectionReset);
  });
});

Deno.test("tcp relay: refuse turns new connections away and leaves the open one", async () => {
  await withEcho(async (relay, client) => {
    await client.write(ascii.encode("1"));
    assert.equal(await read(client, 1), "1");
    relay.refuse();
    await assert.rejects(Deno.connect({ port: relay.port }), Deno.errors.ConnectionRefused);
    await client.write(ascii.encode("2"));
    assert.equal(await read(client, 1), "2");
    await relay.accept();
    (await Deno.connect({ port: relay.port })).close();
  });
});

Deno.test("tcp relay: cutAfter lets exactly so many bytes through, once", async () => {
  await withEcho(async (relay, client) => {
    const cut = relay.cutAfter("toClient", 3);
    await client.write(ascii.encode("hello"));
    assert.equal(await read(client, 3), "hel");
    assert.equal(await client.read(new Uint8Array(1)), null);
    await cut;
    const second = await Deno.connect({ port: relay.port });
    await second.write(ascii.encode("hello"));
    assert.equal(await read(second, 5), "hello");
    second.close();
  });
});
