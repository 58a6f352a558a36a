/**
 * A monitor between a consumer, a broker and parts that say what a test wants.
 *
 * @module
 */

import { loadConfig } from "../../src/config.ts";
import type { ConsumerReport, ConsumerStanding } from "../../src/consumer_report.ts";
import { Monitor } from "../../src/ops/monitor.ts";
import { IDLE } from "../../src/ops/standing.ts";
import type { Stats, StatsSample } from "../../src/ops/stats.ts";
import { FakeClock, settled } from "./fake_clock.ts";
import { aMetric, valueIn } from "./metrics.ts";

/** A relay around a monitor; a test changes what its parts say. */
export class MonitorBench {
  readonly clock = new FakeClock();
  readonly samples: StatsSample[] = [];
  /** How often the broker and the consumer were asked. */
  asked = { depths: 0, consumer: 0 };
  depths: ReadonlyMap<string, number> | undefined = new Map([
    ["tasks.main", 40],
    ["tasks.retry.3s", 8],
    ["tasks.delay.4s", 2],
    ["tasks.delay.8s", 0],
    ["tasks.failed", 5],
  ]);
  /** What the broker waits for. */
  slow: Promise<void> = Promise.resolve();
  standing: Partial<ConsumerStanding> = {};
  delivered = 0;
  generation = 1;
  state = "consuming";
  answers = true;
  paused = false;
  readonly monitor: Monitor;

  constructor() {
    const env = {
      RETRY_LADDER: "1x0s,1x3s",
      RATE_LIMIT_MAX_REQUESTS: "10",
      RATE_LIMIT_WINDOW_SEC: "2",
    };
    this.monitor = new Monitor({
      config: loadConfig(env, () => ""),
      version: "1.2.3",
      consumer: () => ({
        state: this.state,
        generation: this.generation,
        report: () => this.#report(),
      }),
      depths: {
        read: () => {
          this.asked.depths++;
          return this.slow.then(() => this.depths);
        },
      },
      own: () => Promise.resolve([aMetric("tasks_accepted_total", [[50, {}]])]),
      parts: () => ({
        consumer: this.state,
        publisher: "connected",
        broker: "connected",
        ledger: "ready",
      }),
      paused: () => this.paused,
      clock: this.clock,
    });
    this.monitor.onSample = (sample) => this.samples.push(sample);
  }

  /** The stats, a second later. */
  async stats(): Promise<Stats> {
    await this.clock.advance(1_000);
    return (await this.monitor.view()).stats;
  }

  /** The value of a series, a second later. */
  async metric(series: string): Promise<number | undefined> {
    await this.clock.advance(1_000);
    return valueIn(await (await this.monitor.view()).metrics(), series);
  }

  #report(): Promise<ConsumerReport | undefined> {
    this.asked.consumer++;
    if (!this.answers) return Promise.resolve(undefined);
    return Promise.resolve({
      metrics: [aMetric("dispositions_total", [[this.delivered, { disposition: "delivered" }]])],
      standing: { ...IDLE, ...this.standing },
    });
  }
}

/** Runs `fn` with a monitor that has looked once, and stops it. */
export async function withMonitor(
  fn: (bench: MonitorBench) => Promise<void>,
): Promise<void> {
  const bench = new MonitorBench();
  await settled();
  try {
    await fn(bench);
  } finally {
    bench.monitor.stop();
    await bench.clock.advance(5_000);
  }
}
