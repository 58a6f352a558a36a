/**
 * A relay that is stopped and goes on (SIGSTOP and SIGCONT, as a paused machine): meanwhile another one
 * has its tasks and spends the limit, and it must not act on what it knew before.
 *
 * @module
 */
import assert from "node:assert/strict";
import { busiestWindow } from "../support/arrivals.ts";
import { withRelay } from "../support/relay.ts";
import { taskId, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

const LIMIT = 10;
const WINDOW_MS = 1_000;

/** One that the broker takes for dead at once, and how long it stands still in the test, roughly. */
for (const [name, moreRequests] of [["a moment", 5], ["several windows", 60]] as const) {
  Deno.test(`the active relay stands still for ${name} and another takes over: it begins nothing when it goes on`, async () => {
    const env = {
      RATE_LIMIT_MAX_REQUESTS: String(LIMIT),
      RATE_LIMIT_WINDOW_SEC: String(WINDOW_MS / 1_000),
      RATE_LIMIT_ALGORITHM: "sliding-window",
    };
    await withScene({ env: { ...env, BACKEND_PATH: "/first" } }, async (scene) => {
      const { relay: first, network, backend, rabbit } = scene;
      const second = {
        ...env,
        RABBIT_HOST: rabbit.host,
        RABBIT_PORT: String(rabbit.port),
        QUEUE_PREFIX: first.prefix,
        BACKEND_BASE_URL: backend.url,
        BACKEND_PATH: "/second",
      };
      await scene.post(150);
      await backend.waitFor(2 * LIMIT);
      await withRelay({ env: second }, async () => {
        // In the middle of a window, so that its timer is over before the end of the pause; and when
        // the window is spent, as a request that is being written at this moment is in flight.
        first.signal("SIGSTOP");
        network.cut();
        const stoppedAt = backend.requests.length;
        await backend.waitFor(stoppedAt + moreRequests);
        const before = backend.requests.length;
        first.signal("SIGCONT");
        await untilAllDelivered(scene);
        const late = backend.requests.slice(before).filter(({ url }) => url === "/first");
        assert.deepEqual(late.map(taskId), [], "it asked for tasks that it had lost");
        const most = busiestWindow(backend.requests.map(({ at }) => at), WINDOW_MS - 300);
        assert.ok(most <= LIMIT, `${most} requests in one window`);
        const repeated = [...timesAsked(backend).values()].filter((times) => times > 1).length;
        assert.ok(repeated <= LIMIT, `${repeated} tasks were sent twice`);
      });
      await scene.count();
    });
  });
}
