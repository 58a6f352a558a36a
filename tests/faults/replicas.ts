/**
 * Three relays that all consume and share one limit in Redis: the backend sees one limit.
 *
 * "Never more than the limit" is judged as in `failover_test.ts`: over a little less than whole windows
 * ({@link SLACK_MS}), as arrivals are late by chance on a busy machine; a replica with a limit of its
 * own would bring twice as many.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "../support/amqp.ts";
import { busiestWindow } from "../support/arrivals.ts";
import { type Backend, withBackend } from "../support/backend.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { queueNames } from "../support/queues.ts";
import { type Redis, startRedis } from "../support/redis.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import { type TcpRelay, withTcpRelay } from "../support/tcp_relay.ts";
import { assertNoneLost, LADDER, taskId } from "./scene.ts";

/** Requests per window. */
export const LIMIT = 10;
/** Milliseconds. */
export const WINDOW_MS = 1_500;
/** Arrivals may be late by this, ms. */
export const SLACK_MS = 500;

/** Three relays that all consume; the third is behind networks of its own. */
export interface Replicas {
  /** The last one's networks are `toRedis` and `toRabbit`. */
  readonly relays: readonly [RelayProcess, RelayProcess, RelayProcess];
  readonly toRedis: TcpRelay;
  readonly toRabbit: TcpRelay;
  readonly redis: Redis;
  readonly backend: Backend;
  readonly accepted: Set<string>;
}

/** Runs `fn` with three relays on the same queues and the same Redis, and counts in the end. */
export async function withReplicas(fn: (replicas: Replicas) => Promise<void>): Promise<void> {
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

/** Posts `count` tasks, some to each of the relays. */
export async function post(
  { relays, accepted }: Pick<Replicas, "accepted"> & { readonly relays: readonly RelayProcess[] },
  count: number,
): Promise<void> {
  const posts = Array.from(
    { length: count },
    (_, n) => relays[n % relays.length]?.accept(`{"n":${n}}`),
  );
  const ids = (await Promise.all(posts)).filter((id) => id !== undefined);
  for (const id of ids) accepted.add(id);
}

/** Asserts the limit over everything that the backend has seen. */
export function keptTheLimit({ requests }: Backend): void {
  const times = requests.map(({ at }) => at);
  for (const windows of [1, 2, 3, 5]) {
    const span = windows * WINDOW_MS - SLACK_MS;
    const most = busiestWindow(times, span);
    const allowed = LIMIT * (windows + 1);
    assert.ok(most <= allowed, `${most} requests in ${span} ms`);
  }
}

/** How many requests each of the relays has made, from the request `from` on. */
export function shares({ requests }: Backend, from = 0): number[] {
  return [0, 1, 2].map((n) => requests.slice(from).filter(({ url }) => url === `/${n}`).length);
}
