/**
 * The relay is killed (-9) between the reservation of a key and its 202: whoever comes with the key
 * again gets the same task, never a second one.
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import { withBackend } from "../support/backend.ts";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { queueNames } from "../support/queues.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import { publishesTask } from "../support/task_frames.ts";
import { type PassingFrame, type TcpRelay, withTcpRelay } from "../support/tcp_relay.ts";

const LADDER = "1x0s,1x0.1s";
const KEY = { "idempotency-key": "order-17" };

interface Scene {
  readonly relay: RelayProcess;
  /** Between the relay and its broker. */
  readonly network: TcpRelay;
  /** Keys of all requests that the backend got, and the ids beside them. */
  requests(): { key: unknown; id: unknown }[];
  /** Ends the relay, and gives the ids of what is left in the main queue. */
  left(): Promise<string[]>;
}

async function withScene(fn: (scene: Scene) => Promise<void>): Promise<void> {
  const rabbit = rabbitAddress();
  const target = { targetHost: rabbit.host, targetPort: rabbit.port, amqp: true };
  await withBackend((backend) =>
    withTcpRelay(target, async (network) => {
      const env = {
        RABBIT_HOST: network.hostname,
        RABBIT_PORT: String(network.port),
        BACKEND_BASE_URL: backend.url,
        RETRY_LADDER: LADDER,
        RATE_LIMIT_MAX_REQUESTS: "1000",
        RATE_LIMIT_WINDOW_SEC: "1",
      };
      await withRelay({ rabbit, env }, (relay) =>
        fn({
          relay,
          network,
          requests: () =>
            backend.requests.map(({ headers }) => ({
              key: headers["idempotency-key"],
              id: headers["task-id"],
            })),
          left: async () => {
            await relay.stop();
            const { main } = queueNames(relay.prefix, LADDER);
            const messages = await withAmqp(rabbit, (amqp) => amqp.peekAll(main));
            return messages.map(({ id }) => id);
          },
        }));
    })
  );
}

/** Posts the key, kills the relay right before such a frame passes, and starts it again. */
async function crashBefore(
  { relay, network }: Scene,
  where: (frame: PassingFrame) => boolean,
): Promise<void> {
  const crashed = Promise.withResolvers<void>();
  network.onFrame = async (frame) => {
    if (!where(frame)) return "pass";
    network.onFrame = undefined;
    await relay.kill();
    crashed.resolve();
    return "cut-before";
  };
  await Promise.all([assert.rejects(relay.post("1", KEY)), crashed.promise]);
  await relay.start();
}

/** Posts the key until it is accepted; on the way only 409 with Retry-After is allowed. */
async function accepted({ relay }: Scene): Promise<string> {
  return await eventually(async () => {
    const { status, json, headers, text } = await relay.post("1", KEY);
    if (status === 202) return String(json["id"]);
    assert.equal(status, 409, text);
    assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
    assert.fail(`not accepted yet: ${text}`);
  }, { every: 500 });
}

Deno.test("killed after the key was reserved, before the publish reached the broker: accepted when it comes again, one request", async () => {
  await withScene(async (scene) => {
    await crashBefore(scene, publishesTask);
    assert.equal((await scene.relay.post("2", KEY)).status, 422, "the key was forgotten");
    const id = await accepted(scene);
    await eventually(() => assert.equal(scene.requests().length, 1));
    assert.deepEqual(scene.requests(), [{ key: "order-17", id }]);
    assert.equal(await accepted(scene), id);
  });
});

Deno.test("killed after the broker took the publish, before its confirm arrived: the same id again, one request", async () => {
  await withScene(async (scene) => {
    await crashBefore(
      scene,
      ({ name, direction }) => name === "basic.ack" && direction === "toClient",
    );
    const id = await accepted(scene);
    await eventually(async () => {
      const { json } = await scene.relay.get(`/queue/tasks/${id}`);
      assert.equal(json["status"], "delivered");
    });
    const ids = new Set([...scene.requests().map((request) => request.id), ...await scene.left()]);
    assert.deepEqual([...ids], [id], "a second task");
  });
});
