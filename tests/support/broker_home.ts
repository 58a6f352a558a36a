/**
 * The RabbitMQ that `deno task broker` brings up and ends again: how it is done and what is
 * remembered in between.
 *
 * Everything lies in `.rabbitmq/` of the project: the data, which outlive the node, and `up.json`,
 * which says how the broker that runs was brought up. A RabbitMQ that was there before is never
 * touched.
 *
 * @module
 */

import { fileURLToPath } from "node:url";
import { probeBroker } from "./amqp_probe.ts";
import { installRabbit } from "./debian_package.ts";
import { prepareNode } from "./rabbitmq_node.ts";
import { NodeRun, runCtl } from "./rabbitmq_run.ts";

/** What a broker must offer: the relay's own settings. */
export interface Wanted {
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly vhost: string;
}

/** Tells a person what goes on, one line at a time. */
export type Say = (line: string) => void;

/** How the broker that runs was brought up. */
export type Up =
  | { readonly kind: "compose"; readonly port: number }
  | {
    readonly kind: "node";
    readonly port: number;
    readonly ctl: readonly string[];
    readonly env: Readonly<Record<string, string>>;
  };

const PROJECT = fileURLToPath(new URL("../../", import.meta.url));
const HOME = `${PROJECT}.rabbitmq`;
const UP_FILE = `${HOME}/up.json`;
const PID_FILE = `${HOME}/pid`;
const DOCKER_DEADLINE_MS = 5000;

/** Thrown when nothing on this machine can run RabbitMQ; the message says what a person can do. */
export class NoBrokerError extends Error {
  override readonly name = "NoBrokerError";
}

/** Makes the folder of the project's own broker, if need be, and holds it for one process. */
export async function lockHome(): Promise<Disposable> {
  await Deno.mkdir(HOME, { recursive: true, mode: 0o700 });
  const file = await Deno.open(`${HOME}/lock`, { create: true, write: true });
  await file.lock(true);
  return { [Symbol.dispose]: () => file.close() };
}

/** How the broker was brought up that runs now, if this project brought one up. */
export async function whatIsUp(): Promise<Up | undefined> {
  let up: Up;
  try {
    up = JSON.parse(await Deno.readTextFile(UP_FILE));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  return (await probeBroker("127.0.0.1", up.port)).kind === "amqp" ? up : undefined;
}

/**
 * Brings a RabbitMQ up: with Docker Compose if an engine answers, else with an installed
 * rabbitmq-server, else with Debian's package when root. Throws `NoBrokerError` if none of them can
 * be, any other error if one should have worked and did not.
 */
export async function bringUp(wanted: Wanted, say: Say): Promise<void> {
  if (await dockerAnswers()) {
    say("starting RabbitMQ with Docker Compose");
    await compose(["up", "--detach", "--wait", "rabbitmq"], wanted);
    await remember({ kind: "compose", port: wanted.port });
    return;
  }
  if (await installRabbit(say) === "impossible") {
    throw new NoBrokerError(
      `No RabbitMQ answers on port ${wanted.port} of this machine, and none can be started: no ` +
        "Docker engine answers, and rabbitmq-server is not installed. Do one of these: start " +
        "Docker; install RabbitMQ (on Debian or Ubuntu `apt-get install rabbitmq-server`, or run " +
        "this as root); or set RABBIT_HOST and RABBIT_PORT to a RabbitMQ that runs.",
    );
  }
  say("starting RabbitMQ with its data in .rabbitmq/");
  await startNode(wanted);
}

/** Ends what `bringUp` brought up; the data stay. */
export async function takeDown(up: Up): Promise<void> {
  if (up.kind === "compose") await compose(["stop", "rabbitmq"], { port: up.port });
  // With the file it returns when the process has gone, and not when it begins to go.
  else await runCtl({ ctl: (args) => [...up.ctl, ...args], env: up.env }, ["stop", PID_FILE]);
  await Deno.remove(UP_FILE);
}

async function startNode(wanted: Wanted): Promise<void> {
  const commands = await prepareNode({ kind: "installed" }, HOME, wanted.port);
  const run = await NodeRun.start(HOME, wanted.port, commands, "leave");
  const ctl = (...args: string[]): Promise<string> => runCtl(commands, args);
  await remember({ kind: "node", port: wanted.port, ctl: commands.ctl([]), env: commands.env });
  await run.letGo();
  await admit(wanted, ctl);
}

/** Sees to it that the user and the virtual host of the settings exist; a new node has guest's. */
async function admit(
  { user, password, vhost }: Wanted,
  ctl: (...args: string[]) => Promise<string>,
): Promise<void> {
  if (user === "guest" && password === "guest" && vhost === "/") return;
  const users = (await ctl("list_users", "--quiet", "--no-table-headers")).split("\n");
  const known = users.some((line) => line.split("\t")[0] === user);
  await ctl(known ? "change_password" : "add_user", "--", user, password);
  const vhosts = (await ctl("list_vhosts", "--quiet", "--no-table-headers")).split("\n");
  if (!vhosts.includes(vhost)) await ctl("add_vhost", "--", vhost);
  await ctl("set_permissions", "--vhost", vhost, "--", user, ".*", ".*", ".*");
}

async function remember(up: Up): Promise<void> {
  await Deno.writeTextFile(UP_FILE, JSON.stringify(up), { mode: 0o600 });
}

/** Whether there is an engine, and Compose, which is a plugin of the client. */
async function dockerAnswers(): Promise<boolean> {
  return await dockerManages(["info"]) && await dockerManages(["compose", "version"]);
}

async function dockerManages(args: string[]): Promise<boolean> {
  try {
    const { success } = await new Deno.Command("docker", {
      args,
      stdin: "null",
      stdout: "null",
      stderr: "null",
      signal: AbortSignal.timeout(DOCKER_DEADLINE_MS),
    }).output();
    return success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Runs Docker Compose on the project's compose.yaml, which reads the settings as variables. */
async function compose(
  args: readonly string[],
  wanted: Pick<Wanted, "port"> & Partial<Wanted>,
): Promise<void> {
  const status = await new Deno.Command("docker", {
    args: ["compose", ...args],
    cwd: PROJECT,
    env: {
      RABBIT_PORT: String(wanted.port),
      ...(wanted.user === undefined ? {} : { RABBIT_USER: wanted.user }),
      ...(wanted.password === undefined ? {} : { RABBIT_PASSWORD: wanted.password }),
      ...(wanted.vhost === undefined ? {} : { RABBIT_VHOST: wanted.vhost }),
    },
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  }).spawn().status;
  if (!status.success) {
    throw new Error(`docker compose ${args.join(" ")} ended with ${status.code}`);
  }
}
