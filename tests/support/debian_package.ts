/**
 * Debian's own RabbitMQ, Redis, Prometheus and Chromium, for machines that have none: installed with
 * apt-get when the caller is root, and without the service that the package would start on its default
 * port.
 *
 * @module
 */

import { findInstalled } from "./rabbitmq_node.ts";

/** invoke-rc.d asks this program before it starts a service; 101 means no. */
const POLICY = "/usr/sbin/policy-rc.d";
const POLICY_TEXT = "#!/bin/sh\nexit 101\n";

/** What became of the wish to have a package installed. */
export type Installed = "present" | "installed" | "impossible";

/**
 * Sees to it that this machine has RabbitMQ. `impossible` without root or without apt-get; throws
 * with apt-get's last words when it fails. `say` is told what takes long.
 */
export async function installRabbit(say: (line: string) => void): Promise<Installed> {
  if (await findInstalled() !== undefined) return "present";
  return await install("rabbitmq-server", say);
}

/** The same for Redis, which only tests need. */
export async function installRedis(say: (line: string) => void): Promise<Installed> {
  return await hasProgram("redis-server") ? "present" : await install("redis-server", say);
}

/** The same for Prometheus, of which tests need promtool and no more. */
export async function installPrometheus(say: (line: string) => void): Promise<Installed> {
  return await hasProgram("promtool") ? "present" : await install("prometheus", say);
}

/** The same for Chromium, with a font, for the tests of the dashboard. */
export async function installChromium(say: (line: string) => void): Promise<Installed> {
  if (await hasProgram("chromium")) return "present";
  return await install("chromium", say, "fonts-dejavu-core");
}

async function hasProgram(name: string): Promise<boolean> {
  const { success } = await new Deno.Command("sh", {
    args: ["-c", `command -v ${name}`],
    stdout: "null",
  }).output();
  return success;
}

async function install(
  name: string,
  say: (line: string) => void,
  ...more: readonly string[]
): Promise<Installed> {
  if (!await isRoot() || !await hasAptGet()) return "impossible";
  say(`installing Debian's ${name} package, which takes about a minute`);
  const ours = await forbidServices();
  try {
    await aptGet("update");
    await aptGet("install", "--yes", "--no-install-recommends", name, ...more);
  } finally {
    if (ours) await Deno.remove(POLICY);
  }
  return "installed";
}

async function isRoot(): Promise<boolean> {
  const { stdout } = await new Deno.Command("id", { args: ["-u"] }).output();
  return new TextDecoder().decode(stdout).trim() === "0";
}

async function hasAptGet(): Promise<boolean> {
  try {
    return (await Deno.stat("/usr/bin/apt-get")).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Keeps the package from starting its service; `false` if the machine has a policy of its own. */
async function forbidServices(): Promise<boolean> {
  try {
    await Deno.writeTextFile(POLICY, POLICY_TEXT, { createNew: true, mode: 0o755 });
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

async function aptGet(...args: string[]): Promise<void> {
  const output = await new Deno.Command("apt-get", {
    args: ["-o", "DPkg::Lock::Timeout=300", ...args],
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
  }).output();
  if (output.success) return;
  const said = new TextDecoder().decode(output.stderr).trim().split("\n").slice(-10).join("\n");
  throw new Error(`apt-get ${args.join(" ")} ended with ${output.code}:\n${said}`);
}
