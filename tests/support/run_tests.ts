/**
 * `deno task test`: every test, or those in the files and folders that are named, against a real
 * RabbitMQ.
 *
 * The RabbitMQ is the one at RABBIT_HOST when that is set, else one of the run's own, which ends
 * with it. Tests that kill a broker start another with `startRabbit`, of the same flavour. Without
 * a broker the run fails; nothing is skipped.
 *
 * @module
 */

import { probeBroker } from "./amqp_probe.ts";
import {
  installChromium,
  installPrometheus,
  installRabbit,
  installRedis,
} from "./debian_package.ts";
import { CHROOT_VARIABLE, startRabbit } from "./rabbitmq.ts";
import type { Flavour } from "./rabbitmq_node.ts";
import { type Counts, readCounts } from "./test_counts.ts";
import { planOf } from "./test_plan.ts";

const USAGE =
  `usage: deno task test [--broker=installed | --broker=chroot:DIR] [arguments of deno test]
  --broker=installed   start the RabbitMQ of this machine, even if RABBIT_HOST is set
  --broker=chroot:DIR  start the one of the Debian that debootstrap put into DIR; needs root`;

const PERMISSIONS = [
  "--no-prompt",
  "--allow-env",
  "--allow-net",
  "--allow-read",
  "--allow-write",
  "--allow-run",
];

/** Test files that run at the same time. */
const JOBS = "3";

/** The broker of a run: how the tests reach it, and how it ends. */
interface Broker extends AsyncDisposable {
  readonly version: string;
  /** Added to the environment of the tests. */
  readonly env: Readonly<Record<string, string>>;
}

class UsageError extends Error {}

async function chooseBroker(choice: string | undefined): Promise<Broker> {
  const host = Deno.env.get("RABBIT_HOST");
  if (choice === undefined && host) return await givenBroker(host);
  const flavour = readFlavour(choice ?? "installed");
  if (flavour.kind === "installed" && await installRabbit(console.error) === "impossible") {
    throw new Error(
      "The tests need a RabbitMQ, and none is installed: run this as root on Debian or Ubuntu, " +
        "install rabbitmq-server, or set RABBIT_HOST to one that the tests may use.",
    );
  }
  const rabbit = await startRabbit({ flavour });
  return {
    version: rabbit.version,
    env: {
      RABBIT_HOST: rabbit.host,
      RABBIT_PORT: String(rabbit.port),
      RABBIT_USER: rabbit.user,
      RABBIT_PASSWORD: rabbit.password,
      ...(flavour.kind === "chroot" ? { [CHROOT_VARIABLE]: flavour.root } : {}),
    },
    [Symbol.asyncDispose]: () => rabbit.stop(),
  };
}

async function givenBroker(host: string): Promise<Broker> {
  const port = Number(Deno.env.get("RABBIT_PORT") || "5672");
  const probe = await probeBroker(host, port);
  if (probe.kind !== "amqp") {
    throw new Error(
      `RABBIT_HOST is set, but no RabbitMQ answers at ${host}:${port}: start it, or unset ` +
        "RABBIT_HOST so that the tests start one of their own.",
    );
  }
  return { version: probe.version, env: {}, [Symbol.asyncDispose]: () => Promise.resolve() };
}

function readFlavour(choice: string): Flavour {
  if (choice === "installed") return { kind: "installed" };
  const root = /^chroot:(.+)$/.exec(choice)?.[1];
  if (root !== undefined) return { kind: "chroot", root: Deno.realPathSync(root) };
  throw new UsageError(`--broker=${choice} is neither installed nor chroot:DIR\n${USAGE}`);
}

/** Runs the tests that `args` name; those of folders side by side, as they are waiting, mostly. */
async function runTests(args: readonly string[], env: Broker["env"]): Promise<Counts> {
  const options = args.filter((arg) => arg.startsWith("-"));
  const named = args.filter((arg) => !arg.startsWith("-"));
  const { alone, sideBySide, browser } = planOf(named.length > 0 ? named : ["tests"]);
  const parallel = [...options, "--parallel", ...sideBySide];
  const counts = [
    ...sideBySide.length > 0 ? [await denoTest(parallel, { ...env, DENO_JOBS: JOBS })] : [],
    ...alone.length > 0 ? [await denoTest([...options, ...alone], env)] : [],
    ...browser.length > 0 ? [await denoTest([...options, ...browser], env, ["--allow-all"])] : [],
  ];
  const sum = (pick: (counts: Counts) => number): number =>
    counts.reduce((total, each) => total + pick(each), 0);
  return { passed: sum(({ passed }) => passed), failed: sum(({ failed }) => failed) };
}

async function denoTest(
  args: readonly string[],
  env: Broker["env"],
  permissions = PERMISSIONS,
): Promise<Counts> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", ...permissions, ...args],
    env: { ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const output = await showAndKeep(child.stdout);
  return readCounts(output, (await child.status).success);
}

/** Passes the output on as it comes and gives the whole of it. */
async function showAndKeep(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  let kept = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    for (let written = 0; written < chunk.length;) {
      written += Deno.stdout.writeSync(chunk.subarray(written));
    }
    kept += decoder.decode(chunk, { stream: true });
  }
  return kept;
}

async function main(args: readonly string[]): Promise<number> {
  const choice = args.find((arg) => arg.startsWith("--broker="))?.slice("--broker=".length);
  const rest = args.filter((arg) => !arg.startsWith("--broker="));
  try {
    await using broker = await chooseBroker(choice);
    if (await installRedis(console.error) === "impossible") {
      throw new Error(
        "The tests need redis-server, and it is not installed: run this as root on Debian or " +
          "Ubuntu, or install redis-server; it need not run.",
      );
    }
    if (await installPrometheus(console.error) === "impossible") {
      throw new Error(
        "The tests need promtool, and it is not installed: run this as root on Debian or Ubuntu, " +
          "or install prometheus; it need not run.",
      );
    }
    if (await installChromium(console.error) === "impossible") {
      throw new Error(
        "The tests need chromium, and it is not installed: run this as root on Debian, or install " +
          "chromium.",
      );
    }
    const { passed, failed } = await runTests(rest, broker.env);
    console.log(`tests with RabbitMQ ${broker.version}: passed ${passed}, failed ${failed}`);
    if (passed + failed === 0) console.error("no test ran");
    return failed === 0 && passed > 0 ? 0 : 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return error instanceof UsageError ? 2 : 1;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
