/**
 * How a relay is started as a process: its command line, its environment, its output by lines.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import denoJson from "../../deno.json" with { type: "json" };

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));
/** What Deno itself needs to find itself and its cache. */
const PASSED_ON = ["PATH", "HOME", "DENO_DIR", "XDG_CACHE_HOME", "TMPDIR"];

const running = new Set<Deno.ChildProcess>();
// A test that fails before it could clean up must not leave a process behind.
globalThis.addEventListener("unload", () => running.forEach((child) => child.kill("SIGKILL")));

/** What a relay is started with. */
export interface Spawning {
  /** Flags of the program. */
  readonly args: readonly string[];
  readonly cwd: string;
  /** All that it sees, but for what Deno itself needs. */
  readonly env: Readonly<Record<string, string>>;
  /** Given each line of standard output and standard error. */
  readonly onLine: (line: string) => void;
}

/** A process that was started, and its exit status once all its output has been read. */
export interface Spawned {
  readonly pid: number;
  readonly ended: Promise<number>;
  /** Sends a signal; nothing happens when the process has ended. */
  signal(signal: Deno.Signal): void;
}

/** Starts `main.ts` with the flags of the task `start`. */
export function spawnRelay({ args, cwd, env, onLine }: Spawning): Spawned {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--config", CONFIG, ...startFlags(denoJson.tasks.start), MAIN, ...args],
    cwd,
    clearEnv: true,
    env: { ...passedOn(), ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  running.add(child);
  return { pid: child.pid, ended: follow(child, onLine), signal: (name) => send(child, name) };
}

/** The flags between `deno run` and `main.ts`. @throws when the task starts it in another way */
export function startFlags(task: string): string[] {
  const flags = /deno run ((?:--\S+ )*)main\.ts/.exec(task)?.[1];
  if (flags === undefined) {
    throw new Error(`the task "start" of deno.json does not say "deno run … main.ts": ${task}`);
  }
  return flags.trim().split(" ");
}

async function follow(child: Deno.ChildProcess, onLine: (line: string) => void): Promise<number> {
  const [status] = await Promise.all([
    child.status,
    eachLine(child.stdout, onLine),
    eachLine(child.stderr, onLine),
  ]);
  running.delete(child);
  return status.code;
}

function send(child: Deno.ChildProcess, signal: Deno.Signal): void {
  if (!running.has(child)) return;
  try {
    child.kill(signal);
  } catch (error) {
    // It ended by itself a moment ago.
    if (!(error instanceof TypeError)) throw error;
  }
}

async function eachLine(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: (line: string) => void,
): Promise<void> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(onLine);
  }
  if (rest !== "") onLine(rest);
}

function passedOn(): Record<string, string> {
  const entries = PASSED_ON.map((name) => [name, Deno.env.get(name)] as const);
  return Object.fromEntries(entries.flatMap(([name, value]) => value ? [[name, value]] : []));
}
