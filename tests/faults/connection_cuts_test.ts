/**
 * Connections that are cut: in the middle of opening, declaring and subscribing, one of the three
 * and not the others, again and again, and with acknowledgements still to be made.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import type { PassingFrame } from "../support/tcp_relay.ts";
import { PLAIN, type Scene, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

/** Asserts that one consumer is subscribed, soon, and that no second one is left behind. */
async function oneConsumer({ rabbit, names }: Scene): Promise<void> {
  await withAmqp(rabbit, async (amqp) => {
    await eventually(async () => assert.equal(await amqp.consumers(names.main), 1));
  });
}

/** Asserts that neither the process nor its Worker has died of it. */
function nobodyDied({ relay }: Scene, pid: number): void {
  assert.equal(relay.pid, pid);
  assert.deepEqual(relay.logs.filter(({ message }) => message.includes("died")), []);
  assert.equal(relay.output, "");
}

/** From the first byte of the greeting to well after the subscription. */
const OFFSETS = [1, 8, 100, 400, 520, 545, 560, 575, 600, 640, 700, 760, 820, 880];

for (const direction of ["toClient", "toServer"] as const) {
  Deno.test(`the socket dies in the middle of opening, declaring or subscribing, cut ${direction} after 1 to 880 bytes: the relay recovers, with one consumer`, async () => {
    await withScene({}, async (scene) => {
      const { network, relay } = scene;
      const { pid } = relay;
      await scene.post(1);
      await untilAllDelivered(scene);
      for (const bytes of OFFSETS) {
        const cut = network.cutAfter(direction, bytes);
        network.cut();
        await cut;
      }
      await relay.ready();
      await scene.post(20);
      await untilAllDelivered(scene);
      await oneConsumer(scene);
      nobodyDied(scene, pid);
      await scene.count();
    });
  });
}

/** The relay's connections by the names that it gives them. */
type Connection = "queue-relay publisher" | "queue-relay consumer" | "queue-relay hops";

/** Knows which connection is which, from the frame in which each says its name. */
function readNames(): (frame: PassingFrame) => string | undefined {
  const names = new Map<number, string>();
  return ({ name, connectionId, bytes }) => {
    if (name === "connection.start-ok") {
      const said = /queue-relay \w+/.exec(new TextDecoder().decode(bytes))?.[0];
      if (said !== undefined) names.set(connectionId, said);
    }
    return names.get(connectionId);
  };
}

Deno.test("the consumer's, the publisher's or the hops' connection is cut while the others live: that one comes back, nothing is lost", async () => {
  await withScene({ ready: false }, async (scene) => {
    const { network, relay } = scene;
    const nameOf = readNames();
    let victim: Connection | undefined;
    network.onFrame = (frame) => {
      const name = nameOf(frame);
      if (name === undefined || name !== victim) return "pass";
      victim = undefined;
      return "cut-before";
    };
    const isConnected =
      (name: Connection) => ({ message, connection }: { message: string; connection?: unknown }) =>
        message === "broker connected" && connection === name;
    await relay.ready();
    const all: Connection[] = ["queue-relay publisher", "queue-relay consumer", "queue-relay hops"];
    for (const name of all) await relay.waitForLog(isConnected(name));
    scene.answer = (_request, n): Answer => ({ status: n % 3 === 0 ? 500 : 200 });
    for (const name of all) {
      const before = relay.logs.filter(isConnected(name)).length;
      const others = network.accepted;
      const cut = network.nextCut();
      victim = name;
      await Promise.all(Array.from({ length: 20 }, async () => {
        const { status, json } = await relay.post("1");
        if (status === 202) scene.accepted.add(String(json["id"]));
      }));
      await cut;
      await eventually(() => assert.equal(relay.logs.filter(isConnected(name)).length, before + 1));
      assert.equal(network.accepted, others + 1, "another connection was opened anew, too");
    }
    await untilAllDelivered(scene);
    await oneConsumer(scene);
    await scene.count();
  });
});

Deno.test("the confirm of a next hop is lost with its connection: published again; a duplicate is allowed, none is lost", async () => {
  await withScene(
    { env: { ...PLAIN, RETRY_LADDER: "1x0s,4x0.2s" }, ready: false },
    async (scene) => {
      const { network, backend } = scene;
      const nameOf = readNames();
      let confirms = 0;
      network.onFrame = (frame) => {
        if (nameOf(frame) !== "queue-relay hops" || frame.name !== "basic.ack") return "pass";
        return ++confirms === 1 ? "cut-before" : "pass";
      };
      await scene.relay.ready();
      scene.answer = ({ headers }): Answer => ({
        status: headers["task-attempt"] === "1" ? 500 : 200,
      });
      await scene.post(1);
      await backend.waitFor(3);
      const attempts = backend.requests.map(({ headers }) => headers["task-attempt"]);
      assert.deepEqual(attempts, ["1", "2", "2"]);
      assert.equal(await scene.relay.stop(), 0);
      const { messages } = await scene.count();
      assert.equal(messages.length, 0);
    },
  );
});

Deno.test("connections that flap 50 times under load: nothing is lost, and no innocent task ends in tasks.failed", async () => {
  await withScene({}, async (scene) => {
    const { network, relay, accepted } = scene;
    const { pid } = relay;
    for (let round = 0; round < 50; round++) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => relay.post("1")));
      for (const { status, json } of answers) {
        if (status === 202) accepted.add(String(json["id"]));
        else assert.equal(status, 503);
      }
      network.cut();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await relay.ready();
    await scene.post(10);
    await untilAllDelivered(scene);
    await oneConsumer(scene);
    nobodyDied(scene, pid);
    const { failed } = await scene.count();
    assert.deepEqual([...failed], []);
  });
});

Deno.test("answers that come after a reconnect, for deliveries from before: their acks are dropped, no 406, no other message is acknowledged", async () => {
  const env = { ...PLAIN, PREFETCH_COUNT: "5", BACKEND_TIMEOUT: "60" };
  await withScene({ env }, async (scene) => {
    const { network, relay, backend } = scene;
    const old = Promise.withResolvers<Answer>();
    scene.answer = (_request, n): Promise<Answer> =>
      n <= 5 ? old.promise : Promise.resolve({ hang: true });
    await scene.post(10);
    await backend.waitFor(5);
    network.cut();
    await oneConsumer(scene);
    await withAmqp(scene.rabbit, async (amqp) => {
      await eventually(async () => assert.equal(await amqp.depth(scene.names.main), 5));
    });
    old.resolve({ status: 200 });
    await backend.waitFor(10);
    await eventually(() => {
      const stale = relay.logs.filter(({ disposition }) => disposition === "unsettled");
      assert.equal(stale.length, 5);
    });
    assert.deepEqual(relay.logs.filter(({ level }) => level === "ERROR"), []);
    const { waiting } = await scene.count();
    assert.deepEqual(new Set(waiting.keys()), scene.accepted, "a message was acknowledged");
    assert.equal(Math.max(...timesAsked(backend).values()), 2);
  });
});

Deno.test("the connection is cut and comes back during a shutdown: nothing is consumed any more, and no waiting task goes round", async () => {
  const env = {
    PREFETCH_COUNT: "5",
    CONCURRENCY: "1",
    BACKEND_TIMEOUT: "60",
    SHUTDOWN_GRACE_SEC: "4",
  };
  await withScene({ env }, async (scene) => {
    const { network, relay, backend } = scene;
    scene.answer = (): Answer => ({ hang: true });
    await scene.post(10);
    await backend.waitFor(1);
    relay.signal("SIGTERM");
    await relay.waitForLog(({ message }) => message === "stopping");
    network.cut();
    assert.equal(await relay.status, 0);
    const { waiting, messages } = await scene.count();
    assert.deepEqual(new Set(waiting.keys()), scene.accepted);
    const returns = messages.map(({ headers }) => Number(headers["x-delivery-count"] ?? 0));
    assert.ok(Math.max(...returns) <= 3, `returned ${Math.max(...returns)} times`);
  });
});
