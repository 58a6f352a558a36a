/**
 * What is each attempt's own in the request: its place in the client's trace, its time, its signature.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createSigner } from "../../src/consumer/signature.ts";
import { withBackend } from "../support/backend.ts";
import { attempt, withClient } from "../support/backend_client.ts";
import { aTask } from "../support/tasks.ts";

Deno.test("two attempts of one task → one trace, two parent ids", async () => {
  await withBackend(async (backend) => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    await withClient(backend.url, async (client) => {
      await attempt(client, aTask({ traceparent }));
      await attempt(client, aTask({ traceparent, attempt: 2 }));
    });
    const sent = backend.requests.map(({ headers }) => String(headers["traceparent"]));
    const [first, second] = sent.map((value) => value.slice(36, 52));
    assert.equal(new Set([first, second, traceparent.slice(36, 52)]).size, 3);
    const rest = sent.map((value) => value.slice(0, 36) + value.slice(52));
    assert.deepEqual(rest, Array(2).fill(traceparent.slice(0, 36) + traceparent.slice(52)));
  });
});

Deno.test("another producer's traceparent that can't be read → neither it nor its tracestate", async () => {
  await withBackend(async (backend) => {
    const task = aTask({ traceparent: "odd", tracestate: "vendor=1" });
    await withClient(backend.url, (client) => attempt(client, task));
    const { headers = {} } = backend.requests[0] ?? {};
    assert.ok(!("traceparent" in headers || "tracestate" in headers), JSON.stringify(headers));
  });
});

Deno.test("with secrets → each attempt is signed with the time at which it is sent", async () => {
  await withBackend(async (backend) => {
    const secret = new Uint8Array(32).fill(7);
    let now = Date.UTC(2026, 10, 30, 12, 0, 0, 999);
    const options = { signingSecrets: [secret], clock: { now: (): number => now } };
    await withClient(backend.url, async (client) => {
      await attempt(client);
      now += 1;
      await attempt(client, aTask({ attempt: 2 }));
    }, options);
    const times = [Date.UTC(2026, 10, 30, 12) / 1000, Date.UTC(2026, 10, 30, 12, 0, 1) / 1000];
    const sign = createSigner([secret]);
    const { id, body } = aTask();
    assert.deepEqual(
      backend.requests.map(({ headers }) => [
        headers["webhook-id"],
        headers["webhook-timestamp"],
        headers["webhook-signature"],
      ]),
      times.map((seconds) => [id, String(seconds), sign(id, seconds, body)]),
    );
  });
});
