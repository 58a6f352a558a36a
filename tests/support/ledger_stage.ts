/**
 * A relay with its ledger, between a network that can be cut and a backend whose every exchange is
 * kept: the stage of the tests that show what the ledger is for.
 *
 * @module
 */
import assert from "node:assert/strict";
import { systemClock } from "../../src/clock.ts";
import { Ledger } from "../../src/ledger/ledger.ts";
import type { TaskStatus } from "../../src/ledger/status.ts";
import { RedisStore } from "../../src/ledger/redis_store.ts";
import { SqliteStore } from "../../src/ledger/sqlite_store.ts";
import { type TestAmqp, withAmqp } from "./amqp.ts";
import { type Answering, type Backend, type BackendRequest, withBackend } from "./backend.ts";
import type { ClientAnswer } from "./client.ts";
import { rabbitAddress } from "./environment.ts";
import { eventually, type Patience } from "./eventually.ts";
import { type QueueNames, queueNames } from "./queues.ts";
import { type Redis, startRedis } from "./redis.ts";
import { type LogLine, type RelayProcess, withRelay } from "./relay.ts";
import { type TcpRelay, withTcpRelay } from "./tcp_relay.ts";

/** Where the ledger is kept. */
export type StoreKind = "sqlite" | "redis";

/** What a stage is set with. */
export interface LedgerStageOptions {
  /** Over a wide limit and a short ladder. */
  readonly env?: Readonly<Record<string, string>>;
  /** A file unless given. */
  readonly store?: StoreKind;
  /** 200 to everything unless given. */
  readonly answer?: Answering;
}

/** A relay, and what is around it. */
export interface LedgerStage {
  readonly relay: RelayProcess;
  readonly backend: Backend;
  readonly amqp: TestAmqp;
  /** Between the relay and its broker; knows AMQP. */
  readonly network: TcpRelay;
  readonly names: QueueNames;
  /** Where the ledger is, if it is not in a file. @throws when it is */
  readonly redis: Redis;
  /** The requests for one task, in the order of their arrival. */
  requestsOf(id: string): BackendRequest[];
  /** What the log says of deliveries whose attempt was not made, of one task. */
  passed(id: string): LogLine[];
  /** Of a task that the relay knows. */
  status(id: string): Promise<ClientAnswer["json"]>;
  /** Waits until the relay says so of the task. */
  untilStatus(id: string, status: string, patience?: Patience): Promise<ClientAnswer["json"]>;
  /** Reads the ledger past the relay, which must not run, so that nothing changes meanwhile. */
  readLedger(ids: Iterable<string>): Promise<Map<string, TaskStatus | undefined>>;
  /** Waits until nothing is in any queue, ends the relay in order, and asserts that it is so still. */
  assertNothingLeft(): Promise<void>;
}

/** Wide, so that no test waits for the limit, nor after a restart for a whole window. */
const WIDE_LIMIT = { RATE_LIMIT_MAX_REQUESTS: "1000", RATE_LIMIT_WINDOW_SEC: "0.2" } as const;

const SHORT_LADDER = "2x0s,4x0.2s";

/** Runs `fn` on a stage of its own, and cleans up however it ends. */
export async function withLedgerStage(
  { env = {}, store = "sqlite", answer }: LedgerStageOptions,
  fn: (stage: LedgerStage) => Promise<void>,
): Promise<void> {
  const rabbit = rabbitAddress();
  const target = { targetHost: rabbit.host, targetPort: rabbit.port, amqp: true };
  await using redis = store === "redis" ? await startRedis() : undefined;
  await withBackend((backend) =>
    withTcpRelay(target, async (network) => {
      const all = {
        RABBIT_HOST: network.hostname,
        RABBIT_PORT: String(network.port),
        BACKEND_BASE_URL: backend.url,
        RETRY_LADDER: SHORT_LADDER,
        ...WIDE_LIMIT,
        ...(redis && { REDIS_URL: redis.url() }),
        ...env,
      };
      await withRelay({ rabbit, env: all }, (relay) =>
        withAmqp(rabbit, (amqp) => {
          const names = queueNames(relay.prefix, all.RETRY_LADDER);
          return fn(setStage({ relay, backend, amqp, network, names }, redis));
        }));
    }), answer === undefined ? {} : { answer });
}

function setStage(
  parts: Pick<LedgerStage, "relay" | "backend" | "amqp" | "network" | "names">,
  redis: Redis | undefined,
): LedgerStage {
  const { relay, backend, amqp, names } = parts;
  const status = async (id: string): Promise<ClientAnswer["json"]> => {
    const answer = await relay.get(`/queue/tasks/${id}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  return {
    ...parts,
    get redis(): Redis {
      assert.ok(redis, "the ledger of this stage is in a file");
      return redis;
    },
    requestsOf: (id) => backend.requests.filter(({ headers }) => headers["task-id"] === id),
    passed: (id) =>
      relay.logs.filter((line) => line.message === "attempt not made" && line["task_id"] === id),
    status,
    untilStatus: (id, wanted, patience) =>
      eventually(async () => {
        const json = await status(id);
        assert.equal(json["status"], wanted);
        return json;
      }, patience),
    readLedger: (ids) => readLedger(relay, redis, ids),
    async assertNothingLeft(): Promise<void> {
      const empty = async (): Promise<void> => {
        const depths = Object.entries(await amqp.depths([...names.all, ...names.delays]));
        const left = depths.filter(([, depth]) => depth !== undefined && depth > 0);
        assert.deepEqual(left, [], "something is left");
      };
      // What the relay has in hand is not counted; it is there after the end, and goes its way then.
      await eventually(async () => {
        await eventually(empty, { every: 200 });
        assert.equal(await relay.stop(), 0);
        await eventually(async () => assert.equal(await amqp.consumers(names.main), 0));
        await empty().catch(async (failure) => {
          await relay.start();
          throw failure;
        });
      });
    },
  };
}

async function readLedger(
  { prefix, dataDir }: RelayProcess,
  redis: Redis | undefined,
  ids: Iterable<string>,
): Promise<Map<string, TaskStatus | undefined>> {
  const common = { prefix, retentionMs: 3_600_000, clock: systemClock };
  const store = redis
    ? new RedisStore({ ...common, url: redis.url() })
    : new SqliteStore({ ...common, dataDir });
  const ledger = new Ledger(store);
  try {
    // Patient as the relay is: on a busy machine a store may need longer than it waits for one answer.
    return await eventually(async () => {
      const read = [...ids].map(async (id) => [id, await ledger.status(id)] as const);
      return new Map(await Promise.all(read));
    });
  } finally {
    await ledger.close();
  }
}
