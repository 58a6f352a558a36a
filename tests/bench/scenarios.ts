/**
 * What is measured: each scenario runs a relay as its users do and gives tasks a second.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Agent, request } from "undici";
import { type TestAmqp, withAmqp } from "../support/amqp.ts";
import { type Backend, withBackend } from "../support/backend.ts";
import { type RabbitAddress, uniquePrefix } from "../support/environment.ts";
import { type RelayOptions, type RelayProcess, withRelay } from "../support/relay.ts";

/** The environment of a scenario; what it doesn't name has the product's default. */
export type Env = Readonly<Record<string, string>>;

const JSON_TYPE = { "content-type": "application/json" };

/** A payload of 400 bytes. */
const PAYLOAD = JSON.stringify({ text: "x".repeat(389) });

/** No task reaches the backend meanwhile: what is measured is accepting. */
const INGEST_ONLY: Env = { RATE_LIMIT_MAX_REQUESTS: "1", RATE_LIMIT_WINDOW_SEC: "3600" };

/** As fast as relay and backend can. */
const NO_LIMIT: Env = {
  RATE_LIMIT_MAX_REQUESTS: "1000000",
  RATE_LIMIT_WINDOW_SEC: "1",
  PREFETCH_COUNT: "200",
  CONCURRENCY: "100",
};

/** Tasks accepted a second when `connections` clients post one after another for `seconds`. */
export async function acceptSingles(
  rabbit: RabbitAddress,
  { env, connections, seconds }: { env: Env; connections: number; seconds: number },
): Promise<number> {
  return await withRelay(options(rabbit, { ...INGEST_ONLY, ...env }), async (relay) => {
    return await post(relay, {
      connections,
      seconds,
      path: "/queue/tasks",
      body: PAYLOAD,
      tasks: 1,
    });
  });
}

/** Tasks accepted a second when the same clients post batches of `tasks`. */
export async function acceptBatches(
  rabbit: RabbitAddress,
  { env, connections, seconds, tasks }: {
    env: Env;
    connections: number;
    seconds: number;
    tasks: number;
  },
): Promise<number> {
  const body = `[${Array.from({ length: tasks }, () => PAYLOAD).join(",")}]`;
  return await withRelay(options(rabbit, { ...INGEST_ONLY, ...env }), async (relay) => {
    return await post(relay, { connections, seconds, path: "/queue/tasks/batch", body, tasks });
  });
}

/** Tasks delivered a second, of `count` that wait in the broker when the relay starts. */
export async function deliverBacklog(
  rabbit: RabbitAddress,
  { env, count }: { env: Env; count: number },
): Promise<number> {
  return await withBacklog(rabbit, { env, count }, async (_, backend) => {
    await backend.waitFor(count, { within: 120_000 });
    const [first, last] = [backend.requests.at(0), backend.requests.at(count - 1)];
    return (count - 1) / (((last?.at ?? NaN) - (first?.at ?? NaN)) / 1000);
  });
}

/**
 * What a scrape a second leaves of the throughput of a relay that delivers a backlog: for each four
 * seconds the tasks of those with a scrape over those of the others. Within one relay, as two runs
 * differ by more than what is asked for; of neighbours, as others use the machine; and in the order
 * of {@link TURNS}, as a relay gets faster all the while, which must favour neither.
 */
export async function shareWhenScraped(
  rabbit: RabbitAddress,
  { env, count }: { env: Env; count: number },
): Promise<readonly number[]> {
  const all = { env: { ...env, OPS_PORT: "0" }, count };
  return await withBacklog(rabbit, all, async (relay, backend) => {
    const shares: number[] = [];
    await backend.waitFor(count / 5);
    while (backend.requests.length < count) {
      const rates = { scraped: 0, unscraped: 0 };
      for (const scraped of TURNS) {
        const [began, before] = [performance.now(), backend.requests.length];
        const over = new Promise((resolve) => setTimeout(resolve, 1_000));
        if (scraped) await scrape(`${relay.opsUrl}/metrics`);
        await over;
        const rate = (backend.requests.length - before) / (performance.now() - began);
        rates[scraped ? "scraped" : "unscraped"] += rate;
      }
      // In the last one there may have been nothing left to deliver.
      if (backend.requests.length < count) shares.push(rates.scraped / rates.unscraped);
    }
    return shares;
  });
}

/** Whether `/metrics` is asked for in each second of four. */
const TURNS: readonly boolean[] = [false, true, true, false];

/** Asks as Prometheus would. */
async function scrape(url: string): Promise<void> {
  const { statusCode, body } = await request(url);
  assert.match(await body.text(), /^queue_relay_in_flight /m);
  assert.equal(statusCode, 200);
}

/** Runs `fn` with a relay that finds `count` tasks in the broker when it starts. */
async function withBacklog<T>(
  rabbit: RabbitAddress,
  { env, count }: { env: Env; count: number },
  fn: (relay: RelayProcess, backend: Backend) => Promise<T>,
): Promise<T> {
  const prefix = uniquePrefix();
  return await withAmqp(rabbit, async (amqp) => {
    try {
      await withRelay(options(rabbit, { ...INGEST_ONLY, QUEUE_PREFIX: prefix }), async (relay) => {
        await relay.stop(); // it has declared the queues
      });
      await fill(amqp, `${prefix}.main`, count);
      return await withBackend(async (backend) => {
        const all = { ...NO_LIMIT, ...env, QUEUE_PREFIX: prefix, BACKEND_BASE_URL: backend.url };
        return await withRelay(options(rabbit, all), (relay) => fn(relay, backend));
      });
    } finally {
      await amqp.deletePrefix(prefix);
    }
  });
}

/** Publishes as ingest would, 500 at a time. */
async function fill(amqp: TestAmqp, queue: string, count: number): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const batch = Array.from(
      { length: Math.min(500, count - done) },
      () =>
        amqp.publishRaw(queue, PAYLOAD, {
          messageId: crypto.randomUUID(),
          contentType: "application/json",
          headers: { "relay-attempt": 1, "relay-enqueued-at": Date.now() },
        }),
    );
    await Promise.all(batch);
  }
}

function options(rabbit: RabbitAddress, env: Env): RelayOptions {
  return { rabbit, env };
}

async function post(
  relay: RelayProcess,
  load: { connections: number; seconds: number; path: string; body: string; tasks: number },
): Promise<number> {
  const agent = new Agent({ connections: load.connections });
  const began = performance.now();
  const until = began + load.seconds * 1000;
  let accepted = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < until) {
      const answer = await request(relay.url + load.path, {
        method: "POST",
        headers: JSON_TYPE,
        body: load.body,
        dispatcher: agent,
      });
      await answer.body.dump();
      if (answer.statusCode === 202) accepted += load.tasks;
    }
  };
  await Promise.all(Array.from({ length: load.connections }, client));
  const seconds = (performance.now() - began) / 1000;
  await agent.destroy();
  return accepted / seconds;
}
