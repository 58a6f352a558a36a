/**
 * A Redis of one's own for tests: on a free port of loopback, with its own data, to be killed and
 * started again at will. It ends with the process that started it, however that ends.
 *
 * @module
 */

import { freePort } from "./ports.ts";

const START_DEADLINE_MS = 20_000;
const POLL_MS = 20;

/**
 * Runs the server ($2 …), whose directory is $1. The lines of the standard input are signals for
 * it; the end of the input means that the test's process has gone.
 */
const GUARD = `trap '' INT HUP
dir=$1
shift
exec 3<&0 </dev/null >>"$dir/redis.log" 2>&1
"$@" & server=$!
{
  while read -r signal <&3; do kill "-$signal" "$server"; done
  : >"$dir/abandoned"
  kill -KILL "$server"
} & input=$!
wait "$server"
kill -KILL "$input"
if [ -e "$dir/abandoned" ]; then rm -rf "$dir"; fi
exit 0`;

/** What `startRedis` may be told. */
export interface RedisOptions {
  /** Whether writes are kept in a file, synced every second. Default: yes. */
  readonly appendOnly?: boolean;
  /** Clients must sign in with it. */
  readonly password?: string;
}

/**
 * Starts a Redis and waits until it answers.
 *
 * @throws when redis-server is not installed, or does not come up in 20 s; with what it printed.
 */
export async function startRedis(options: RedisOptions = {}): Promise<Redis> {
  const redis = new Redis(await Deno.makeTempDir({ prefix: "queue-relay-redis-" }), options);
  try {
    await redis.start();
    return redis;
  } catch (error) {
    await redis.stop();
    throw error;
  }
}

/** A private server; see {@link startRedis}. */
export class Redis implements AsyncDisposable {
  readonly host = "127.0.0.1";
  /** It stays the same over `kill` and `start`. */
  readonly port = freePort();
  readonly #dir: string;
  readonly #options: RedisOptions;
  #run: Run | undefined;
  #stopped = false;

  constructor(dir: string, options: RedisOptions) {
    this.#dir = dir;
    this.#options = options;
  }

  /** A REDIS_URL for it, by way of another port where one is given. */
  url(port = this.port): string {
    const { password } = this.#options;
    const account = password === undefined ? "" : `:${encodeURIComponent(password)}@`;
    return `redis://${account}${this.host}:${port}/0`;
  }

  /** Gives one command, each argument without spaces or line ends, and gives the raw first reply. */
  async command(...args: string[]): Promise<string> {
    const { password } = this.#options;
    const connection = await Deno.connect({ hostname: this.host, port: this.port });
    try {
      if (password !== undefined) await exchange(connection, `AUTH ${password}`);
      return await exchange(connection, args.join(" "));
    } finally {
      connection.close();
    }
  }

  /** Starts a killed server again, with the same port and data, and waits until it answers. */
  async start(): Promise<void> {
    if (this.#stopped) throw new Error(`the Redis on port ${this.port} has been stopped`);
    if (this.#run) throw new Error(`the Redis on port ${this.port} is running`);
    const run = new Run(this.#dir, this.#arguments());
    this.#run = run;
    const deadline = Date.now() + START_DEADLINE_MS;
    while (!run.ended && Date.now() < deadline) {
      if (await this.#answers()) return;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    await this.kill();
    const printed = await Deno.readTextFile(`${this.#dir}/redis.log`).catch(() => "");
    throw new Error(`Redis on port ${this.port} did not come up; it printed:\n${printed}`);
  }

  /** Kills the server with SIGKILL and waits until it has gone. */
  async kill(): Promise<void> {
    const run = this.#run;
    this.#run = undefined;
    await run?.end("KILL");
  }

  /** Ends the server in order and removes its data. Does nothing the second time. */
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

  #arguments(): string[] {
    const { appendOnly = true, password } = this.#options;
    return [
      ...["--bind", this.host, "--port", String(this.port), "--dir", this.#dir, "--save", ""],
      ...["--appendonly", appendOnly ? "yes" : "no", "--appendfsync", "everysec"],
      ...(password === undefined ? [] : ["--requirepass", password]),
    ];
  }

  /** Whether it takes commands: it listens before it has read its data. */
  async #answers(): Promise<boolean> {
    try {
      return (await this.command("PING")).startsWith("+PONG");
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionRefused) return false;
      if (error instanceof Deno.errors.ConnectionReset) return false;
      throw error;
    }
  }
}

/** One run of a server under its guard. */
class Run {
  readonly #guard: Deno.ChildProcess;
  readonly #signals: WritableStreamDefaultWriter<Uint8Array>;
  ended = false;

  constructor(dir: string, args: readonly string[]) {
    this.#guard = new Deno.Command("sh", {
      args: ["-c", GUARD, "sh", dir, "redis-server", ...args],
      stdin: "piped",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    this.#guard.status.then(() => this.ended = true);
    this.#signals = this.#guard.stdin.getWriter();
  }

  async end(signal: "KILL" | "TERM"): Promise<void> {
    // Fails only if the guard has gone, and the server with it.
    await this.#signals.write(new TextEncoder().encode(`${signal}\n`)).catch(() => {});
    await this.#guard.status;
    await this.#signals.close().catch(() => {});
  }
}

async function exchange(connection: Deno.Conn, command: string): Promise<string> {
  await connection.write(new TextEncoder().encode(`${command}\r\n`));
  const reply = new Uint8Array(4096);
  const length = await connection.read(reply) ?? 0;
  return new TextDecoder().decode(reply.subarray(0, length));
}
