/**
 * The consumer put together: broker, loop, limiter, backend. What `worker.ts` runs.
 *
 * @module
 */

import { Subscriber } from "../broker/subscriber.ts";
import type { SubscriberState } from "../broker/subscriber.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { ConsumerReport } from "../consumer_report.ts";
import { openLedger } from "../ledger/open.ts";
import { maxAttempts } from "../rungs.ts";
import { Backend } from "./backend.ts";
import { effectivePrefetch } from "./hold.ts";
import { openLimit } from "./limit.ts";
import { PatientLedger } from "./patient_ledger.ts";
import { Loop } from "./loop.ts";
import { Meters } from "./meters.ts";
import { Pulse } from "./pulse.ts";
import { sweepUntil } from "./sweeper.ts";

/** The part of the configuration that the consumer is given; it can be sent to a Worker. */
export interface ConsumerConfig
  extends Omit<Config, "inbound" | "ops" | "shutdownGraceMs" | "backend"> {
  readonly backend: Omit<Config["backend"], "url"> & { readonly url: string };
}

/**
 * How much longer a claim holds than a request to the backend can take, milliseconds. Only another
 * relay waits for that; this one, started again, knows that it was killed.
 */
const LEASE_MARGIN_MS = 2_000;

/** A running consumer. */
export interface Consumer {
  /** What was counted, and how it stands now. */
  report(): Promise<ConsumerReport>;
  /** Begins nothing more until it is called with false; what is in flight ends. */
  setPaused(paused: boolean): void;
  /** Gives back what has not begun, ends what has within `graceMs`, and closes. */
  stop(graceMs: number): Promise<void>;
}

/** What the consumer is started with besides its configuration. */
export interface ConsumerContext {
  /** Whether the main queue was declared just now, by this relay. */
  readonly firstEver: boolean;
  /** Whether delivering is paused now. */
  readonly paused: boolean;
  /** The identity of this relay: see `ledger/identity.ts`. */
  readonly relay: string;
  readonly clock: Clock;
  readonly onState: (state: SubscriberState) => void;
  /** Looks whether delivering is paused at this moment; never rejects. */
  readonly look: () => Promise<boolean>;
}

/**
 * Starts to consume; connects, and connects again, by itself.
 *
 * @throws {Error} when the data directory can't be written.
 */
export function startConsumer(config: ConsumerConfig, context: ConsumerContext): Consumer {
  const { clock } = context;
  const pulse = new Pulse(clock);
  const limit = openLimit(config, { pulse, clock, firstEver: context.firstEver });
  const meters = new Meters(config.ladder);
  const backend = new Backend({
    ...config.backend,
    url: new URL(config.backend.url),
    connections: config.consumer.concurrency,
    maxAttempts: maxAttempts(config.ladder),
    clock,
  });
  const source = new Subscriber({
    rabbit: config.rabbit,
    queues: config.queues,
    ladder: config.ladder,
    prefetch: effectivePrefetch({
      ...config,
      backend: { timeoutMs: config.backend.timeoutMs },
    }),
    clock,
    onDelivery: (delivery) => loop.accept(delivery),
    onState: context.onState,
  });
  const ledger = openLedger(config, clock);
  const lease = {
    leaseMs: config.backend.timeoutMs + LEASE_MARGIN_MS,
    owner: { relay: context.relay, run: crypto.randomUUID() },
  };
  const stopping = new AbortController();
  void pulse.beat(stopping.signal, () => source.verify());
  if (ledger !== undefined) void sweepUntil(stopping.signal, ledger, clock);
  const loop = new Loop({
    route: {
      limiter: limit.limiter,
      backend,
      ...(ledger !== undefined && { ledger: new PatientLedger(ledger, lease, clock) }),
      rules: config,
      meters,
      clock,
    },
    source,
    concurrency: config.consumer.concurrency,
    look: context.look,
    takeOver: limit.takeOver,
  });
  if (context.paused) loop.setPaused(true); // before the source has connected
  return {
    setPaused: (paused) => loop.setPaused(paused),
    async report(): Promise<ConsumerReport> {
      const { delaysKnown } = source;
      const parts = { ...limit.limiter.standing(), ...loop.standing(), delaysKnown };
      return { metrics: await meters.report(), standing: { gate: limit.gate(), ...parts } };
    },
    async stop(graceMs: number): Promise<void> {
      stopping.abort();
      // At once, and not when the broker has answered: another relay may be the active one by then.
      await loop.stop(graceMs, source.stopConsuming());
      await source.close();
      await loop.settled();
      await backend.close();
      await ledger?.close();
      await limit.close();
    },
  };
}
