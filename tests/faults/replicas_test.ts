/**
 * Three relays that all consume and share one limit in Redis: the backend sees one limit, used by all of
 * them, whatever happens to one.
 *
 * "Never more than the limit" is judged as in `failover_test.ts`: over a little less than whole windows
 * ({@link SLACK_MS}), as arrivals are late by chance on a busy machine; a replica with a limit of its
 * own would bring twice as many. "Used" is the length of the whole run: 600 tasks are 60 windows, of
 * which the last is over when it begins, so at full use they take 59 of them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import { busiestWindow } from "../support/arrivals.ts";
import { type Backend, withBackend } from "../support/backend.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { queueNames } from "../support/queues.ts";
import { type Redis, startRedis } from "../support/redis.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import { type TcpRelay, withTcpRelay } from "../support/tcp_relay.ts";
import { assertNoneLost, LADDER, taskId, timesAsked } from "./scene.ts";

const LIMIT = 10;
const WINDOW_MS = 1_500;
const SLACK_MS = 500;
const PROMPT = { within: 60_000 };

interface Replicas {
  /** The last one's networks are `toRedis` and `toRabbit`. */
  readonly relays: readonly [RelayProcess, RelayProcess, RelayProcess];
  readonly toRedis: TcpRelay;
  readonly toRabbit: TcpRelay;
  readonly redis: Redis;
  readonly backend: Backend;
  readonly accepted: Set<string>;
}

/** Runs `fn` with three relays on the same queues and the same Redis, and counts in the end. */
async function withReplicas(fn: (replicas: Replicas) => Promise<void>): Promise<void> {
  const rabbit = rabbitAddress();
  const prefix = uniquePrefix();
  await using redis = await startRedis();
  const accepted = new Set<string>();
  const redisTarget = { targetHost: redis.host, targetPort: redis.port };
  const rabbitTarget = { targetHost: rabbit.host, targetPort: rabbit.port };
  await withBackend((backend) =>
    withTcpRelay(redisTarget, (toRedis) =>
      withTcpRelay(rabbitTarget, async (toRabbit) => {
        const env = (n: number): Record<string, string> => ({
          ...{ QUEUE_PREFIX: prefix, BACKEND_BASE_URL: backend.url, BACKEND_PATH: `/${n}` },
          ...{ SINGLE_ACTIVE_CONSUMER: "false", REDIS_URL: redis.url(), RETRY_LADDER: LADDER },
          RATE_LIMIT_MAX_REQUESTS: String(LIMIT),
          RATE_LIMIT_WINDOW_SEC: String(WINDOW_MS / 1_000),
        });
        const cut = { REDIS_URL: redis.url(toRedis.port), RABBIT_PORT: String(toRabbit.port) };
        const scene = { toRedis, toRabbit, redis, backend, accepted };
        try {
          await withRelay({ env: env(0) }, (first) =>
            withRelay({ env: env(1) }, (second) =>
              withRelay({ env: { ...env(2), ...cut } }, async (third) => {
                const relays = [first, second, third] as const;
                await fn({ relays, ...scene });
                await Promise.all(relays.map((relay) =>
                  relay.kill()
                ));
              })));
          const delivered = new Set(backend.requests.map(taskId));
          const names = queueNames(prefix, LADDER);
          await withAmqp(rabbit, (amqp) =>
            assertNoneLost(amqp, names, accepted, delivered));
        } finally {
          await withAmqp(rabbit, (amqp) =>
            amqp.deletePrefix(prefix, LADDER));
        }
      }))
  );
}

/** Posts `count` tasks, some to each relay. */
async function post({ relays, accepted }: Replicas, count: number): Promise<void> {
  const ids = await Promise.all(
    Array.from({ length: count }, (_, n) => (relays[n % 3] ?? relays[0]).accept(`{"n":${n}}`)),
  );
  for (const id of ids) accepted.add(id);
}

/** Asserts the limit over everything that the backend has seen. */
function keptTheLimit({ requests }: Backend): void {
  const times = requests.map(({ at }) => at);
  for (const windows of [1, 2, 3, 5]) {
    const span = windows * WINDOW_MS - SLACK_MS;
    const most = busiestWindow(times, span);
    const allowed = LIMIT * (windows + 1);
    assert.ok(most <= allowed, `${most} requests in ${span} ms`);
  }
}

/** How many requests each of the relays has made, from the request `from` on. */
function shares({ requests }: Backend, from = 0): number[] {
  return [0, 1, 2].map((n) => requests.slice(from).filter(({ url }) => url === `/${n}`).length);
}

Deno.test("three relays, 600 tasks at 10 per 1.5 s: all three send, never more than the limit together, it is used to 97 %, each task once", async () => {
  await withReplicas(async (replicas) => {
    const { backend } = replicas;
    await post(replicas, 600);
    await backend.waitFor(600, { within: 120_000 });
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

Deno.test("one of three relays loses Redis, then RabbitMQ, then all lose Redis, then one is killed (-9): the limit holds, nothing is lost, and all goes on by itself", async () => {
  await withReplicas(async (replicas) => {
    const { backend, relays: [first, , third], toRedis, toRabbit, redis } = replicas;
    const goesOn = (count: number): Promise<unknown> =>
      backend.waitFor(backend.requests.length + count, PROMPT);
    await post(replicas, 240);
    await goesOn(20);

    toRedis.refuse();
    toRedis.cut();
    await untilReadyz(third, 503, /limit.*unavailable: Redis at /);
    const whileCut = backend.requests.length;
    await goesOn(30);
    assert.equal(shares(backend, whileCut)[2], 0, "sent without Redis");
    await toRedis.accept();
    await untilReadyz(third, 200, /"limit":"ready"/);
    await untilSends(backend, 2);

    toRabbit.cut();
    await goesOn(20);
    await untilSends(backend, 2);

    await redis.kill();
    const killedAt = performance.now();
    await Promise.all(replicas.relays.map((relay) => untilReadyz(relay, 503, /unavailable/)));
    const startedAt = performance.now();
    await redis.start();
    await goesOn(20);
    const blind = backend.requests.filter(({ at }) =>
      at > killedAt + SLACK_MS && at < startedAt + WINDOW_MS - SLACK_MS
    );
    assert.equal(blind.length, 0, "sent without Redis, or within a window of its start");

    await first.kill();
    await backend.waitFor(240, PROMPT);
    await eventually(() => {
      const asked = timesAsked(backend);
      assert.ok([...replicas.accepted].every((id) => asked.has(id)));
    }, PROMPT);
    keptTheLimit(backend);
  });
});

async function untilReadyz(relay: RelayProcess, status: number, body: RegExp): Promise<void> {
  await eventually(async () => {
    const answer = await relay.get("/readyz");
    assert.equal(answer.status, status);
    assert.match(JSON.stringify(answer.json), body);
  }, { within: 20_000 });
}

/** Waits until the relay of this number sends. */
async function untilSends(backend: Backend, relay: number): Promise<void> {
  const from = backend.requests.length;
  await eventually(() => assert.ok((shares(backend, from)[relay] ?? 0) > 0), PROMPT);
}
