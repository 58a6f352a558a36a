/**
 * Operators pause and resume delivering: clients are answered all the while, and the backend is left
 * alone from one moment to the other.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type TestAmqp, withAmqp } from "../support/amqp.ts";
import { type Backend, withBackend } from "../support/backend.ts";
import { rabbitAddress } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { type Operator, withOperator } from "../support/operator.ts";
import { type QueueNames, queueNames } from "../support/queues.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import { withTcpRelay } from "../support/tcp_relay.ts";
import { runToEnd } from "./stage.ts";

const LADDER = "2x0s,2x1s";

interface Stage {
  readonly relay: RelayProcess;
  readonly operator: Operator;
  readonly backend: Backend;
  readonly amqp: TestAmqp;
  readonly names: QueueNames;
}

async function withStage(
  env: Readonly<Record<string, string>>,
  fn: (stage: Stage) => Promise<void>,
): Promise<void> {
  const rabbit = rabbitAddress();
  const wide = { RATE_LIMIT_MAX_REQUESTS: "1000", RATE_LIMIT_WINDOW_SEC: "0.2" };
  await withBackend((backend) => {
    const all = { BACKEND_BASE_URL: backend.url, RETRY_LADDER: LADDER, OPS_PORT: "0", ...wide };
    return withRelay(
      { rabbit, env: { ...all, ...env } },
      (relay) =>
        withOperator(relay, (operator) =>
          withAmqp(rabbit, (amqp) => {
            const names = queueNames(relay.prefix, LADDER);
            return fn({ relay, operator, backend, amqp, names });
          })),
    );
  });
}

async function post({ relay }: Stage, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => relay.accept("1")));
}

/** As `/readyz` tells it, which is 200 all the while. */
async function untilConsumer({ relay }: Stage, state: string): Promise<void> {
  await eventually(async () => {
    const { status, json } = await relay.get("/readyz");
    assert.deepEqual([status, json["consumer"]], [200, state]);
  });
}

/** Messages in the queue that is there while delivering is paused; undefined: it isn't. */
async function switchDepth({ amqp, names }: Stage): Promise<number | undefined> {
  return (await amqp.depths([names.paused]))[names.paused];
}

/** The headers `task-attempt` of everything that the backend was asked. */
function attempts({ backend }: Stage): unknown[] {
  return backend.requests.map(({ headers }) => headers["task-attempt"]);
}

for (const QUEUE_TYPE of ["quorum", "classic"]) {
  Deno.test(`${QUEUE_TYPE}: paused → tasks are accepted and wait, through a restart of the relay (kill -9); resumed → each is delivered, its first attempt`, async () => {
    await withStage({ QUEUE_TYPE }, async (stage) => {
      const { relay, operator, backend, amqp, names } = stage;
      assert.equal(await switchDepth(stage), undefined, "not there before it is needed");
      await operator.setPaused(true);
      await untilConsumer(stage, "paused");
      await operator.setPaused(true); // may be repeated
      await post(stage, 20);
      assert.equal(await amqp.depth(names.main), 20);

      await relay.kill();
      await relay.start();
      await untilConsumer(stage, "paused");
      await eventually(async () => {
        assert.ok((await operator.get("/stats")).json["paused"]);
        assert.match((await operator.get("/metrics")).text, /^queue_relay_paused 1$/m);
      });
      await post(stage, 1);
      assert.equal(await amqp.depth(names.main), 21);
      assert.deepEqual(backend.requests, []);
      const looks = await switchDepth(stage);
      assert.ok(looks !== undefined && looks <= 1, `looking has left ${looks} messages`);

      await operator.setPaused(false);
      await operator.setPaused(false);
      await backend.waitFor(21);
      assert.deepEqual(attempts(stage), Array(21).fill("1"));
      await untilConsumer(stage, "consuming");
      assert.ok(!(await operator.get("/stats")).json["paused"], "told as soon as it is so");
      assert.equal(await switchDepth(stage), undefined);
    });
  });
}

Deno.test("paused while requests are in flight → they end and count, and nothing follows them", async () => {
  await withStage({ CONCURRENCY: "3", BACKEND_TIMEOUT: "30" }, async (stage) => {
    const { operator, backend, amqp, names } = stage;
    const opened = Promise.withResolvers<void>();
    backend.answer = async () => {
      await opened.promise;
      return { status: 200 };
    };
    await post(stage, 10);
    await backend.waitFor(3);
    await operator.setPaused(true);
    await untilConsumer(stage, "paused");
    // The other seven wait again, those that were held with a second of delay.
    await eventually(async () => assert.equal(await amqp.depth(names.main), 7));
    opened.resolve();
    const delivered = (): number =>
      stage.relay.logs.filter((line) => line["disposition"] === "delivered").length;
    await eventually(() => assert.equal(delivered(), 3));
    assert.equal(backend.requests.length, 3);
    await operator.setPaused(false);
    await backend.waitFor(10);
    await eventually(() => assert.equal(delivered(), 10));
    assert.deepEqual(attempts(stage), Array(10).fill("1"), "none is asked for twice");
  });
});

Deno.test("200 requests in flight are answered during a pause that ends at once → each task is delivered once", async () => {
  const IN_FLIGHT = 200;
  const env = {
    LEDGER: "off",
    CONCURRENCY: String(IN_FLIGHT),
    PREFETCH_COUNT: String(IN_FLIGHT),
    BACKEND_TIMEOUT: "30",
  };
  await withStage(env, async (stage) => {
    const { operator, backend, amqp, names } = stage;
    for (let round = 1; round <= 5; round++) {
      const answered = Promise.withResolvers<{ status: number }>();
      backend.answer = () => answered.promise;
      await post(stage, IN_FLIGHT);
      await backend.waitFor(round * IN_FLIGHT);
      await operator.setPaused(true);
      await untilConsumer(stage, "paused");
      const resumed = operator.setPaused(false);
      answered.resolve({ status: 200 });
      await resumed;
      await untilConsumer(stage, "consuming");
      await eventually(async () => assert.equal(await amqp.depth(names.main), 0));
    }
    assert.equal(await stage.relay.stop(), 0);
    assert.equal(backend.requests.length, 5 * IN_FLIGHT, "asked for again");
  });
});

Deno.test("paused and resumed more often than the broker returns a message → nothing fails", async () => {
  await withStage({ RATE_LIMIT_MAX_REQUESTS: "1", RATE_LIMIT_WINDOW_SEC: "60" }, async (stage) => {
    const { relay, operator, backend, amqp, names } = stage;
    await post(stage, 5); // one is sent, four are held: no slot for a minute
    await backend.waitFor(1);
    for (let times = 0; times < 110; times++) {
      await operator.setPaused(true);
      await operator.setPaused(false);
    }
    await untilConsumer(stage, "consuming");
    assert.equal(await amqp.depth(names.failed), 0);
    assert.equal(await relay.stop(), 0);
    await eventually(async () => assert.equal(await amqp.depth(names.main), 4));
    assert.equal(backend.requests.length, 1);
  });
});

Deno.test("two relays: paused at one of them → the other delivers nothing either, when it takes over", async () => {
  await withStage({}, async (stage) => {
    const { relay, operator, backend } = stage;
    const env = {
      QUEUE_PREFIX: relay.prefix,
      BACKEND_BASE_URL: backend.url,
      RETRY_LADDER: LADDER,
      OPS_PORT: "0",
    };
    await withRelay(
      { rabbit: rabbitAddress(), env },
      (other) =>
        withOperator(other, async (second) => {
          await operator.setPaused(true);
          const paused = async (): Promise<void> => {
            const { json } = await other.get("/readyz");
            assert.equal(json["consumer"], "paused");
          };
          await eventually(paused);
          await post(stage, 5);
          await relay.kill();
          await other.accept("1");
          await eventually(paused);
          assert.deepEqual(backend.requests, []);
          await second.setPaused(false);
          await backend.waitFor(6);
        }),
    );
  });
});

for (const QUEUE_TYPE of ["quorum", "classic"]) {
  Deno.test(`${QUEUE_TYPE}: two relays, a backlog, no window to wait for: paused at the active one → the one that the broker makes active sends nothing`, async () => {
    const env = {
      QUEUE_TYPE,
      CONCURRENCY: "1",
      RATE_LIMIT_MAX_REQUESTS: "5",
      RATE_LIMIT_WINDOW_SEC: "0.1",
    };
    await withStage(env, async (stage) => {
      const { relay, operator, backend } = stage;
      const more = { QUEUE_PREFIX: relay.prefix, BACKEND_BASE_URL: backend.url, OPS_PORT: "0" };
      const second = { ...env, ...more, RETRY_LADDER: LADDER };
      await withRelay({ rabbit: rabbitAddress(), env: second }, async (other) => {
        await post(stage, 300);
        await backend.waitFor(10);
        await operator.setPaused(true);
        const before = backend.requests.length;
        await eventually(async () => {
          const { json } = await other.get("/readyz");
          assert.equal(json["consumer"], "paused");
        });
        assert.ok(backend.requests.length <= before + 1, "more than what was in flight");
        await operator.setPaused(false);
        await backend.waitFor(300);
      });
    });
  });
}

Deno.test("paused → --check says so, and how it ends", async () => {
  await withStage({}, async ({ relay, operator }) => {
    const checked = (): ReturnType<typeof runToEnd> =>
      runToEnd({ args: ["--check"], env: { QUEUE_PREFIX: relay.prefix, RETRY_LADDER: LADDER } });
    assert.doesNotMatch((await checked()).output, /paused/);
    await operator.setPaused(true);
    const { status, output } = await checked();
    assert.equal(status, 0, output);
    assert.match(output, /Delivering is paused, .*`queue-relay resume`/);
  });
});

Deno.test("the broker is away → 503 soon, and nothing has changed", async () => {
  const rabbit = rabbitAddress();
  const target = { targetHost: rabbit.host, targetPort: rabbit.port };
  await withTcpRelay(target, async (network) => {
    const through = { RABBIT_HOST: network.hostname, RABBIT_PORT: String(network.port) };
    await withStage(through, async (stage) => {
      const { operator } = stage;
      network.refuse();
      network.cut();
      await eventually(async () => {
        const { status, headers, json } = await operator.post("/pause", {});
        assert.equal(status, 503);
        assert.ok(Number(headers["retry-after"]) > 0);
        assert.match(String(json["detail"]), /can't be paused now: .* Send it again later\./);
      });
      await network.accept();
      await untilConsumer(stage, "consuming");
      assert.equal(await switchDepth(stage), undefined);
    });
  });
});

Deno.test("the pause queue is deleted by hand → resumed; declared by hand, of any kind → paused", async () => {
  await withStage({}, async (stage) => {
    const { operator, backend, amqp, names } = stage;
    await operator.setPaused(true);
    await untilConsumer(stage, "paused");
    await post(stage, 1);
    await amqp.deleteQueue(names.paused);
    await backend.waitFor(1);
    await amqp.declareQueue(names.paused);
    await untilConsumer(stage, "paused");
    await operator.setPaused(true);
    await operator.setPaused(false);
    await untilConsumer(stage, "consuming");
  });
});
