/**
 * The backend client against a stub on loopback: what it sends, answers, connections, abortion.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { withBackend } from "../support/backend.ts";
import type { Answer as StubAnswer, Backend as Stub } from "../support/backend.ts";
import { answerTo, attempt, NEVER, ONE, outcomeOf, withClient } from "../support/backend_client.ts";
import { eventually } from "../support/eventually.ts";
import { aTask } from "../support/tasks.ts";

const CAP = 64 * 1024;

Deno.test("the request: POST, the path, exactly the headers of the contract, the body as it is", async () => {
  await withBackend(async (backend) => {
    const url = `${backend.url}/api/v1?x=1&y=%20`;
    const task = aTask({
      attempt: 3,
      contentType: "application/vnd.api+json; charset=utf-8",
      idempotencyKey: "order-1",
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      tracestate: "vendor=1",
    });
    await withClient(url, (client) => attempt(client, task), { authorization: "Bearer secret" });
    const { method, url: target, headers = {}, body } = backend.requests[0] ?? {};
    const { traceparent, ...others } = headers;
    assert.match(String(traceparent), /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/);
    assert.notEqual(traceparent, task.traceparent);
    assert.deepEqual([method, target], ["POST", "/api/v1?x=1&y=%20"]);
    assert.deepEqual(others, {
      host: `127.0.0.1:${backend.port}`,
      connection: "keep-alive",
      "content-length": "7",
      "content-type": "application/vnd.api+json; charset=utf-8",
      "task-id": task.id,
      "task-attempt": "3",
      "task-max-attempts": "27",
      "task-enqueued-at": "2026-11-30T12:00:00.000Z",
      "idempotency-key": "order-1",
      tracestate: "vendor=1",
      authorization: "Bearer secret",
    });
    assert.deepEqual(body && new Uint8Array(body), task.body);
  });
});

Deno.test("a task without a key of the client's → its id is the Idempotency-Key, nothing else is made up", async () => {
  await withBackend(async (backend) => {
    await withClient(backend.url, (client) => attempt(client));
    const { headers = {} } = backend.requests[0] ?? {};
    assert.equal(headers["idempotency-key"], aTask().id);
    const made = Object.keys(headers).filter((name) => /^(trace|webhook|authorization)/.test(name));
    assert.deepEqual(made, []);
  });
});

Deno.test("case 17: any bytes → the same bytes at the backend, on one connection", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 5_000 }), async (bytes) => {
          // A view into something larger, as a delivery's body is.
          const body = new Uint8Array([1, ...bytes, 2]).subarray(1, bytes.length + 1);
          await attempt(client, aTask({ body }));
          const received = backend.requests.at(-1);
          assert.deepEqual(received && new Uint8Array(received.body), bytes);
          assert.equal(received?.headers["content-length"], String(bytes.length));
        }),
        { numRuns: 50 },
      );
      assert.equal(backend.requests.at(-1)?.connectionId, 1);
    }, ONE)
  );
});

for (const status of [200, 201, 204, 205, 299, 300, 304, 400, 429, 500, 503, 599, 600, 999]) {
  Deno.test(`case 31: the backend answers ${status} → that status`, async () => {
    const body = status === 204 || status === 304 ? "" : "words";
    assert.deepEqual(await answerTo({ status, body }), { kind: "status", status, text: body });
  });
}

for (const status of [301, 302, 303, 307, 308]) {
  Deno.test(`case 30: ${status} → not followed, that status`, async () => {
    const answer = await answerTo({ status, headers: { location: "/elsewhere" } });
    assert.equal(outcomeOf(answer), String(status));
  });
}

const LAST = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

Deno.test("case 31: 103 before the answer → the answer counts", async () => {
  const hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
  assert.deepEqual(await answerTo({ raw: hints + hints + LAST }), {
    kind: "status",
    status: 200,
    text: "ok",
  });
});

Deno.test("case 31: 100 or 101 that nobody asked for → an unreadable answer, no crash", async () => {
  for (
    const status of ["100 Continue", "101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade"]
  ) {
    const answer = await answerTo({ raw: `HTTP/1.1 ${status}\r\n\r\n${LAST}` });
    assert.equal(outcomeOf(answer), "protocol");
  }
});

Deno.test("case 29: a body of exactly 64 KiB → all of it, and the connection is used again", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      for (let n = 0; n < 2; n++) {
        const { answer } = await attempt(client);
        assert.ok(answer.kind === "status" && answer.text.length === CAP);
      }
      assert.deepEqual(backend.requests.map(({ connectionId }) => connectionId), [1, 1]);
    }, ONE), { answer: () => ({ bodyOfBytes: CAP }) });
});

Deno.test("answers in good order → one connection for all of them", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      for (const status of [200, 500, 204, 304, 422, 200]) {
        backend.answer = (): StubAnswer => ({ status });
        await attempt(client);
      }
      assert.deepEqual(
        new Set(backend.requests.map(({ connectionId }) => connectionId)),
        new Set([1]),
      );
    }, ONE)
  );
});

Deno.test("case 28: reset on a reused connection → the backend sees one request, one failed attempt", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      await attempt(client, aTask({ id: "t1" }));
      const { answer, begun } = await attempt(client, aTask({ id: "t2" }));
      assert.deepEqual([outcomeOf(answer), begun], ["reset", 1]);
      backend.answer = (): StubAnswer => ({ status: 200 });
      await attempt(client, aTask({ id: "t3" }));
      const seen = backend.requests.map(({ headers }) => headers["task-id"]);
      assert.deepEqual(seen, ["t1", "t2", "t3"]);
    }, ONE), { answer: () => ({ status: 200, afterwards: "resetNext" }) });
});

Deno.test("case 28: the backend closes an idle connection → the next attempt gets a new one, once", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      await attempt(client);
      await eventually(() => assert.equal(backend.openConnections, 0));
      const { answer, begun } = await attempt(client);
      assert.deepEqual([outcomeOf(answer), begun], ["200", 1]);
      assert.equal(backend.requests.length, 2);
    }), { answer: () => ({ status: 200, afterwards: "close" }) });
});

Deno.test("begin comes right before the request is on the wire, not when it is asked for", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      const seen: number[] = [];
      const note = (): boolean => seen.push(backend.requests.length) > 0;
      const { promise: release, resolve } = Promise.withResolvers<StubAnswer>();
      backend.answer = (_request, n): StubAnswer | Promise<StubAnswer> =>
        n > 1 ? { status: 200 } : release;
      const first = client.send(aTask(), note, NEVER);
      await backend.waitFor(1);
      // The one connection is busy, so this one waits without having begun.
      const second = client.send(aTask(), note, NEVER);
      await Promise.resolve();
      assert.deepEqual(seen, [0]);
      resolve({ status: 200 });
      await Promise.all([first, second]);
      assert.deepEqual(seen, [0, 1]);
    }, ONE)
  );
});

Deno.test("begin throws, as when the send log can't be written → nothing is sent, a failed attempt", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      const fail = (): never => {
        throw new Error("disk on fire");
      };
      const answer = await client.send(aTask(), fail, NEVER);
      assert.ok(answer?.kind === "failure" && answer.error === "disk on fire");
      assert.equal(outcomeOf((await attempt(client)).answer), "200");
      assert.equal(backend.requests.length, 1);
    })
  );
});

Deno.test("aborted in flight → reset at once, the connection is dropped", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      const cut = new AbortController();
      const sent = attempt(client, aTask(), cut.signal);
      await backend.waitFor(1);
      cut.abort();
      assert.equal(outcomeOf((await sent).answer), "reset");
      await eventually(() => assert.equal(backend.openConnections, 0));
    }), { answer: () => ({ hang: true }) });
});

Deno.test("aborted before it began → reset, nothing is sent, not even later", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      const cut = new AbortController();
      const sent = attempt(client, aTask({ id: "t1" }), cut.signal);
      cut.abort();
      const { answer, begun } = await sent;
      assert.deepEqual([outcomeOf(answer), begun], ["reset", 0]);
      await attempt(client, aTask({ id: "t2" }));
      assert.deepEqual(backend.requests.map(({ headers }) => headers["task-id"]), ["t2"]);
    })
  );
});

Deno.test("a signal that was aborted before → reset, nothing is sent", async () => {
  await withBackend((backend) =>
    withClient(backend.url, async (client) => {
      const { answer, begun } = await attempt(client, aTask(), AbortSignal.abort());
      assert.deepEqual([outcomeOf(answer), begun, backend.requests.length], ["reset", 0, 0]);
    })
  );
});

Deno.test("closed with a request in flight → the attempt ends", async () => {
  const settled = await withBackend(async (backend: Stub) => {
    const sent = await withClient(backend.url, async (client) => {
      const pending = attempt(client);
      await backend.waitFor(1);
      return { pending };
    });
    return await sent.pending;
  }, { answer: () => ({ hang: true }) });
  assert.equal(settled.answer.kind, "failure");
});
