/**
 * The limiter and the gate that the configuration asks for: of this process, or in Redis for all
 * replicas.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { GateStanding } from "../consumer_report.ts";
import { RedisConnection } from "../redis/connection.ts";
import { GateMemory } from "./gate_memory.ts";
import { Gatekeeper } from "./gatekeeper.ts";
import { LONGEST_WAITS } from "./hold.ts";
import { Limiter } from "./limiter.ts";
import type { Delivery } from "./ports.ts";
import type { Pulse } from "./pulse.ts";
import { createRateWindow, SPAN_PER_WINDOW } from "./rate_window.ts";
import { SendLog } from "./send_log.ts";
import { SharedGate } from "./shared_gate.ts";
import { SharedLimiter } from "./shared_limiter.ts";
import { SharedWindow, VALIDITY_MS } from "./shared_window.ts";
import { earliestBegin } from "./take_over.ts";
import type { SlotSource } from "./waiting_line.ts";

const log = getLogger(["relay", "consumer"]);

/** How much longer than any request a probe may be out before another replica probes, milliseconds. */
const PROBE_MARGIN_MS = 2_000;

/** The brakes of a consumer. */
export interface Limit {
  readonly limiter: SlotSource;
  /** How the gate stands. */
  gate(): GateStanding;
  /** Called with the first delivery of each subscription, before anything of it is begun. */
  takeOver(first: Delivery): void;
  close(): Promise<void>;
}

/** What the limit reads of the configuration. */
export interface LimitConfig
  extends Pick<Config, "limit" | "breakerFailures" | "queues" | "dataDir" | "redisUrl"> {
  readonly backend: Pick<Config["backend"], "timeoutMs" | "retryAfterMaxMs">;
}

/** What surrounds the limit. */
interface Surroundings {
  readonly pulse: Pick<Pulse, "steady">;
  readonly clock: Clock;
  /** Whether the main queue was declared just now, by this relay. */
  readonly firstEver: boolean;
}

/**
 * The limiter with its gate.
 *
 * @throws {Error} when it is this process' own and the data directory can't be written.
 */
export function openLimit(config: LimitConfig, surroundings: Surroundings): Limit {
  const { redisUrl } = config;
  if (redisUrl === undefined) return openOwn(config, surroundings);
  return openShared(config, redisUrl, surroundings);
}

/** What was sent before, by whomever, Redis knows: nothing is taken over. */
function openShared(config: LimitConfig, url: string, { pulse, clock }: Surroundings): Limit {
  const { limit, breakerFailures, backend: { timeoutMs, retryAfterMaxMs }, queues } = config;
  const connection = new RedisConnection(url, clock);
  const shared = { prefix: queues.prefix, limit, keepMs: retryAfterMaxMs };
  const window = new SharedWindow(connection, shared);
  const probeMs = VALIDITY_MS + timeoutMs + PROBE_MARGIN_MS;
  const gate = new SharedGate({ limit, breakerFailures, probeMs }, clock);
  const limiter = new SharedLimiter({ window, gate, pulse, longest: LONGEST_WAITS, clock }, limit);
  return {
    limiter,
    gate: () => gate.standing(),
    takeOver: () => {},
    async close(): Promise<void> {
      await limiter.close();
      await connection.close();
    },
  };
}

function openOwn(config: LimitConfig, { pulse, clock, firstEver }: Surroundings): Limit {
  const { limit, dataDir, queues: { prefix }, backend: { retryAfterMaxMs } } = config;
  const sends = new SendLog(dataDir, `${prefix}.sends`, limit.maxRequests);
  const memory = new GateMemory(dataDir, `${prefix}.gate`);
  const gate = new Gatekeeper({ rules: config, retryAfterMaxMs, memory, clock });
  const window = createRateWindow(limit, [], clock.monotonic());
  const limiter = new Limiter({ window, gate, sends, pulse, longest: LONGEST_WAITS, clock });
  return {
    limiter,
    gate: () => gate.standing(),
    takeOver: takeOverWith(limit, { limiter, sends, clock, firstEver }),
    close(): Promise<void> {
      sends.close();
      memory.close();
      return Promise.resolve();
    },
  };
}

/** Tells the limiter at the start of each subscription what was sent before it. */
function takeOverWith(
  limit: Config["limit"],
  { limiter, sends, clock, firstEver }: {
    readonly limiter: Limiter;
    readonly sends: SendLog;
    readonly clock: Clock;
    readonly firstEver: boolean;
  },
): (first: Delivery) => void {
  let first = firstEver;
  return ({ subscription, deliveriesBefore }) => {
    const now = clock.monotonic();
    const wallToMonotonic = now - clock.now();
    const begun = sends.load().map((at) => Math.min(now, at + wallToMonotonic));
    const notBefore = earliestBegin({
      now,
      spanMs: limit.windowMs * SPAN_PER_WINDOW,
      sends: begun,
      firstEver: first,
      followsAnother: subscription.followsAnother,
      redelivered: deliveriesBefore > 0,
    });
    first = false;
    const waits_ms = Math.max(0, Math.round(notBefore - now));
    log.info("first delivery of a subscription", { waits_ms });
    limiter.takeOver(createRateWindow(limit, begun, now), notBefore);
  };
}
