/**
 * The routes of failed tasks beside a queue that answers when it likes: who waits for it is bounded,
 * and each request ends with an answer.
 *
 * @module
 */
import assert from "node:assert/strict";
import { createFailedRoutes, type FailedRoutes } from "../../src/ops/failed_routes.ts";
import type { FailedTasks, PassResult } from "../../src/ops/ports.ts";
import { FakeClock } from "../support/fake_clock.ts";

const EMPTY: PassResult = { kind: "passed", total: 0 };

/** Routes over a queue whose passes end when the test says so. */
function routesOver(pass: () => Promise<PassResult>): FailedRoutes {
  const queue: FailedTasks = { pass, purge: pass };
  const main = { publish: () => Promise.resolve({ kind: "confirmed" } as const) };
  return createFailedRoutes({ queue, main, clock: new FakeClock() });
}

function listOf(routes: FailedRoutes): Promise<Response> {
  return routes.list(new Request("http://localhost/failed"));
}

Deno.test("eight requests wait for the queue → the ninth is refused at once with Retry-After, and taken later", async () => {
  const opened = Promise.withResolvers<PassResult>();
  const routes = routesOver(() => opened.promise);
  const waiting = Array.from({ length: 8 }, () => listOf(routes));
  const refused = await listOf(routes);
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get("retry-after")) > 0);
  assert.match((await refused.json()).detail, /Send it again later/);

  opened.resolve(EMPTY);
  for (const response of await Promise.all(waiting)) {
    assert.deepEqual([response.status, await response.json()], [200, {
      total: 0,
      tasks: [],
      next: null,
    }]);
  }
  assert.equal((await listOf(routes)).status, 200);
});

Deno.test("a pass that fails unexpectedly gives its place back", async () => {
  let passes = 0;
  const routes = routesOver(() =>
    ++passes <= 8 ? Promise.reject(new Error("a bug")) : Promise.resolve(EMPTY)
  );
  for (let n = 0; n < 8; n++) await assert.rejects(listOf(routes), /a bug/);
  assert.equal((await listOf(routes)).status, 200);
});

Deno.test("redrive with a body that never comes to its end → refused when the routes close", async () => {
  const routes = routesOver(() => Promise.resolve(EMPTY));
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode('{"ids":')),
  });
  const redrive = routes.redrive(
    new Request("http://localhost/failed/redrive", { method: "POST", body }),
  );
  routes.close();
  const response = await redrive;
  assert.ok(response.status >= 400, String(response.status));
});
