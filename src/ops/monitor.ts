/**
 * Looks at the relay for operators: asks the consumer and the broker, at most once a second however
 * many ask, and every five seconds for the history.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { ConsumerStanding } from "../consumer_report.ts";
import type { MetricReport } from "../metric_report.ts";
import { type Counts, countsOf } from "./counts.ts";
import { drainSeconds } from "./drain.ts";
import { gaugesOf } from "./gauges.ts";
import { History, STEP_SECONDS } from "./history.ts";
import type { ConsumerSide, Depths } from "./ports.ts";
import { describeQueues, messagesIn } from "./queues.ts";
import { IDLE, isActive, oldestDueSince } from "./standing.ts";
import type { Stats, StatsSample } from "./stats.ts";
import { exposition, Tally } from "./tally.ts";

const log = getLogger(["relay", "ops"]);

/** What was seen is told again for so long, milliseconds. */
const FRESH_MS = 1_000;

/** What is looked at. */
export interface MonitorOptions {
  readonly config: Pick<Config, "queues" | "ladder" | "limit" | "consumer">;
  readonly version: string;
  /** Undefined until there is one. */
  readonly consumer: () => ConsumerSide | undefined;
  readonly depths: Depths;
  /** The metrics of the main thread. */
  readonly own: () => Promise<readonly MetricReport[]>;
  /** The parts of the relay as `/readyz` names them. */
  readonly parts: () => Omit<Stats["replica"], "active">;
  readonly paused: () => boolean;
  readonly clock: Clock;
}

/** What is seen at a moment. */
export interface View {
  readonly stats: Stats;
  /** The text that Prometheus reads; made when it is asked for. */
  readonly metrics: () => Promise<string>;
}

/** A look, and what only the history needs of it. */
interface Look extends View {
  readonly at: number;
  readonly counts: Counts;
  readonly waiting: number | null;
  readonly hasBacklog: boolean;
}

/** Looks at the relay until it is stopped; begins when it is made. */
export class Monitor {
  readonly #options: MonitorOptions;
  readonly #startedAt: number;
  readonly #tally = new Tally();
  readonly #stopping = new AbortController();
  #history: History | undefined;
  #standing: ConsumerStanding = IDLE;
  #look: Promise<Look> | undefined;
  #lookedAt = -Infinity;
  #isLooking = false;

  /** Called with each sample of the history. */
  onSample: (sample: StatsSample) => void = () => {};

  constructor(options: MonitorOptions) {
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
    void this.#remember();
  }

  /** Whether the consumer knows that the queues of the delay levels exist. */
  get delaysKnown(): boolean {
    return this.#standing.delaysKnown;
  }

  /** What is seen now, or was within the last second. */
  view(): Promise<View> {
    return this.#current();
  }

  /** What is told next is seen anew: something has just changed. */
  forget(): void {
    this.#lookedAt = -Infinity;
  }

  /** Looks no more for the history. */
  stop(): void {
    this.#stopping.abort();
  }

  async #remember(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // What fails here is a bug, and no task is to suffer from it.
      await this.#current().then((look) => this.#add(look))
        .catch((error) => log.error("the relay could not be looked at", { error }));
      await clock.sleep(STEP_SECONDS * 1000, signal);
    }
  }

  #add(look: Look): void {
    if (this.#history === undefined) this.#history = new History(look);
    else this.onSample(this.#history.add(look));
  }

  #current(): Promise<Look> {
    const now = this.#options.clock.monotonic();
    // One look at a time: a consumer or a broker that is slow would have ever more to answer.
    if (this.#look === undefined || (!this.#isLooking && now - this.#lookedAt >= FRESH_MS)) {
      this.#lookedAt = now;
      this.#isLooking = true;
      this.#look = this.#lookNow().finally(() => this.#isLooking = false);
    }
    return this.#look;
  }

  async #lookNow(): Promise<Look> {
    const { consumer, depths, own, config } = this.#options;
    const side = consumer();
    const [report, messages] = await Promise.all([side?.report(), depths.read()]);
    if (side !== undefined && report !== undefined) {
      await this.#tally.take(side.generation, report.metrics);
    }
    if (report !== undefined || !isAlive(side)) this.#standing = report?.standing ?? IDLE;
    const metrics = await this.#tally.with(await own());
    const counts = countsOf(metrics);
    const queues = describeQueues(config, messages);
    const at = this.#options.clock.now();
    const { stats, drain } = this.#describe({ at, counts, queues });
    return {
      stats,
      metrics: () => exposition([...metrics, ...gaugesOf(stats, drain)]),
      at,
      counts,
      waiting: messagesIn(queues, "main", "retry"),
      hasBacklog: isFree(stats) && (messagesIn(queues, "main") ?? 0) > 0,
    };
  }

  #describe(
    { at, counts, queues }: Pick<Look, "at" | "counts"> & { readonly queues: Stats["queues"] },
  ): { readonly stats: Stats; readonly drain: number | undefined } {
    const { config, version, paused, clock, parts } = this.#options;
    const { limit, consumer } = config;
    const standing = this.#standing;
    const { gate, held } = standing;
    const replica = parts();
    const waiting = messagesIn(queues, "main", "retry");
    const drain = drainSeconds({
      waiting: waiting === null ? undefined : waiting + held,
      limitPerSecond: limit.maxRequests * 1000 / limit.windowMs,
      // Of fewer windows than that the rate is one of chance.
      busyPerSecond: this.#history?.busyPerSecond(3 * limit.windowMs / 1000),
      paused: paused(),
      gate,
      now: at,
    });
    const dueSince = oldestDueSince(standing, messagesIn(queues, "main", "delay"));
    const { accepted, rejected, delivered, retried, failed, duplicate, cancelled } = counts;
    const stats: Stats = {
      at: new Date(at).toISOString(),
      version,
      queuePrefix: config.queues.prefix,
      uptimeSeconds: Math.round((clock.monotonic() - this.#startedAt) / 1000),
      paused: paused(),
      replica: { active: isActive(replica.consumer), ...replica },
      gate: { ...gate, until: gate.until === null ? null : new Date(gate.until).toISOString() },
      limit: {
        algorithm: limit.algorithm,
        maxRequests: limit.maxRequests,
        windowSeconds: limit.windowMs / 1000,
        used: standing.used,
      },
      inFlight: standing.inFlight,
      concurrency: consumer.concurrency,
      queues,
      oldestDueSeconds: dueSince === null ? null : inSeconds(at - dueSince),
      drainSeconds: drain === undefined || drain === Infinity ? null : inSeconds(drain * 1000),
      totals: { accepted, rejected, delivered, retried, failed, duplicate, cancelled },
      history: { stepSeconds: STEP_SECONDS, samples: this.#history?.samples ?? [] },
    };
    return { stats, drain };
  }
}

function isAlive(side: ConsumerSide | undefined): boolean {
  return side !== undefined && side.state !== "restarting" && side.state !== "stopped";
}

/** Whether nothing but limit and backend slows it. */
function isFree({ replica, gate, paused }: Stats): boolean {
  return replica.consumer === "consuming" && gate.reason === null && !paused;
}

/** With a tenth, as nobody reads more out of it. */
function inSeconds(ms: number): number {
  return Math.max(0, Math.round(ms / 100) / 10);
}
