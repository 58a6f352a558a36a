/**
 * A running relay: ingest, its publisher, operators' HTTP and the consumer's host, started and closed
 * in order.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import { QueueDepths } from "./broker/depths.ts";
import { FailedQueue } from "./broker/failed_queue.ts";
import { PauseSwitch } from "./broker/pause_switch.ts";
import { BrokerTaskPublisher } from "./broker/task_publisher.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import type { ConsumerConfig } from "./consumer/consumer.ts";
import { ConsumerHost } from "./consumer/host.ts";
import { prepareDataDir } from "./data_dir.ts";
import { createIngest } from "./ingest/app.ts";
import type { Health } from "./ingest/ports.ts";
import { startIngest } from "./ingest/server.ts";
import { takeIdentity } from "./ledger/identity.ts";
import { openLedger } from "./ledger/open.ts";
import { watchRedis } from "./redis/watch.ts";
import { watchLedger } from "./ledger/watch.ts";
import { Intake } from "./ops/intake.ts";
import { Monitor, type MonitorOptions } from "./ops/monitor.ts";
import { startOps } from "./ops/server.ts";
import { mainQueue } from "./queue_names.ts";
import { maxAttempts } from "./rungs.ts";

const log = getLogger(["relay"]);

/** Of the grace, what requests in flight may take; the rest is for closing connections. */
const SHARE_FOR_REQUESTS = 0.9;

type Parts = ReturnType<MonitorOptions["parts"]>;

/** A relay that answers clients. */
export interface Relay {
  /** Rejects when the relay must not go on: a queue exists with other arguments. */
  readonly failed: Promise<never>;
  /** Ingest and operators' HTTP, then the consumer and what is in flight, then the connections; bounded. */
  close(): Promise<void>;
}

/**
 * Starts a relay. It connects by itself, as often as it takes.
 *
 * @throws {Error} when the clients' or operators' address can't be listened on, or DATA_DIR not be written.
 */
export function startRelay(config: Config, version: string, clock: Clock): Relay {
  prepareDataDir(config.dataDir);
  const identity = takeIdentity(config.dataDir, config.queues.prefix);
  const publisher = new BrokerTaskPublisher({ ...config, clock });
  const ledger = openLedger(config, clock);
  const watch = watchLedger(ledger, clock);
  const redis = config.redisUrl === undefined ? undefined : watchRedis(config.redisUrl, clock);
  let consumer: ConsumerHost | undefined;
  let depths: QueueDepths | undefined;
  let closing = false;
  const pause = new PauseSwitch({
    ...config,
    clock,
    onChange: (paused) => {
      consumer?.setPaused(paused);
      monitor?.forget();
    },
  });
  const consumerState = (): string => {
    const state = consumer?.state ?? "starting";
    return state === "suspended" && pause.paused ? "paused" : state;
  };
  const health = (): Health & { readonly parts: Parts } => {
    const { ready, state } = publisher.health;
    const broker = state === "disconnected" ? state : "connected";
    const parts = {
      publisher: state,
      consumer: consumerState(),
      broker,
      ledger: watch.state,
      ...(redis && { limit: redis.state }),
    };
    return { ready: ready && redis?.isReady !== false, parts };
  };
  const intake = new Intake();
  const ingest = createIngest({
    ...config.inbound,
    publisher,
    ledger,
    meter: intake,
    health,
    maxAttempts: maxAttempts(config.ladder),
  });
  const server = startIngest({ ...config.inbound, ingest });
  log.info("ingest listening", { host: server.host, port: server.port });
  const monitor = config.ops && new Monitor({
    config,
    version,
    consumer: () => consumer,
    depths: { read: async () => await depths?.read() },
    own: () => intake.report(),
    parts: () => health().parts,
    paused: () => pause.paused,
    clock,
  });
  const failedTasks = new FailedQueue({ ...config, clock });
  const ops = config.ops && monitor &&
    startOps({ ...config.ops, monitor, pause, queue: failedTasks, main: publisher, ledger, clock });
  if (ops) log.info("operators listening", { host: ops.host, port: ops.port });

  const started = publisher.declared.then(async (declared) => {
    await pause.known;
    if (declared.length > 0) log.info("queues declared", { queues: declared });
    const firstEver = declared.includes(mainQueue(config.queues.prefix));
    const { relay } = identity;
    const { paused } = pause;
    const look = (): Promise<boolean> => pause.look();
    const context = { relay, firstEver, paused, look, clock };
    if (closing) return;
    consumer = new ConsumerHost({ config: consumerConfig(config), ...context });
    if (paused) log.warning("delivering is paused, as an operator wanted; POST /resume ends it");
    const delaysKnown = (): boolean => publisher.delaysKnown || monitor?.delaysKnown === true;
    if (monitor) depths = new QueueDepths({ ...config, delaysKnown, clock });
    log.info("ready");
  });

  return {
    failed: started.then(() => new Promise<never>(() => {})),
    async close(): Promise<void> {
      closing = true;
      const deadline = clock.monotonic() + config.shutdownGraceMs * SHARE_FOR_REQUESTS;
      const left = (): number => Math.max(0, deadline - clock.monotonic());
      monitor?.stop();
      await Promise.all([server.close(left()), ops?.close(left())]);
      await Promise.all([failedTasks.close(), depths?.close(), pause.close()]);
      await consumer?.stop(left());
      await publisher.close();
      watch.stop();
      await ledger?.close();
      await redis?.close();
      identity.release();
    },
  };
}

/** What the Worker is told: no more than it needs, and no secret of ingest's or of operators'. */
function consumerConfig(config: Config): ConsumerConfig {
  const { inbound: _, ops: __, shutdownGraceMs: ___, ...shared } = config;
  const backend = { ...config.backend, url: config.backend.url.href };
  return { ...shared, backend };
}
