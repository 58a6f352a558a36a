/**
 * Three relays on one limit in Redis use it, all of them together, as one relay would.
 *
 * "Used" is the length of the whole run: 600 tasks are 60 windows, of which the last is over when it
 * begins, so at full use they take 59 of them.
 *
 * @module
 */
import assert from "node:assert/strict";
import {
  keptTheLimit,
  LIMIT,
  post,
  shares,
  SLACK_MS,
  WINDOW_MS,
  withReplicas,
} from "./replicas.ts";
import { timesAsked } from "./scene.ts";

Deno.test("three relays, 600 tasks at 10 per 1.5 s: all three send, never more than the limit together, it is used to 97 %, each task once", async () => {
  await withReplicas(async (replicas) => {
    const { backend } = replicas;
    await post(replicas, 600);
    await backend.waitFor(600, { within: 180_000 });
    keptTheLimit(backend);
    const times = backend.requests.map(({ at }) => at);
    const took = (times.at(-1) ?? NaN) - (times[0] ?? NaN);
    const use = 59 * WINDOW_MS / took;
    assert.ok(use >= 0.97, `used to ${use.toFixed(3)}: ${Math.round(took)} ms`);
    // With windows of 10 that are never overlapped, no 10 requests come before their window.
    for (const [n, at] of times.entries()) {
      const earliest = (times[0] ?? NaN) + Math.floor(n / LIMIT) * WINDOW_MS - SLACK_MS;
      assert.ok(at >= earliest, `request ${n + 1} came ${Math.round(earliest - at)} ms early`);
    }
    assert.deepEqual([...new Set(timesAsked(backend).values())], [1], "a task was sent again");
    assert.ok(shares(backend).every((share) => share > 0), `shares: ${shares(backend)}`);
  });
});
