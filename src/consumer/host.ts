/**
 * The consumer seen from the main thread: a Worker that is started, watched, started again when it
 * dies, and stopped. Its death is not ingest's: clients are answered all the while.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { SubscriberState } from "../broker/subscriber.ts";
import type { Clock } from "../clock.ts";
import type { ConsumerReport } from "../consumer_report.ts";
import type { ConsumerConfig } from "./consumer.ts";
import type { FromWorker, ToWorker } from "./messages.ts";
import { workerPermissions } from "./permissions.ts";

const log = getLogger(["relay", "consumer"]);

/** Pauses before a dead Worker is started again: doubling, milliseconds. */
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 15_000;

/** A Worker that lived this long did not die of its start, milliseconds. */
const HEALTHY_AFTER_MS = 30_000;

/** How long after the grace a Worker may take to close its connections, milliseconds. */
const CLOSE_ALLOWANCE_MS = 5_000;

/** A report that comes later than this is for the next who asks, milliseconds. */
const REPORT_DEADLINE_MS = 1_000;

/** What the host is given. */
export interface HostOptions {
  readonly config: ConsumerConfig;
  /** The identity of this relay, the same for one Worker after the other. */
  readonly relay: string;
  /** Whether the main queue was declared just now, by this relay. */
  readonly firstEver: boolean;
  /** Whether delivering is paused now. */
  readonly paused: boolean;
  /** Looks whether it is at this moment; never rejects. */
  readonly look: () => Promise<boolean>;
  readonly clock: Clock;
  /** Makes the Worker; a test makes one that dies. */
  readonly createWorker?: (permissions: Deno.PermissionOptionsObject) => Worker;
}

/** The consumer as the main thread knows it. */
export class ConsumerHost {
  readonly #options: HostOptions;
  readonly #stopping = new AbortController();
  #worker: Worker | undefined;
  #state: SubscriberState | "restarting" | "stopped" = "connecting";
  #deaths = 0;
  #startedAt = 0;
  #generation = 0;
  #paused: boolean;
  #stopped: (() => void) | undefined;
  #reporting: PromiseWithResolvers<ConsumerReport | undefined> | undefined;

  /** Starts the Worker. */
  constructor(options: HostOptions) {
    this.#options = options;
    this.#paused = options.paused;
    this.#start(options.firstEver);
  }

  /** How the consumer stands, for `/readyz`. */
  get state(): string {
    return this.#state;
  }

  /** Which Worker this is: 1 is the first, and each one that died is followed by the next. */
  get generation(): number {
    return this.#generation;
  }

  /** Asks the Worker for its report; undefined when there is none, or none in time. */
  async report(): Promise<ConsumerReport | undefined> {
    const worker = this.#worker;
    if (worker === undefined) return undefined;
    if (this.#reporting === undefined) {
      this.#reporting = Promise.withResolvers();
      this.#tell(worker, { type: "report" });
    }
    const { promise } = this.#reporting;
    const over = new AbortController();
    const late = this.#options.clock.sleep(REPORT_DEADLINE_MS, over.signal).then(() => undefined);
    const report = await Promise.race([promise, late]);
    over.abort();
    return report;
  }

  /** Begins nothing more until it is called with false; what is in flight ends. */
  setPaused(paused: boolean): void {
    this.#paused = paused;
    if (this.#worker !== undefined) this.#tell(this.#worker, { type: "pause", paused });
  }

  /** Lets requests in flight end within `graceMs` and ends the Worker; bounded. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    const worker = this.#worker;
    if (worker !== undefined) {
      const over = new AbortController();
      const stopped = new Promise<void>((resolve) => this.#stopped = resolve);
      this.#tell(worker, { type: "stop", graceMs });
      const late = this.#options.clock.sleep(graceMs + CLOSE_ALLOWANCE_MS, over.signal);
      await Promise.race([stopped, late]);
      over.abort();
      worker.terminate();
    }
    this.#state = "stopped";
  }

  #start(firstEver: boolean): void {
    const { config, relay, createWorker = createConsumerWorker, clock } = this.#options;
    const worker = createWorker(workerPermissions(config));
    this.#worker = worker;
    this.#generation++;
    this.#startedAt = clock.monotonic();
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (worker === this.#worker) this.#hear(data); // else it is dead, and what it said is old
    };
    worker.onerror = (event) => {
      event.preventDefault(); // or it would end the process
      this.#restart(worker, event.message);
    };
    this.#tell(worker, { type: "start", config, relay, firstEver, paused: this.#paused });
  }

  #tell(worker: Worker, message: ToWorker): void {
    worker.postMessage(message);
  }

  #hear(message: FromWorker): void {
    switch (message.type) {
      case "stopped":
        return this.#stopped?.();
      case "report":
        return this.#endReporting(message.report);
      case "look":
        return void this.#look();
      case "state":
        this.#state = message.state;
    }
  }

  async #look(): Promise<void> {
    const worker = this.#worker;
    this.#paused = await this.#options.look();
    if (worker !== undefined) this.#tell(worker, { type: "looked", paused: this.#paused });
  }

  #endReporting(report?: ConsumerReport): void {
    this.#reporting?.resolve(report);
    this.#reporting = undefined;
  }

  #restart(worker: Worker, error: string): void {
    if (worker !== this.#worker) return;
    worker.terminate();
    this.#worker = undefined;
    this.#stopped?.();
    this.#endReporting();
    if (this.#stopping.signal.aborted) return;
    const { clock } = this.#options;
    if (clock.monotonic() - this.#startedAt > HEALTHY_AFTER_MS) this.#deaths = 0;
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#deaths++);
    this.#state = "restarting";
    log.error("consumer died; starting it again", { error, in_ms: pauseMs });
    clock.sleep(pauseMs, this.#stopping.signal).then(() => {
      if (!this.#stopping.signal.aborted) this.#start(false);
    });
  }
}

function createConsumerWorker(permissions: Deno.PermissionOptionsObject): Worker {
  return new Worker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "consumer",
    deno: { permissions },
  });
}
