/**
 * The program: environment → configuration → parts → signals → ordered close.
 *
 * Exit status: 0 stopped on request, or the check passed; 1 could not start, or the check failed;
 * 2 the environment or a flag is not valid. Those of the commands for operators are in src/cli.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import denoConfig from "./deno.json" with { type: "json" };
import { isCommand } from "./src/cli/usage.ts";
import { systemClock } from "./src/clock.ts";
import { ConfigError, loadConfig } from "./src/config.ts";
import type { Config } from "./src/config.ts";
import { readEnvironment } from "./src/environment.ts";
import { messageOf } from "./src/errors.ts";
import { helpText } from "./src/help.ts";
import { setUpLogging } from "./src/logging.ts";
import { formatDelay, maxAttempts } from "./src/rungs.ts";

const log = getLogger(["relay"]);

/** A Ctrl-C under `deno task` arrives twice, up to 18 ms apart: from the terminal and forwarded. */
const SAME_SIGNAL_MS = 300;

// What is imported only where it is needed: a command for operators loads nothing of a relay.
Deno.exit(await main(Deno.args));

async function main(args: readonly string[]): Promise<number> {
  const [flag, ...rest] = args;
  if (isCommand(flag)) {
    const { runCli } = await import("./src/cli/cli.ts");
    return await runCli(args, environment, Deno.readTextFileSync);
  }
  if (rest.length > 0) return refuse(`one flag at a time, please: ${args.join(" ")}`);
  switch (flag) {
    case "--help":
      return say(helpText());
    case "--version":
      return say(denoConfig.version);
    case "--check":
      return await withConfig(check);
    case undefined:
      return await withConfig(run);
    default:
      return refuse(`unknown flag or command ${flag}; --help lists what there is`);
  }
}

/** Runs until the process is asked to stop, or can't go on. */
async function run(config: Config): Promise<number> {
  await setUpLogging(config.log);
  log.info("starting", { version: denoConfig.version, pid: Deno.pid, ...outline(config) });
  try {
    const { startRelay } = await import("./src/relay.ts");
    const relay = startRelay(config, denoConfig.version, systemClock);
    const signal = await Promise.race([stopSignal(), relay.failed]);
    log.info("stopping", { signal });
    await relay.close();
    log.info("stopped");
    return 0;
  } catch (error) {
    log.error("cannot start", { error: messageOf(error) });
    console.error(messageOf(error));
    return 1;
  }
}

/** What a person wants to see confirmed at a start. Without the query, which may be a secret. */
function outline({ backend, limit, ladder, queues }: Config): Record<string, unknown> {
  return {
    backend: backend.url.origin + backend.url.pathname,
    limit: `${limit.maxRequests} per ${formatDelay(limit.windowMs)}, ${limit.algorithm}`,
    max_attempts: maxAttempts(ladder),
    queue_prefix: queues.prefix,
  };
}

/** Settles at the first SIGTERM or SIGINT. The second ends the process at once; nothing is lost. */
function stopSignal(): Promise<Deno.Signal> {
  const signals: readonly Deno.Signal[] = ["SIGTERM", "SIGINT"];
  return new Promise((resolve) => {
    let askedAt: number | undefined;
    for (const signal of signals) {
      Deno.addSignalListener(signal, () => {
        askedAt ??= performance.now();
        if (performance.now() - askedAt > SAME_SIGNAL_MS) Deno.exit(0);
        resolve(signal);
      });
    }
  });
}

async function check(config: Config): Promise<number> {
  const { runCheck } = await import("./src/check.ts");
  const { ok, lines } = await runCheck(config);
  say(lines.join("\n"));
  return ok ? 0 : 1;
}

async function withConfig(use: (config: Config) => Promise<number>): Promise<number> {
  let config: Config;
  try {
    config = loadConfig(environment(), Deno.readTextFileSync);
  } catch (error) {
    if (error instanceof ConfigError) return refuse(error.message);
    throw error;
  }
  return await use(config);
}

function environment(): Record<string, string> {
  return readEnvironment(Deno.env.toObject(), Deno.readTextFileSync);
}

function say(text: string): number {
  console.log(text);
  return 0;
}

function refuse(text: string): number {
  console.error(text);
  return 2;
}
