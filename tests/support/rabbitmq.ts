/**
 * A RabbitMQ of one's own for tests: on a free port, with its own data, to be killed and started
 * again at will. `rabbitmq_node.ts` says what such a node touches and what it does not.
 *
 * The node ends with the process that started it, even when that is killed with SIGKILL.
 *
 * @module
 */

import { freePort } from "./ports.ts";
import { type Flavour, type NodeCommands, prepareNode } from "./rabbitmq_node.ts";
import { NodeRun, runCtl } from "./rabbitmq_run.ts";

/** Names the directory of a Debian made by debootstrap; set: its RabbitMQ is what tests start. */
export const CHROOT_VARIABLE = "TEST_RABBIT_CHROOT";

/** A node, running unless it was killed. */
export interface Rabbit extends AsyncDisposable {
  readonly host: string;
  /** The AMQP port; it stays the same over `kill` and `start`. */
  readonly port: number;
  /** As the broker gives it, for instance `3.10.8`. */
  readonly version: string;
  readonly user: string;
  readonly password: string;
  /** Process id of the Erlang VM; another one after `start`. Throws while it does not run. */
  readonly pid: number;
  /** Runs rabbitmqctl and gives its output. Throws with its error text when it fails. */
  ctl(...args: string[]): Promise<string>;
  /** Kills the node with SIGKILL and waits until it has gone. */
  kill(): Promise<void>;
  /** Starts a killed node again, with the same port and data, and waits until it answers. */
  start(): Promise<void>;
  /** Ends the node in order and removes its data. Does nothing the second time. */
  stop(): Promise<void>;
}

/** What `startRabbit` may be told. */
export interface RabbitOptions {
  /** Default: what TEST_RABBIT_CHROOT says, else the RabbitMQ of this machine. */
  readonly flavour?: Flavour;
  /** Default: a free one. */
  readonly port?: number;
}

/** The flavour that the test run asks for. */
export function chosenFlavour(): Flavour {
  const root = Deno.env.get(CHROOT_VARIABLE);
  return root === undefined ? { kind: "installed" } : { kind: "chroot", root };
}

/**
 * Starts a node and waits until it speaks AMQP (3 to 6 s). Throws when RabbitMQ is not installed or
 * does not come up in 60 s, with the end of what it printed.
 */
export async function startRabbit(options: RabbitOptions = {}): Promise<Rabbit> {
  const port = options.port ?? freePort();
  const dir = await Deno.makeTempDir({ prefix: "queue-relay-rabbit-" });
  try {
    const commands = await prepareNode(options.flavour ?? chosenFlavour(), dir, port);
    return new PrivateRabbit(
      dir,
      port,
      commands,
      await NodeRun.start(dir, port, commands, "watch"),
    );
  } catch (error) {
    await Deno.remove(dir, { recursive: true });
    throw error;
  }
}

class PrivateRabbit implements Rabbit {
  readonly host = "127.0.0.1";
  readonly user = "guest";
  readonly password = "guest";
  readonly version: string;
  readonly #dir: string;
  readonly #commands: NodeCommands;
  #run: NodeRun | undefined;
  #stopped = false;

  constructor(dir: string, readonly port: number, commands: NodeCommands, run: NodeRun) {
    this.version = run.version;
    this.#dir = dir;
    this.#commands = commands;
    this.#run = run;
  }

  get pid(): number {
    if (this.#run === undefined) {
      throw new Error(`the RabbitMQ on port ${this.port} is not running`);
    }
    return this.#run.pid;
  }

  async ctl(...args: string[]): Promise<string> {
    return await runCtl(this.#commands, args);
  }

  async kill(): Promise<void> {
    const run = this.#run;
    this.#run = undefined;
    await run?.end("KILL");
  }

  async start(): Promise<void> {
    if (this.#stopped) throw new Error(`the RabbitMQ on port ${this.port} has been stopped`);
    if (this.#run !== undefined) throw new Error(`the RabbitMQ on port ${this.port} is running`);
    this.#run = await NodeRun.start(this.#dir, this.port, this.#commands, "watch");
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    const run = this.#run;
    this.#run = undefined;
    await run?.end("TERM");
    await Deno.remove(this.#dir, { recursive: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
