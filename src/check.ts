/**
 * `--check`: connects, looks at every queue, says what it found, changes nothing.
 *
 * @module
 */

import { openLink } from "./broker/link.ts";
import { inspectQueues, queueSpecs } from "./broker/topology.ts";
import type { Finding } from "./broker/topology.ts";
import type { Config } from "./config.ts";
import { messageOf } from "./errors.ts";

/** What the check has to say, and whether a relay could start. */
export interface CheckReport {
  readonly ok: boolean;
  readonly lines: readonly string[];
}

/** Looks at the broker that `config` names. Never rejects. */
export async function checkBroker(
  { rabbit, queues, ladder }: Pick<Config, "rabbit" | "queues" | "ladder">,
): Promise<CheckReport> {
  const place = `${rabbit.host} port ${rabbit.port}, virtual host ${rabbit.vhost}`;
  try {
    const link = await openLink(rabbit, "queue-relay check");
    const findings = await inspectQueues(link, queueSpecs(queues, ladder));
    const { product, version } = link.model.connection.serverProperties;
    await link.close();
    return describe(`${product} ${version} at ${place}: connected`, findings);
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
