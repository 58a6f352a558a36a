/**
 * TLS to the broker and to the backend, with certificates made for these tests. The broker's TLS is
 * that of a TCP relay in front of it, so that RabbitMQ needs no configuration.
 *
 * @module
 */
import assert from "node:assert/strict";
import { runCheck } from "../../src/check.ts";
import { loadConfig } from "../../src/config.ts";
import { type Certificate, createAuthority } from "../support/certificate.ts";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { withRelay } from "../support/relay.ts";
import { withTcpRelay } from "../support/tcp_relay.ts";
import { attemptLines, runToEnd, withPrefix, withStage } from "./stage.ts";

const DAY_MS = 86_400_000;
const authority = await createAuthority();
const stranger = await createAuthority();

/** Makes node:tls trust everybody, unless it is told not to. */
const UNCHECKED = { NODE_TLS_REJECT_UNAUTHORIZED: "0" } as const;

/** Runs `fn` with the paths of two files: the authority's certificate and the stranger's. */
async function withCaFiles(fn: (own: string, wrong: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  const [own, wrong] = [`${folder}/own.pem`, `${folder}/wrong.pem`];
  try {
    await Deno.writeTextFile(own, authority.cert);
    await Deno.writeTextFile(wrong, stranger.cert);
    await fn(own, wrong);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs `fn` with the port of a broker that speaks TLS with this certificate. */
async function withTlsBroker(
  certificate: Certificate,
  fn: (port: number) => Promise<void>,
): Promise<void> {
  const { host: targetHost, port: targetPort } = rabbitAddress();
  const options = { targetHost, targetPort, tls: certificate };
  await withTcpRelay(options, ({ port }) => fn(port));
}

function brokerEnv(port: number, caFile?: string): Record<string, string> {
  const env = { RABBIT_HOST: "127.0.0.1", RABBIT_PORT: String(port), RABBIT_TLS: "true" };
  return caFile === undefined ? env : { ...env, RABBIT_CA_FILE: caFile };
}

Deno.test("broker and backend by TLS, each with its authority: a task is accepted, retried and delivered; --check connects", async () => {
  const certificate = await authority.issue();
  await withCaFiles((own) =>
    withTlsBroker(certificate, async (port) => {
      const env = { ...brokerEnv(port, own), BACKEND_CA_FILE: own };
      const answer = (_: unknown, n: number): { status: number } => ({ status: n > 1 ? 200 : 500 });
      await withStage({ env, tls: certificate, answer }, async ({ relay, backend }) => {
        assert.match(backend.url, /^https:/);
        const id = await relay.accept('{"a":1}');
        await relay.waitForLog(({ task_id, outcome }) => task_id === id && outcome === "ok");
        assert.deepEqual(attemptLines(relay, id).map(({ status }) => status), [500, 200]);
        assert.equal(await relay.stop(), 0);
      });
      await withPrefix("1x0s", async (prefix) => {
        const checked = { ...brokerEnv(port, own), QUEUE_PREFIX: prefix };
        const { status, output } = await runToEnd({ args: ["--check"], env: checked });
        assert.match(output, /^RabbitMQ .*: connected$/m);
        assert.equal(status, 0);
      });
    })
  );
});

Deno.test("case 32: the backend's certificate is of another authority: each attempt fails as tls, and log, status and failed task say what to set", async () => {
  const certificate = await authority.issue();
  const advice = /^the backend's certificate is not signed by an authority in BACKEND_CA_FILE/;
  await withCaFiles(async (_, wrong) => {
    const env = { BACKEND_CA_FILE: wrong, ...UNCHECKED };
    await withStage({ env, tls: certificate }, async ({ relay, backend, amqp, queues }) => {
      const id = await relay.accept("1");
      await eventually(async () => assert.equal(await amqp.depth(queues.failed), 1));
      const { json } = await relay.get(`/queue/tasks/${id}`);
      assert.match(String(json["lastError"]), advice);
      assert.equal(await relay.stop(), 0);
      const lines = attemptLines(relay, id);
      assert.deepEqual(lines.map(({ outcome }) => outcome), ["tls", "tls"]);
      for (const { error } of lines) assert.match(String(error), advice);
      const [task] = await amqp.peekAll(queues.failed);
      assert.match(String(task?.headers["relay-last-error"]), advice);
      assert.deepEqual(backend.requests, []);
    });
  });
});

Deno.test("no BACKEND_CA_FILE, but DENO_TLS_CA_STORE=system: the authorities of the machine are trusted", async () => {
  await withCaFiles(async (own) => {
    // What OpenSSL and Deno take for the machine's own when it is set.
    const env = { DENO_TLS_CA_STORE: "system", SSL_CERT_FILE: own };
    await withStage({ env, tls: await authority.issue() }, async ({ relay, backend }) => {
      await relay.accept("1");
      await backend.waitFor(1);
    });
  });
});

Deno.test("the broker's certificate is of an authority that nobody knows: not ready, and the log says what to set; once trusted, ready", async () => {
  const certificate = await authority.issue();
  await withCaFiles((own) =>
    withTlsBroker(certificate, async (port) => {
      const env = { ...brokerEnv(port), ...UNCHECKED };
      await withRelay({ env, ready: false }, async (relay) => {
        const { error } = await relay.waitForLog(({ message }) =>
          message === "broker connection failed"
        );
        assert.match(
          String(error),
          /^RabbitMQ's certificate is not signed by .*set RABBIT_CA_FILE/,
        );
        assert.equal((await relay.get("/readyz")).status, 503);
        assert.equal((await relay.post("1")).status, 503);
        assert.equal(await relay.stop(), 0);
      });
      const { status, output } = await runToEnd({ args: ["--check"], env });
      assert.match(output, /: RabbitMQ's certificate is not signed by .*set RABBIT_CA_FILE/);
      assert.equal(status, 1);
      await withRelay({ env: brokerEnv(port, own) }, (relay) => relay.stop());
    })
  );
});

/** What `--check` says of the broker at this port. */
async function checked(
  port: number,
  { host = "127.0.0.1", tls = true, ca = authority.cert } = {},
): Promise<string> {
  const byTls = { RABBIT_TLS: "true", RABBIT_CA_FILE: "ca.pem" };
  const env = { RABBIT_HOST: host, RABBIT_PORT: String(port), ...(tls ? byTls : {}) };
  const { ok, lines } = await runCheck(loadConfig(env, () => ca));
  assert.equal(ok, false, lines.join("\n"));
  return lines[0] ?? "";
}

const yesterday = Date.now() - DAY_MS;
const tomorrow = Date.now() + DAY_MS;

Deno.test("--check with a certificate that can't be trusted says why, and what to do", async () => {
  await withTlsBroker(await authority.issue(), async (port) => {
    const wrong = await checked(port, { ca: stranger.cert });
    assert.match(wrong, /not signed by an authority in RABBIT_CA_FILE: put the right one there/);
  });
  const expired = { validFrom: yesterday - DAY_MS, validUntil: yesterday };
  await withTlsBroker(await authority.issue(expired), async (port) => {
    assert.match(await checked(port), /certificate expired on \d{4}-.* UTC: it must be renewed/);
  });
  await withTlsBroker(await authority.issue({ validFrom: tomorrow }), async (port) => {
    assert.match(await checked(port), /not valid before \d{4}-.* UTC: compare the clocks/);
  });
  await withTlsBroker(await authority.issue({ names: ["elsewhere.test"] }), async (port) => {
    const other = await checked(port, { host: "localhost" });
    assert.match(other, /not for localhost: set RABBIT_HOST .*elsewhere\.test/);
  });
});

Deno.test("--check by TLS at RabbitMQ's plain port, and plain at a port that expects TLS: what to set", async () => {
  const plain = await checked(rabbitAddress().port, { host: rabbitAddress().host });
  assert.match(plain, /RabbitMQ does not speak TLS at port \d+: set RABBIT_PORT .*5671/);
  await withTlsBroker(await authority.issue(), async (port) => {
    const expectsTls = await checked(port, { tls: false });
    assert.match(expectsTls, /if it expects TLS at port \d+, set RABBIT_TLS=true/);
  });
});
