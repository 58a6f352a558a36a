/**
 * `--check`: connects, looks at every queue and at Redis, says what it found, changes nothing.
 *
 * @module
 */

import { openLink } from "./broker/link.ts";
import { isPaused } from "./broker/pause_switch.ts";
import { inspectQueues, queueSpecs } from "./broker/topology.ts";
import type { Finding } from "./broker/topology.ts";
import { systemClock } from "./clock.ts";
import type { Config } from "./config.ts";
import { messageOf } from "./errors.ts";
import { RedisConnection } from "./redis/connection.ts";

const PAUSED = "Delivering is paused, as an operator wanted: `queue-relay resume` ends it.";

/** What the check has to say, and whether a relay could start. */
export interface CheckReport {
  readonly ok: boolean;
  readonly lines: readonly string[];
}

/** What the check looks at. */
export type CheckedConfig = Pick<Config, "rabbit" | "queues" | "ladder" | "redisUrl">;

/** Looks at the broker and the Redis that `config` names. Never rejects. */
export async function runCheck(config: CheckedConfig): Promise<CheckReport> {
  const broker = await checkBroker(config);
  if (config.redisUrl === undefined) return broker;
  const redis = await checkRedis(config.redisUrl);
  return { ok: broker.ok && redis.ok, lines: [...redis.lines, ...broker.lines] };
}

async function checkRedis(url: string): Promise<CheckReport> {
  const connection = new RedisConnection(url, systemClock);
  try {
    const info = await connection.run((client) => client.info("server"));
    const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? "";
    return { ok: true, lines: [`Redis ${version}: connected`] };
  } catch (error) {
    return { ok: false, lines: [messageOf(error), "Without Redis a relay sends nothing."] };
  } finally {
    await connection.close();
  }
}

async function checkBroker(
  { rabbit, queues, ladder }: CheckedConfig,
): Promise<CheckReport> {
  const place = `${rabbit.host} port ${rabbit.port}, virtual host ${rabbit.vhost}`;
  try {
    const link = await openLink(rabbit, "queue-relay check");
    const findings = await inspectQueues(link, queueSpecs(queues, ladder));
    const paused = await isPaused(link, queues);
    const { product, version } = link.model.connection.serverProperties;
    await link.close();
    const { ok, lines } = describe(`${product} ${version} at ${place}: connected`, findings);
    return { ok, lines: paused ? [...lines, PAUSED] : lines };
  } catch (error) {
    const lines = [`RabbitMQ at ${place}: ${messageOf(error)}`, "Check RABBIT_HOST and the rest."];
    return { ok: false, lines };
  }
}

function describe(broker: string, findings: readonly Finding[]): CheckReport {
  const width = Math.max(...findings.map(({ queue }) => queue.length));
  const lines = findings.map((finding) => `${finding.queue.padEnd(width)}  ${stateOf(finding)}`);
  const ok = findings.every(({ state }) => state !== "different");
  const verdict = ok ? "A relay can start." : "A relay would refuse to start.";
  return { ok, lines: [broker, ...lines, verdict] };
}

function stateOf(finding: Finding): string {
  switch (finding.state) {
    case "ready":
      return `ready, ${finding.messages} waiting`;
    case "missing":
      return "missing; will be declared at the start";
    case "different":
      return `DIFFERENT: ${finding.difference}`;
  }
}
