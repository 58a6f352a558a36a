/**
 * One run of a RabbitMQ node, from its start to its end, and rabbitmqctl beside it.
 *
 * A run counts as started when the broker sends AMQP's first frame: its listener comes up last.
 *
 * @module
 */

import { probeBroker } from "./amqp_probe.ts";
import type { GuardMode, NodeCommands } from "./rabbitmq_node.ts";

const START_DEADLINE_MS = 60_000;
const STOP_DEADLINE_MS = 15_000;
const POLL_MS = 50;

/** A node that runs under its guard. */
export class NodeRun {
  readonly #guard: Deno.ChildProcess;
  readonly #signals: WritableStreamDefaultWriter<Uint8Array>;
  #ended = false;
  #version = "";
  #pid = 0;

  private constructor(commands: NodeCommands, mode: GuardMode) {
    const [program = "", ...args] = commands.server(mode);
    this.#guard = new Deno.Command(program, {
      args,
      clearEnv: true,
      env: { ...commands.env },
      stdin: "piped",
      stdout: "null",
      // The guard keeps what the node prints; here comes what kept the guard from starting.
      stderr: "inherit",
      // A session of its own: what the terminal sends to the caller's does not reach it.
      detached: mode === "leave",
    }).spawn();
    this.#signals = this.#guard.stdin.getWriter();
  }

  /**
   * Starts the node that `prepareNode` prepared in `dir` for `port`. Throws with the end of what it
   * printed when it ends before it answers, or does not answer in 60 s.
   */
  static async start(
    dir: string,
    port: number,
    commands: NodeCommands,
    mode: GuardMode,
  ): Promise<NodeRun> {
    const run = new NodeRun(commands, mode);
    const ended = run.#guard.status.then(() => run.#ended = true);
    const deadline = Date.now() + START_DEADLINE_MS;
    while (!run.#ended && Date.now() < deadline) {
      const probe = await probeBroker("127.0.0.1", port);
      if (probe.kind === "amqp") {
        run.#version = probe.version;
        run.#pid = Number(await Deno.readTextFile(`${dir}/pid`));
        return run;
      }
      await Promise.race([ended, pause(POLL_MS)]);
    }
    const reason = run.#ended ? "ended while it started" : "did not answer in 60 s";
    await run.end("KILL");
    throw new Error(`RabbitMQ on port ${port} ${reason}; it printed:\n${await lastWords(dir)}`);
  }

  /** The broker's version, for instance `3.10.8`. */
  get version(): string {
    return this.#version;
  }

  /** Process id of the Erlang VM. */
  get pid(): number {
    return this.#pid;
  }

  /** Signals the broker and waits for its end; one that ignores TERM is killed after 15 s. */
  async end(signal: "KILL" | "TERM"): Promise<void> {
    const deadline = setTimeout(() => this.#send("KILL"), STOP_DEADLINE_MS);
    this.#send(signal);
    await this.#guard.status;
    clearTimeout(deadline);
    await this.#signals.close().catch(() => {});
  }

  /** Lets a node that was started with `leave` go on without this process. */
  async letGo(): Promise<void> {
    await this.#signals.close();
    this.#guard.unref();
  }

  #send(signal: string): void {
    // Fails only if the guard has gone, and the node with it; `end` waits for just that.
    this.#signals.write(new TextEncoder().encode(`${signal}\n`)).catch(() => {});
  }
}

/** Runs rabbitmqctl for a node and gives its output. Throws with what it printed when it fails. */
export async function runCtl(
  commands: Pick<NodeCommands, "ctl" | "env">,
  args: readonly string[],
): Promise<string> {
  const [program = "", ...rest] = commands.ctl(args);
  const output = await new Deno.Command(program, {
    args: rest,
    clearEnv: true,
    env: { ...commands.env },
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  if (output.success) return text.decode(output.stdout);
  const said = text.decode(output.stderr).trim() || text.decode(output.stdout).trim();
  // The other arguments may hold a password.
  throw new Error(`rabbitmqctl ${args[0]} ended with ${output.code}: ${said}`);
}

async function lastWords(dir: string): Promise<string> {
  const printed = await Deno.readTextFile(`${dir}/startup.log`).catch(() => "");
  return printed.trim().split("\n").slice(-20).join("\n");
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
