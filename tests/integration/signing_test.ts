/**
 * Signed requests over a real relay, verified as a receiver does it: with the public package of
 * Standard Webhooks.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { Webhook } from "standardwebhooks";
import type { BackendRequest } from "../support/backend.ts";
import { requestsOf, runToEnd, withStage } from "./stage.ts";

function newSecret(bytes = 32): string {
  return `whsec_${crypto.getRandomValues(new Uint8Array(bytes)).toBase64()}`;
}

/** What the receiver makes of the request. @throws when it does not trust it */
function verified({ body, headers }: BackendRequest, secret: string): unknown {
  return new Webhook(secret).verify(Buffer.from(body), headers as Record<string, string>);
}

const PAYLOADS = [
  ' {"id":12345678901234567890, "a":1.0, "a":2} \r\n',
  '{"name":"Grüße, 𝒳","lone":"\\ud800"}',
  "null",
];

Deno.test("signed with two secrets, the new one and the old: who knows either trusts every request, who knows neither trusts none", async () => {
  const [fresh, old, other] = [newSecret(), newSecret(24), newSecret(64)];
  await withStage({ env: { SIGNING_SECRET: `${fresh} ${old}` } }, async ({ relay, backend }) => {
    const ids = await Promise.all(PAYLOADS.map((payload) => relay.accept(payload)));
    await backend.waitFor(PAYLOADS.length);
    for (const [n, payload] of PAYLOADS.entries()) {
      const id = ids[n] ?? "";
      const [request] = requestsOf(backend, id);
      assert.ok(request);
      assert.equal(request.headers["webhook-id"], id);
      for (const secret of [fresh, old]) {
        assert.deepEqual(verified(request, secret), JSON.parse(payload));
      }
      assert.throws(() => verified(request, other), /No matching signature/);
      const changed = { ...request, body: Buffer.concat([request.body, Buffer.from(" ")]) };
      assert.throws(() => verified(changed, fresh), /No matching signature/);
    }
  });
});

Deno.test("a retried task: the same id, and each attempt signed with a time of its own", async () => {
  const secret = newSecret();
  // More than a second apart, so that the times differ in whole seconds.
  const env = { SIGNING_SECRET: secret, RETRY_LADDER: "1x0s,1x1.1s" };
  const answer = (_: BackendRequest, n: number): { status: number } => ({
    status: n === 1 ? 500 : 200,
  });
  await withStage({ env, answer }, async ({ relay, backend }) => {
    const id = await relay.accept('{"a":1}');
    await backend.waitFor(2);
    const times = backend.requests.map((request) => {
      assert.deepEqual(verified(request, secret), { a: 1 });
      assert.equal(request.headers["webhook-id"], id);
      return Number(request.headers["webhook-timestamp"]);
    });
    const arrivals = backend.requests.map(({ wallAt }) => Math.floor(wallAt / 1000));
    const lags = arrivals.map((at, n) => at - (times[n] ?? 0));
    assert.ok(lags.every((lag) => lag === 0 || lag === 1), `seconds late: ${lags.join()}`);
    assert.ok((times[0] ?? 0) < (times[1] ?? 0), times.join());
  });
});

Deno.test("the secret comes from a file", async () => {
  const secret = newSecret();
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, `${secret}\n`);
  await withStage({ env: { SIGNING_SECRET_FILE: file } }, async ({ relay, backend }) => {
    await relay.accept('{"a":1}');
    await backend.waitFor(1);
    const [request] = backend.requests;
    assert.ok(request);
    assert.deepEqual(verified(request, secret), { a: 1 });
  }).finally(() => Deno.remove(file));
});

Deno.test("a malformed secret: told without being shown, exit 2", async () => {
  // Given, so that nobody looks for queues to be deleted.
  const env = { SIGNING_SECRET: "whsec_HUSHHUSH", QUEUE_PREFIX: "tasks" };
  const { status, output } = await runToEnd({ env });
  assert.equal(status, 2);
  assert.match(output, /SIGNING_SECRET \(a secret, not shown\): must be whsec_ and the base64/);
  assert.doesNotMatch(output, /HUSH/);
});
