/**
 * The backend's answers, good and bad, end to end: each is decided by the contract's table, each
 * failure has a name of its own in the log and in the history, and none costs more than an attempt.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { QueuedMessage } from "../support/amqp.ts";
import { type Answer, type Answering, withBackend } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/ports.ts";
import { attemptLines, requestsOf, withStage } from "./stage.ts";

/** Two attempts, both at once. */
const TWO_AT_ONCE = "2x0s";

/** What is known of an attempt when it is over. */
interface Expected {
  readonly outcome: string;
  readonly status?: number;
}

const status = (code: number): Expected => ({ outcome: "status", status: code });
const OK: Expected = { outcome: "ok", status: 200 };

const REDIRECTS = [301, 302, 303, 307, 308];

/** By the payload: what the backend does, and what the relay must make of it. */
const ANSWERS: Readonly<Record<string, readonly [Answer, Expected]>> = {
  ...Object.fromEntries(REDIRECTS.map((code) => [
    `redirect ${code}`,
    [{ status: code, headers: { location: "/elsewhere" } }, status(code)],
  ])),
  "200": [{ status: 200, body: "fine" }, OK],
  "204": [{ status: 204 }, { outcome: "ok", status: 204 }],
  "205": [{ status: 205 }, { outcome: "ok", status: 205 }],
  "299": [{ status: 299 }, { outcome: "ok", status: 299 }],
  "300": [{ status: 300 }, status(300)],
  "304": [{ status: 304 }, status(304)],
  "400": [{ status: 400, body: '{"error":"no"}' }, status(400)],
  "429": [{ status: 429 }, status(429)],
  "503": [{ status: 503 }, status(503)],
  "600": [{ status: 600 }, status(600)],
  "999": [{ status: 999 }, status(999)],
  "103 early hints": [{ raw: hinted(103) }, OK],
  "102 processing": [{ raw: hinted(102) }, OK],
  "HTTP/1.0": [{ raw: "HTTP/1.0 200 OK\r\n\r\nuntil the end", thenClose: true }, OK],
  "no reason phrase": [{ raw: "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n" }, OK],
  "an endless body": [{ endlessBody: true }, OK],
  "100 continue, unasked for": [{ raw: hinted(100) }, { outcome: "protocol" }],
  "101 switching protocols": [
    { raw: "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n" },
    { outcome: "protocol" },
  ],
  "another protocol": [{ raw: "SSH-2.0-OpenSSH_9.6\r\n", thenClose: true }, {
    outcome: "protocol",
  }],
  // No status was read, so this can't be told from a connection that was closed before an answer.
  "half a head": [{ halfAnswer: true }, { outcome: "reset" }],
  "half a body": [
    { raw: "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", thenClose: true },
    { outcome: "protocol" },
  ],
  "reset": [{ reset: true }, { outcome: "reset" }],
  "closed without an answer": [{ close: true }, { outcome: "reset" }],
  "silence": [{ hang: true }, { outcome: "timeout" }],
  "headers, then silence": [{ headersThenSilence: true }, { outcome: "timeout" }],
};

function hinted(code: number): string {
  return `HTTP/1.1 ${code} Interim\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n`;
}

function payloadOf(body: Uint8Array): string {
  return String(JSON.parse(new TextDecoder().decode(body)));
}

const answerByPayload: Answering = ({ body }) => ANSWERS[payloadOf(body)]?.[0] ?? { status: 500 };

function historyOf(task: QueuedMessage | undefined): Expected[] {
  const history: unknown = JSON.parse(String(task?.headers["relay-attempts"]));
  return (history as Record<string, unknown>[]).map(expectedFields);
}

function expectedFields({ outcome, status }: Readonly<Record<string, unknown>>): Expected {
  const name = String(outcome);
  return typeof status === "number" ? { outcome: name, status } : { outcome: name };
}

Deno.test("cases 28 to 32: whatever the backend answers, the table decides, and the log and relay-attempts tell one kind from the other", async () => {
  const env = { RETRY_LADDER: TWO_AT_ONCE, BACKEND_TIMEOUT: "1", PREFETCH_COUNT: "40" };
  await withStage({ env, answer: answerByPayload }, async (stage) => {
    const { relay, backend, amqp, queues } = stage;
    const ids = new Map<string, string>();
    for (const title of Object.keys(ANSWERS)) {
      ids.set(title, await relay.accept(JSON.stringify(title)));
    }
    const failing = Object.keys(ANSWERS).filter((title) => ANSWERS[title]?.[1].outcome !== "ok");
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), failing.length));
    await eventually(async () => assert.equal(await amqp.depth(queues.main), 0));
    assert.equal(await relay.stop(), 0);
    const failed = await amqp.peekAll(queues.failed);
    assert.deepEqual(failed.map(({ body }) => payloadOf(body)).sort(), failing.toSorted());

    for (const [title, [, expected]] of Object.entries(ANSWERS)) {
      const id = ids.get(title) ?? "";
      const attempts = expected.outcome === "ok" ? [expected] : [expected, expected];
      const lines = attemptLines(relay, id).map(expectedFields);
      assert.deepEqual(lines, attempts, title);
      assert.equal(requestsOf(backend, id).length, attempts.length, title);
      if (expected.outcome === "ok") continue;
      const task = failed.find((message) => message.id === id);
      assert.deepEqual(historyOf(task), attempts, title);
      assert.equal(task?.headers["relay-last-status"], expected.status, title);
      assert.notEqual(String(task?.headers["relay-last-error"] ?? ""), "", title);
    }
    assert.deepEqual(backend.requests.filter(({ url }) => url !== "/process"), []);
    assert.ok(backend.requests.every(({ method }) => method === "POST"));
  });
});

Deno.test("case 28: a reset on a reused connection: one request, and one failed attempt", async () => {
  const env = { CONCURRENCY: "1" };
  await withStage({ env }, async ({ relay, backend }) => {
    backend.answer = (_request, n) => ({ status: 200, afterwards: n === 1 ? "resetNext" : "keep" });
    await relay.accept('"opens the connection"');
    await relay.waitForLog(({ message }) => message === "attempt");
    const id = await relay.accept('"is reset on it"');
    await relay.waitForLog(({ task_id, outcome }) => task_id === id && outcome === "ok");
    const [opening, ...requests] = backend.requests;
    assert.deepEqual(requests.map(({ headers }) => headers["task-attempt"]), ["1", "2"]);
    assert.equal(requests[0]?.connectionId, opening?.connectionId);
    assert.deepEqual(attemptLines(relay, id).map(({ outcome }) => outcome), ["reset", "ok"]);
  });
});

/** Resident memory of a process in bytes. By way of `cat`, since Deno lets no program read /proc. */
async function residentBytes(pid: number): Promise<number> {
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/statm`] }).output();
  return Number(new TextDecoder().decode(stdout).split(" ")[1]) * 4096;
}

Deno.test("case 29: bodies of 1 GB and without an end: the cap holds, the tasks are done, memory stays flat", async () => {
  await withStage({}, async ({ relay, backend }) => {
    await relay.accept('"warms up"');
    await relay.waitForLog(({ message }) => message === "attempt");
    const before = await residentBytes(relay.pid);
    backend.answer = (_request, n) => n % 2 ? { bodyOfBytes: 2 ** 30 } : { endlessBody: true };
    const ids = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((n) => relay.accept(String(n))));
    let most = before;
    await eventually(async () => {
      most = Math.max(most, await residentBytes(relay.pid));
      const done = attemptLines(relay).filter(({ outcome }) => outcome === "ok");
      assert.equal(done.length, 1 + ids.length);
    });
    most = Math.max(most, await residentBytes(relay.pid));
    const grownMiB = (most - before) / 2 ** 20;
    assert.ok(grownMiB < 64, `resident memory grew by ${Math.round(grownMiB)} MiB`);
    await eventually(() => assert.ok(backend.openConnections <= 8));
  });
});

Deno.test("case 29: a body that trickles for ever: ended by the one deadline, as a timeout", async () => {
  const env = { BACKEND_TIMEOUT: "0.4", RETRY_LADDER: "1x0s" };
  const head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
  await withStage({ env, answer: () => ({ raw: head }) }, async ({ relay, amqp, queues }) => {
    const id = await relay.accept("1");
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), 1));
    assert.equal(await relay.stop(), 0);
    const [line] = attemptLines(relay, id);
    assert.equal(line?.["outcome"], "timeout");
    assert.ok(Number(line?.["duration_ms"]) >= 400);
  });
});

/** What a task fails with at a backend that can't even be asked. */
async function failureAt(url: string): Promise<string> {
  const env = { BACKEND_BASE_URL: url, RETRY_LADDER: TWO_AT_ONCE };
  const outcomes: string[] = [];
  await withStage({ env }, async ({ relay, amqp, queues }) => {
    const id = await relay.accept("1");
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), 1));
    assert.equal(await relay.stop(), 0);
    const [task] = await amqp.peekAll(queues.failed);
    assert.equal(task?.id, id);
    outcomes.push(...historyOf(task).map(({ outcome }) => outcome));
    const lines = attemptLines(relay, id);
    assert.deepEqual(lines.map(({ outcome }) => outcome), outcomes);
    for (const line of lines) {
      assert.equal(line["error"], task?.headers["relay-last-error"]);
      assert.ok(!("status" in line) && line["error"] !== "", JSON.stringify(line));
    }
  });
  const [outcome = "none", ...others] = new Set(outcomes);
  assert.equal(outcomes.length, 2, "an attempt is missing, or one too many");
  assert.deepEqual(others, []);
  return outcome;
}

/** Longer than DNS allows a label to be, so that nobody is asked for it. */
const NO_SUCH_HOST = `${"a".repeat(64)}.test`;

Deno.test("case 32: refused, no such host, no TLS there, a certificate of nobody's: the next rung, each under its own name", async () => {
  await withBackend(async (plain) => {
    await withBackend(async (selfSigned) => {
      const outcomes = await Promise.all([
        failureAt(`http://127.0.0.1:${freePort()}`),
        failureAt(`http://${NO_SUCH_HOST}`),
        failureAt(plain.url.replace("http:", "https:")),
        failureAt(selfSigned.url),
      ]);
      assert.deepEqual(outcomes, ["refused", "dns", "tls", "tls"]);
      assert.deepEqual([plain.requests, selfSigned.requests], [[], []]);
    }, { tls: SELF_SIGNED });
  });
});

Deno.test("case 33: a base URL with a path and a slash, a path without one and with a query: joined as a person means it", async () => {
  await withBackend(async (backend) => {
    const env = { BACKEND_BASE_URL: `${backend.url}/api/`, BACKEND_PATH: "tasks?source=relay" };
    await withStage({ env }, async ({ relay }) => {
      await relay.accept("1");
      await backend.waitFor(1);
      assert.equal(backend.requests[0]?.url, "/api/tasks?source=relay");
    });
  });
});

/** For localhost, made for these tests, known to nobody and valid until 2126. */
const SELF_SIGNED = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUL4+AsYlVbYeeuK38qPoJLIjk/zgwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDIxNTMxMVoYDzIxMjYxMTA2
MjE1MzExWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATuFXMuSVY/44t7RT/uxvzPpO+OTWDmAUxn63VFb3r68X3Me6eCcoh6
opuIeN4UharUrSh8B0HHelLwpbnF6q2fo28wbTAdBgNVHQ4EFgQU0+z7SGmiepRQ
Xb/pJlhnRFvEWbgwHwYDVR0jBBgwFoAU0+z7SGmiepRQXb/pJlhnRFvEWbgwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgZJxlEHIL3BGafyCgKuWocu4omMhxlliUFUnccYdctZACIHgT
Oabx6RGeQbiWU+TvDVLVqIZsCsDQ5wHRDqEkgbZy
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgvH6RiU1V2KE5rA1E
S7VV0kdudT2k1XhJs+BeFaTnLoWhRANCAATuFXMuSVY/44t7RT/uxvzPpO+OTWDm
AUxn63VFb3r68X3Me6eCcoh6opuIeN4UharUrSh8B0HHelLwpbnF6q2f
-----END PRIVATE KEY-----
`,
};
