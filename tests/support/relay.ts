/**
 * The relay as its users run it: a process of its own, with its permission flags, its environment
 * and its log, to be killed and started again.
 *
 * The flags are those of the task `start` in deno.json, so that what is tested is what is run. The
 * environment is cleared and the working directory is an empty one: nothing of the developer's
 * reaches the relay but what Deno itself needs.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withAmqp } from "./amqp.ts";
import { TaskClient } from "./client.ts";
import { type RabbitAddress, rabbitAddress, uniquePrefix } from "./environment.ts";
import { eventually, PATIENCE_MS } from "./eventually.ts";
import { freePort } from "./ports.ts";
import { DEFAULT_LADDER } from "./queues.ts";
import { type LogLine, readLogLine } from "./relay_log.ts";
import { type Spawned, spawnRelay } from "./relay_spawn.ts";

export interface RelayOptions {
  /**
   * Over the defaults: a free INBOUND_PORT on 127.0.0.1, a unique QUEUE_PREFIX, an empty DATA_DIR,
   * OPS_PORT=off,
   * and `rabbit`. To put something between the relay and its broker, set RABBIT_PORT here.
   */
  readonly env?: Readonly<Record<string, string>>;
  /** Flags of the program itself. */
  readonly args?: readonly string[];
  /** An empty directory of its own unless given. */
  readonly cwd?: string;
  /** Whether to wait until `/readyz` says 200; true unless given. */
  readonly ready?: boolean;
  /** The broker, where the queues are deleted in the end; the test run's unless given. */
  readonly rabbit?: RabbitAddress;
}

export type { LogLine } from "./relay_log.ts";

/** Starts a relay; the caller calls `dispose()` at the end. */
export async function startRelay(options: RelayOptions = {}): Promise<RelayProcess> {
  const rabbit = options.rabbit ?? rabbitAddress();
  const home = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  const relay = new RelayProcess(home, rabbit, options);
  try {
    await relay.start(options);
    return relay;
  } catch (error) {
    await relay.dispose();
    throw error;
  }
}

/**
 * Runs `fn` with a relay. However `fn` ends, the process is killed afterwards, and its queues are
 * deleted unless `options` gave the QUEUE_PREFIX.
 */
export async function withRelay<T>(
  options: RelayOptions,
  fn: (relay: RelayProcess) => T | Promise<T>,
): Promise<T> {
  const relay = await startRelay(options);
  try {
    return await fn(relay);
  } catch (error) {
    // On a machine that nobody looks at while it tests, this is all that tells why.
    console.error(relay.told("a test failed with this relay"));
    throw error;
  } finally {
    await relay.dispose();
  }
}

/** A relay, running unless it was killed or stopped. See {@link startRelay}. */
export class RelayProcess {
  readonly prefix: string;
  readonly dataDir: string;
  /** What it has logged, over all its starts. */
  readonly logs: LogLine[] = [];
  /** What it has written that is no line of the log, for instance help or an error. */
  output = "";
  /** As in {@link TaskClient}. */
  readonly post: TaskClient["post"];
  /** As in {@link TaskClient}. */
  readonly accept: TaskClient["accept"];
  /** As in {@link TaskClient}. */
  readonly get: TaskClient["get"];
  /** As in {@link TaskClient}. */
  readonly delete: TaskClient["delete"];

  readonly #options: RelayOptions;
  readonly #rabbit: RabbitAddress;
  readonly #env: Readonly<Record<string, string>>;
  readonly #home: string;
  readonly #client = new TaskClient(() => this.url);
  #process: Spawned | undefined;
  #ended = false;
  /** Where in `logs` the present process begins. */
  #firstLog = 0;

  constructor(home: string, rabbit: RabbitAddress, options: RelayOptions) {
    this.post = this.#client.post.bind(this.#client);
    this.accept = this.#client.accept.bind(this.#client);
    this.get = this.#client.get.bind(this.#client);
    this.delete = this.#client.delete.bind(this.#client);
    this.#home = home;
    this.#options = options;
    this.#rabbit = rabbit;
    this.#env = {
      INBOUND_HOST: "127.0.0.1",
      INBOUND_PORT: String(freePort()),
      RABBIT_HOST: this.#rabbit.host,
      RABBIT_PORT: String(this.#rabbit.port),
      RABBIT_USER: this.#rabbit.user,
      RABBIT_PASSWORD: this.#rabbit.password,
      RABBIT_VHOST: this.#rabbit.vhost ?? "/",
      QUEUE_PREFIX: uniquePrefix(),
      DATA_DIR: `${home}/data`,
      OPS_PORT: "off",
      LOG_FORMAT: "json",
      ...options.env,
    };
    this.prefix = this.#env["QUEUE_PREFIX"] ?? "";
    this.dataDir = this.#env["DATA_DIR"] ?? "";
  }

  /** Starts the process (again), with the same environment, port and data. */
  async start({ ready = true }: { readonly ready?: boolean } = {}): Promise<void> {
    assert.ok(this.#process === undefined || this.#ended, "the relay runs already");
    this.#firstLog = this.logs.length;
    this.#ended = false;
    const { args = [], cwd = this.#home } = this.#options;
    const onLine = (line: string): void => this.#take(line);
    this.#process = spawnRelay({ args, cwd, env: this.#env, onLine });
    this.#process.ended.then(() => this.#ended = true);
    if (ready) await this.ready();
  }

  /** @throws before the first start */
  get pid(): number {
    return this.#started().pid;
  }

  /** The exit status of the present process, or of the last one; 137 after `kill`. */
  get status(): Promise<number> {
    return this.#started().ended;
  }

  /** Base URL of ingest, without a trailing slash. @throws before it has logged where it listens */
  get url(): string {
    const line = this.logs.slice(this.#firstLog).find(isListening);
    assert.ok(line, this.told("the relay has not logged where ingest listens"));
    return `http://${String(line["host"])}:${String(line["port"])}`;
  }

  /** Base URL of operators' HTTP. @throws before it has logged where it listens */
  get opsUrl(): string {
    const isOps = ({ message }: LogLine): boolean => message === "operators listening";
    const line = this.logs.slice(this.#firstLog).find(isOps);
    assert.ok(line, this.told("the relay has not logged where it listens for operators"));
    return `http://${String(line["host"])}:${String(line["port"])}`;
  }

  /**
   * The first line of the log, since the last start, for which `predicate` holds; waits for it.
   *
   * @throws when it has not come within so many milliseconds, or when the process ends before
   */
  async waitForLog(
    predicate: (line: LogLine) => boolean,
    { within = PATIENCE_MS } = {},
  ): Promise<LogLine> {
    let seen = this.#firstLog;
    return await this.#whileItRuns("that line of the log did not come", within, () => {
      const fresh = this.logs.slice(seen);
      seen += fresh.length;
      return fresh.find(predicate);
    });
  }

  /** Waits until `/readyz` says 200. @throws as `waitForLog` does */
  async ready({ within = PATIENCE_MS } = {}): Promise<void> {
    await this.waitForLog(isListening, { within });
    await this.#whileItRuns("the relay did not become ready", within, async () => {
      const { status } = await this.get("/readyz");
      return status === 200 ? status : undefined;
    });
  }

  /** Sends a signal; nothing happens when the process has ended. */
  signal(signal: Deno.Signal): void {
    this.#started().signal(signal);
  }

  /** SIGKILL; settles when the process is gone. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.status;
  }

  /** SIGTERM; settles with the exit status. @throws when it has not ended within 40 s */
  async stop(): Promise<number> {
    this.signal("SIGTERM");
    const ended = (): void => assert.ok(this.#ended, this.told("SIGTERM did not end the relay"));
    await eventually(ended);
    return await this.status;
  }

  /** `failure` and the end of what the process wrote, which mostly says why. */
  told(failure: string): string {
    const last = this.logs.slice(-10);
    const rare = this.logs.slice(0, -10).filter(({ message }) => message !== "attempt").slice(-40);
    const log = [...rare, ...last].map((line) => JSON.stringify(line)).join("\n");
    return `${failure}: ${this.prefix}\nlog:\n${log}\noutput:\n${this.output.slice(-4000)}`;
  }

  /** Kills what still runs and removes what the relay left: its directory and its queues. */
  async dispose(): Promise<void> {
    if (this.#process) await this.kill();
    await this.#client.close();
    await Deno.remove(this.#home, { recursive: true });
    if (this.#options.env?.["QUEUE_PREFIX"] !== undefined) return;
    const ladder = this.#env["RETRY_LADDER"] ?? DEFAULT_LADDER;
    const removal = withAmqp(this.#rabbit, (amqp) => amqp.deletePrefix(this.prefix, ladder));
    await removal.catch((error: unknown) => {
      // A broker that the test has ended takes its queues with it.
      if (!(error instanceof Error && "code" in error && error.code === "ECONNREFUSED")) {
        throw error;
      }
    });
  }

  /** Asks `probe` until it knows something. */
  async #whileItRuns<T>(
    failure: string,
    within: number,
    probe: () => T | undefined | Promise<T | undefined>,
  ): Promise<T> {
    const found = await eventually(async () => {
      const value = await probe();
      if (value === undefined && !this.#ended) throw new Error(this.told(failure));
      return value;
    }, { within });
    if (found === undefined) throw new Error(this.told(`${failure}, and the process has ended`));
    return found;
  }

  #started(): Spawned {
    assert.ok(this.#process, "the relay was never started");
    return this.#process;
  }

  #take(line: string): void {
    const entry = readLogLine(line);
    if (entry) this.logs.push(entry);
    else this.output += `${line}\n`;
  }
}

function isListening({ message }: LogLine): boolean {
  return message === "ingest listening";
}
