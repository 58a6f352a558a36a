/** Ingest's listener: where it listens, and a close that answers, is bounded and leaves nothing. */
import assert from "node:assert/strict";
import type { PublishResult } from "../../src/ingest/ports.ts";
import { startIngest } from "../../src/ingest/server.ts";
import { eventually } from "../support/eventually.ts";
import { assertProblem, head, RawClient, sized, withListener } from "../support/ingest_listener.ts";

Deno.test("half a body, then nothing → close() is not held up, and the client is told 503", async () => {
  await withListener({}, async ({ server, connect }) => {
    using half = await connect();
    using silent = await connect();
    using halfHead = await connect();
    await half.send(head("Content-Length: 10"), '{"a"');
    await silent.send(...sized("1"));
    assert.equal((await silent.answer()).status, 202);
    await halfHead.send("POST /queue/ta");
    const start = performance.now();
    await server.close(20_000);
    assert.ok(performance.now() - start < 5_000, "not until the grace is over");
    assertProblem(await half.answer(), 503);
    for (const client of [half, silent, halfHead]) assert.equal(await client.ended(), "");
  });
});

Deno.test("close() while 200 tasks await their confirm → each is answered 202, a new post 503", async () => {
  const confirm = Promise.withResolvers<PublishResult>();
  let waiting = 0;
  const publish = (): Promise<PublishResult> => {
    waiting++;
    return confirm.promise;
  };
  await withListener({ publisher: { publish } }, async ({ server, connect }) => {
    const clients = await Promise.all(Array.from({ length: 200 }, () => connect()));
    using late = await connect();
    await Promise.all(clients.map((client) => client.send(...sized("1"))));
    await eventually(() => assert.equal(waiting, 200));
    const closed = server.close(20_000);
    await late.send(...sized("1"));
    const refused = await late.answer();
    assertProblem(refused, 503);
    assert.match(refused.head, /^connection: close$/im);
    confirm.resolve({ kind: "confirmed" });
    for (const client of clients) {
      assert.equal((await client.answer()).status, 202);
      assert.equal(await client.ended(), "");
      client[Symbol.dispose]();
    }
    await closed;
    await assert.rejects(connect(), Deno.errors.ConnectionRefused);
  });
});

Deno.test("close() while a confirm never comes → the grace bounds it; closing again is harmless", async () => {
  const publishing = Promise.withResolvers<void>();
  const publish = (): Promise<PublishResult> => {
    publishing.resolve();
    return new Promise(() => {});
  };
  await withListener({ publisher: { publish } }, async ({ server, connect }) => {
    using client = await connect();
    await client.send(...sized("1"));
    await publishing.promise;
    const start = performance.now();
    await Promise.all([server.close(100), server.close(60_000)]);
    const took = performance.now() - start;
    assert.ok(took >= 99 && took < 5_000, `took ${took} ms`);
    assert.equal(await client.ended(), "");
    await server.close(0);
  });
});

Deno.test("the port is in use → an error that names it and INBOUND_PORT", async () => {
  await withListener({}, ({ server }) => {
    const ingest = { fetch: () => new Response(), drain: () => {} };
    assert.throws(() => startIngest({ host: "127.0.0.1", port: server.port, ingest }), {
      message: new RegExp(`127\\.0\\.0\\.1 port ${server.port}.*in use.*INBOUND_PORT`),
    });
    assert.throws(() => startIngest({ host: "192.0.2.1", port: 0, ingest }), {
      message: /192\.0\.2\.1.*INBOUND_HOST/,
    });
    return Promise.resolve();
  });
});

Deno.test("an IPv6 host, with and without brackets → is listened on", async () => {
  for (const host of ["::1", "[::1]"]) {
    const ingest = { fetch: () => new Response("here"), drain: () => {} };
    const server = startIngest({ host, port: 0, ingest });
    try {
      assert.equal(server.host, "::1");
      using client = new RawClient(await Deno.connect({ hostname: "::1", port: server.port }));
      await client.send("GET / HTTP/1.1\r\nHost: relay\r\n\r\n");
      assert.equal((await client.answer()).body, "here");
    } finally {
      await server.close(0);
    }
  }
});

/** A listener in a process that may open 64 files only; prints its port, ends with its stdin. */
const SMALL_PROCESS = `
  import { startIngest } from "${import.meta.resolve("../../src/ingest/server.ts")}";
  const ingest = { fetch: () => new Response("here"), drain: () => {} };
  const server = startIngest({ host: "127.0.0.1", port: 0, ingest });
  console.log(server.port);
  await Deno.stdin.read(new Uint8Array(1));
  await server.close(0);
  console.log("closed");
`;

Deno.test("more connections than file descriptors → clients are answered again after it", async () => {
  const command = new Deno.Command("sh", {
    args: ["-c", 'ulimit -n 64; exec "$0" eval "$1"', Deno.execPath(), SMALL_PROCESS],
    stdin: "piped",
    stdout: "piped",
  });
  await using child = command.spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const port = Number((await output.read()).value);
  const ask = async (): Promise<string> => {
    using client = new RawClient(await Deno.connect({ hostname: "127.0.0.1", port }));
    await client.send("GET / HTTP/1.1\r\nHost: relay\r\n\r\n");
    return (await client.answer()).body;
  };
  const connections: Deno.Conn[] = [];
  try {
    // Until the listener is lost, which refuses the next connection.
    const another = async (): Promise<void> => {
      connections.push(await Deno.connect({ hostname: "127.0.0.1", port }));
    };
    const refused = (): Promise<void> => assert.rejects(another, Deno.errors.ConnectionRefused);
    await eventually(refused, { every: 1 });
  } finally {
    for (const connection of connections) connection.close();
  }
  assert.equal(await eventually(ask), "here");
  await child.stdin.close();
  assert.equal((await output.read()).value, "closed\n");
  await output.cancel();
  assert.equal((await child.status).success, true);
});
