/**
 * Ingest over real sockets: what only shows on the wire, such as half-sent bodies, framing and
 * connections that live on. The publisher is a fake; no broker is needed.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { assertProblem, head, LIMIT, sized, withListener } from "../support/ingest_listener.ts";

/** JSON text of exactly `size` bytes. */
function jsonOf(size: number): string {
  return `"${"x".repeat(size - 2)}"`;
}

Deno.test("big numbers, repeated names, spaces, trailing newline → the same bytes are published", async () => {
  await withListener({}, async ({ published, connect }) => {
    using client = await connect();
    const text = ' {"id":12345678901234567890,"a":1.0,"a":2, "é":"\\ud800"}\n';
    const bytes = Buffer.from(text, "utf8");
    await client.send(...sized(bytes));
    assert.equal((await client.answer()).status, 202);
    await client.send(head("Transfer-Encoding: chunked"));
    for (const byte of bytes) await client.send("1\r\n", Uint8Array.of(byte), "\r\n");
    await client.send("0\r\n\r\n");
    assert.equal((await client.answer()).status, 202);
    for (const task of published) assert.deepEqual(Buffer.from(task.body), bytes);
    assert.equal(published.length, 2);
  });
});

Deno.test("Transfer-Encoding: chunked → accepted, and the connection lives on", async () => {
  await withListener({}, async ({ connect }) => {
    using client = await connect();
    for (let i = 0; i < 3; i++) {
      await client.send(
        head("Transfer-Encoding: chunked"),
        '4\r\n{"a"\r\n3;x=y\r\n:1}\r\n0\r\n\r\n',
      );
      assert.equal((await client.answer()).status, 202);
    }
  });
});

Deno.test("half a body, then nothing → 408 after the limit, and others are not held up", async () => {
  await withListener({ bodyDeadlineMs: 200 }, async ({ published, connect }) => {
    const start = performance.now();
    using known = await connect();
    using chunked = await connect();
    using quick = await connect();
    await known.send(head("Content-Length: 10"), '{"a"');
    await chunked.send(head("Transfer-Encoding: chunked"), '4\r\n{"a"\r\n');
    await quick.send(...sized("1"));
    assert.equal((await quick.answer()).status, 202);
    for (const client of [known, chunked]) {
      const answer = await client.answer();
      assertProblem(answer, 408);
      assert.match(answer.body, /within 0.2 seconds/);
    }
    assert.ok(performance.now() - start >= 200, "not before the limit");
    assert.equal(published.length, 1);
  });
});

Deno.test("body at the limit → 202, one byte over → 413, with and without Content-Length", async () => {
  await withListener({}, async ({ published, connect }) => {
    using client = await connect();
    for (const [size, status] of [[LIMIT, 202], [LIMIT + 1, 413]] as const) {
      await client.send(...sized(jsonOf(size)));
      assert.equal((await client.answer()).status, status);
      const chunk = `${size.toString(16)}\r\n${jsonOf(size)}\r\n0\r\n\r\n`;
      await client.send(head("Transfer-Encoding: chunked"), chunk);
      assert.equal((await client.answer()).status, status);
    }
    assert.deepEqual(published.map(({ body }) => body.length), [LIMIT, LIMIT]);
  });
});

Deno.test("a client that goes on sending after 413 gets the answer, and the connection lives on", async () => {
  await withListener({}, async ({ connect }) => {
    using client = await connect();
    const answer = client.answer();
    await client.send(...sized(new Uint8Array(20_000_000)));
    assertProblem(await answer, 413);
    await client.send(...sized("1"));
    assert.equal((await client.answer()).status, 202);
  });
});

Deno.test("refused before its body is read → the next request on the connection is answered", async () => {
  const token = "secret";
  await withListener({ token }, async ({ published, connect }) => {
    using client = await connect();
    const bearer = `Authorization: Bearer ${token}`;
    await client.send(...sized(jsonOf(100_000)));
    assertProblem(await client.answer(), 401);
    await client.send(...sized(jsonOf(100_000), bearer, "Content-Encoding: gzip"));
    assertProblem(await client.answer(), 415);
    await client.send(
      ...sized(jsonOf(100_000), bearer).map((part) =>
        String(part).replace("/queue/tasks", "/queue/nothing")
      ),
    );
    assertProblem(await client.answer(), 404);
    await client.send(...sized("1", bearer));
    assert.equal((await client.answer()).status, 202);
    assert.equal(published.length, 1);
  });
});

Deno.test("CR, LF or NUL in Idempotency-Key or traceparent → 400 or split off, never carried", async () => {
  await withListener({}, async ({ published, connect }) => {
    for (const field of ["Idempotency-Key", "traceparent"]) {
      for (const char of ["\r", "\0", "\x01", "\x7f"]) {
        using client = await connect();
        await client.send(...sized("1", `${field}: a${char}X-Evil: 1`));
        assert.equal((await client.answer()).status, 400);
      }
    }
    assert.equal(published.length, 0);
    using client = await connect();
    await client.send(...sized("1", "Idempotency-Key: a\nX-Evil: 1"));
    assert.equal((await client.answer()).status, 202);
    assert.equal(published[0]?.idempotencyKey, "a");
  });
});

Deno.test("1,000,000 nested arrays within the size limit → 400 quickly, others are answered", async () => {
  await withListener({ maxTaskBytes: 4_000_000 }, async ({ connect }) => {
    using deep = await connect();
    using other = await connect();
    const body = "[".repeat(1_000_000) + "]".repeat(1_000_000);
    const start = performance.now();
    await deep.send(...sized(body));
    await other.send(...sized("1"));
    assert.equal((await other.answer()).status, 202);
    assertProblem(await deep.answer(), 400);
    assert.ok(performance.now() - start < 2_000);
  });
});

Deno.test("invalid HTTP, huge headers, a client that goes away → the listener lives on", async () => {
  await withListener({}, async ({ connect }) => {
    const nonsense = [
      "\0\x01garbage\r\n\r\n",
      head("Content-Length: 1", "Content-Length: 2"),
      head("Content-Length: 1", "Transfer-Encoding: chunked"),
      head("Content-Length: -1"),
      head(`X: ${"x".repeat(300_000)}`),
      `GET /${"x".repeat(100_000)} HTTP/1.1\r\nHost: relay\r\n\r\n`,
    ];
    for (const text of nonsense) {
      using client = await connect();
      // The server may have answered and closed before it took everything.
      await client.send(text).catch(() => {});
      assert.match(await client.ended(), /^HTTP\/1.1 400 /);
    }
    for (const host of ["[a b", ""]) {
      using client = await connect();
      await client.send(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      assert.equal((await client.answer()).status, 200);
    }
    (await connect())[Symbol.dispose]();
    const gone = await connect();
    await gone.send(head("Content-Length: 10"), "123");
    gone[Symbol.dispose]();
    using broken = await connect();
    await broken.send(head("Transfer-Encoding: chunked"), "zz\r\n");
    assert.doesNotMatch(await broken.ended(), / 202 /);
    using client = await connect();
    await client.send(...sized("1"));
    assert.equal((await client.answer()).status, 202);
  });
});
