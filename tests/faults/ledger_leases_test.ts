/**
 * Attempts whose relay is gone, or has lost its connection: they are made again at once where nobody
 * can be making them any more, and not at all where somebody is.
 *
 * A lease holds for more than BACKEND_TIMEOUT, which is a minute here. Where it must not be waited for,
 * everything that the relay may hold is leased, so that it would deliver nothing else meanwhile.
 *
 * @module
 */
import assert from "node:assert/strict";
import { ConsumerHost } from "../../src/consumer/host.ts";
import { systemClock } from "../../src/clock.ts";
import { alongside } from "../support/alongside.ts";
import { withAmqp } from "../support/amqp.ts";
import { type Answer, type Backend, type BackendRequest, withBackend } from "../support/backend.ts";
import { aConsumerConfig } from "../support/consumer_config.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { type LedgerStage, type StoreKind, withLedgerStage } from "../support/ledger_stage.ts";
import { queueNames } from "../support/queues.ts";
import { withRelay } from "../support/relay.ts";
import { publishesTask } from "../support/task_frames.ts";
import { LADDER, WIDE_LIMIT } from "./scene.ts";

/** So many tasks are in flight, and no more can be. */
const HELD = 5;

/** A lease is a little longer, and yet short enough for who waits for it to hold its delivery. */
const TIMEOUT_MS = 110_000;
const ENV = { PREFETCH_COUNT: String(HELD), BACKEND_TIMEOUT: String(TIMEOUT_MS / 1000) };

/** Far less than a lease holds, and more than a relay needs to start on a busy machine. */
const SOON = { within: TIMEOUT_MS / 3 };

const FIRST_DELIVERY = "first delivery of a subscription";

const hang = (): Answer => ({ hang: true });
const succeed = (): Answer => ({ status: 200 });

/** Posts tasks, as many as can be held, and waits until the backend has been asked for each. */
async function fill({ relay, backend }: LedgerStage): Promise<string[]> {
  const posts = Array.from(
    { length: HELD },
    (_, n) => relay.accept("1", { "idempotency-key": `order-${n}` }),
  );
  const ids = await Promise.all(posts);
  await backend.waitFor(HELD);
  return ids;
}

/** What makes a request known for a repeat of another, in an order of its own. */
function known(requests: readonly BackendRequest[]): string[] {
  return requests.map(({ headers }) =>
    ["task-id", "task-attempt", "idempotency-key"].map((name) => headers[name]).join(" ")
  ).toSorted();
}

/** Asserts that the backend is asked for the same attempts once more. */
async function askedAgain(backend: Backend): Promise<void> {
  await backend.waitFor(2 * HELD, SOON);
  const { requests } = backend;
  assert.deepEqual(known(requests.slice(HELD)), known(requests.slice(0, HELD)));
}

async function killed(store: StoreKind): Promise<void> {
  await withLedgerStage({ store, env: ENV, answer: hang }, async (stage) => {
    const { relay, backend } = stage;
    const ids = await fill(stage);
    await relay.kill();
    for (const [id, status] of await stage.readLedger(ids)) {
      assert.equal(status?.status, "delivering", `${id} is not leased, so nothing is tested`);
    }
    backend.answer = succeed;
    await relay.start();
    await askedAgain(backend);
    for (const id of ids) await stage.untilStatus(id, "delivered");
    await stage.assertNothingLeft();
  });
}

Deno.test("a relay is killed (-9) with all in flight that it may hold, and starts again: the same attempts reach the backend long before their leases end, with SQLite and with Redis", async () => {
  await alongside(killed("sqlite"), killed("redis"));
});

Deno.test("the connection is cut with requests in flight: what comes again is not asked for again meanwhile, and acknowledged when the first request has succeeded", async () => {
  const env = { ...ENV, PREFETCH_COUNT: String(3 * HELD) };
  await withLedgerStage({ env }, async (stage) => {
    const { relay, backend, network } = stage;
    const answer = Promise.withResolvers<Answer>();
    backend.answer = (_, n): Answer | Promise<Answer> => n <= HELD ? answer.promise : succeed();
    const ids = await fill(stage);
    network.cut();
    await eventually(() => {
      const begun = relay.logs.filter(({ message }) => message === FIRST_DELIVERY);
      assert.equal(begun.length, 2, "nothing was delivered again");
    });
    // It stands behind those that came again: once it is done they have been claimed in vain.
    const behind = await eventually(() => relay.accept('"behind"'));
    await stage.untilStatus(behind, "delivered");
    answer.resolve({ status: 200 });
    for (const id of ids) {
      await eventually(() => {
        assert.deepEqual(stage.passed(id).map(({ reason }) => reason), ["duplicate"]);
      });
    }
    assert.equal(backend.requests.length, HELD + 1);
    await stage.assertNothingLeft();
  });
});

Deno.test("the connection is cut when all that the relay may hold has failed, before the next hop: the same attempts are made again long before their leases end", async () => {
  await withLedgerStage({ env: ENV }, async (stage) => {
    const { backend, network } = stage;
    const failure = Promise.withResolvers<Answer>();
    backend.answer = (_, n): Answer | Promise<Answer> => n <= HELD ? failure.promise : succeed();
    const ids = await fill(stage);
    let cut = false;
    network.onFrame = (frame) => {
      if (cut || !publishesTask(frame)) return "pass";
      cut = true;
      network.cut();
      return "cut-before";
    };
    failure.resolve({ status: 503 });
    await askedAgain(backend);
    assert.ok(cut);
    for (const id of ids) await stage.untilStatus(id, "delivered");
    await stage.assertNothingLeft();
  });
});

Deno.test("a relay's grace is over with all in flight that it may hold: another relay makes the same attempts long before their leases end", async () => {
  const env = { ...ENV, SHUTDOWN_GRACE_SEC: "0.5" };
  await withLedgerStage({ store: "redis", env, answer: hang }, async (stage) => {
    const { relay, backend, redis } = stage;
    const ids = await fill(stage);
    const other = {
      ...env,
      QUEUE_PREFIX: relay.prefix,
      REDIS_URL: redis.url(),
      BACKEND_BASE_URL: backend.url,
      RETRY_LADDER: LADDER,
      ...WIDE_LIMIT,
    };
    await withRelay({ env: other }, async (another) => {
      backend.answer = succeed;
      assert.equal(await relay.stop(), 0);
      await askedAgain(backend);
      await eventually(async () => {
        for (const id of ids) {
          assert.equal((await another.get(`/queue/tasks/${id}`)).json["status"], "delivered");
        }
      });
      assert.equal(await another.stop(), 0);
    });
    await relay.start();
    await stage.assertNothingLeft();
  });
});

Deno.test("the consumer's Worker dies with all in flight that it may hold: the one after it makes the same attempts long before their leases end", async () => {
  const rabbit = rabbitAddress();
  const prefix = uniquePrefix();
  const dataDir = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  await withBackend(async (backend) => {
    const config = aConsumerConfig({
      ...ENV,
      ...WIDE_LIMIT,
      RABBIT_HOST: rabbit.host,
      RABBIT_PORT: String(rabbit.port),
      RABBIT_USER: rabbit.user,
      RABBIT_PASSWORD: rabbit.password,
      QUEUE_PREFIX: prefix,
      RETRY_LADDER: LADDER,
      BACKEND_BASE_URL: backend.url,
      DATA_DIR: dataDir,
      LOG_LEVEL: "warning",
    });
    const workers: Worker[] = [];
    const createWorker = (permissions: Deno.PermissionOptionsObject): Worker => {
      const worker = new Worker(new URL("../../src/consumer/worker.ts", import.meta.url), {
        type: "module",
        deno: { permissions },
      });
      workers.push(worker);
      return worker;
    };
    const relay = crypto.randomUUID();
    const host = new ConsumerHost({
      config,
      relay,
      firstEver: true,
      paused: false,
      look: () => Promise.resolve(false),
      clock: systemClock,
      createWorker,
    });
    await withAmqp(rabbit, async (amqp) => {
      try {
        await eventually(() => assert.equal(host.state, "consuming"), SOON);
        const { main } = queueNames(prefix, LADDER);
        for (let n = 0; n < HELD; n++) {
          await amqp.publishRaw(main, "1", { messageId: `task-${n}` });
        }
        await backend.waitFor(HELD);
        backend.answer = succeed;
        // As an error that nothing caught does.
        workers[0]?.dispatchEvent(new ErrorEvent("error", { message: "dies", cancelable: true }));
        await askedAgain(backend);
        assert.equal(workers.length, 2);
      } finally {
        await host.stop(0);
        await amqp.deletePrefix(prefix, LADDER);
      }
    });
  }, { answer: hang });
  await Deno.remove(dataDir, { recursive: true });
});
