/**
 * `deno task broker`: a RabbitMQ for the relay that is to run here, and the first step of
 * `deno task start` and `demo`.
 *
 * It reads the same environment as the relay. A broker that answers at RABBIT_HOST:RABBIT_PORT is
 * used as it is; one on another machine is nobody's business here. `broker_home.ts` says how one is
 * brought up.
 *
 * @module
 */

import { type Config, ConfigError, loadConfig } from "../../src/config.ts";
import { readEnvironment } from "../../src/environment.ts";
import { probeBroker } from "./amqp_probe.ts";
import { bringUp, lockHome, NoBrokerError, type Say, takeDown, whatIsUp } from "./broker_home.ts";

const USAGE = `usage: deno task broker [ensure | status | stop]
  ensure   sees to it that a RabbitMQ answers at RABBIT_HOST:RABBIT_PORT (also without a word)
  status   says whether one answers; exit status 1 if not
  stop     ends the RabbitMQ that ensure brought up; its data stay in .rabbitmq/`;

/** What a broker that is brought up here listens on. */
const THIS_MACHINE = /^(localhost|127\.0\.0\.1)$/i;

/**
 * Sees to it that a RabbitMQ answers where the relay will look for it, and gives its version, or
 * `undefined` when it is on another machine or speaks TLS. Throws with what a person can do when
 * there is none and none can be brought up.
 */
export async function ensureBroker(
  rabbit: Config["rabbit"],
  say: Say,
): Promise<string | undefined> {
  const { host, port } = rabbit;
  if (!THIS_MACHINE.test(host)) return undefined;
  using _home = await lockHome();
  const before = await probeBroker("127.0.0.1", port);
  if (before.kind === "amqp") return before.version;
  if (before.kind === "other") {
    if (rabbit.tls !== undefined) return undefined;
    throw new NoBrokerError(
      `Port ${port} of this machine is taken by something that is no RabbitMQ. ` +
        "Set RABBIT_PORT to a free port.",
    );
  }
  await refuseToBringUp(rabbit);
  await bringUp(rabbit, say);
  const after = await probeBroker("127.0.0.1", port);
  if (after.kind === "amqp") return after.version;
  throw new Error(`RabbitMQ was started, but nothing answers on port ${port} of this machine`);
}

async function refuseToBringUp({ port, tls }: Config["rabbit"]): Promise<void> {
  if (tls !== undefined) {
    throw new NoBrokerError(
      `Nothing listens on port ${port} of this machine, and a RabbitMQ with TLS has to be set up ` +
        "by you: start it, or leave RABBIT_TLS unset.",
    );
  }
  const up = await whatIsUp();
  if (up === undefined) return;
  throw new NoBrokerError(
    `The RabbitMQ of this project runs on port ${up.port}, and RABBIT_PORT is ${port}. ` +
      `Run \`deno task broker stop\` first, or set RABBIT_PORT=${up.port}.`,
  );
}

async function ensure(rabbit: Config["rabbit"]): Promise<number> {
  const version = await ensureBroker(rabbit, console.error);
  const where = `${rabbit.host}:${rabbit.port}`;
  console.error(
    version === undefined
      ? `RabbitMQ is expected at ${where}, which is for others to start`
      : `RabbitMQ ${version} answers at ${where}`,
  );
  return 0;
}

async function status({ host, port }: Config["rabbit"]): Promise<number> {
  const probe = await probeBroker(host, port);
  const up = await whatIsUp();
  const ours = up?.port === port && THIS_MACHINE.test(host)
    ? `, brought up here (${up.kind}); \`deno task broker stop\` ends it`
    : "";
  const said = {
    nothing: "nothing listens",
    other: "something listens that does not speak plain AMQP",
    amqp: `RabbitMQ ${probe.kind === "amqp" ? probe.version : ""} answers${ours}`,
  };
  console.log(`${host}:${port}: ${said[probe.kind]}`);
  return probe.kind === "amqp" ? 0 : 1;
}

async function stop(): Promise<number> {
  using _home = await lockHome();
  const up = await whatIsUp();
  if (up === undefined) {
    console.log("no RabbitMQ runs that was brought up here");
    return 0;
  }
  await takeDown(up);
  console.log(`RabbitMQ on port ${up.port} has ended; its data stay`);
  return 0;
}

async function main(args: readonly string[]): Promise<number> {
  const [command = "ensure", ...more] = args;
  if (more.length > 0 || !["ensure", "status", "stop"].includes(command)) {
    console.error(USAGE);
    return 2;
  }
  try {
    if (command === "stop") return await stop();
    const environment = readEnvironment(Deno.env.toObject(), Deno.readTextFileSync);
    const { rabbit } = loadConfig(environment, Deno.readTextFileSync);
    return command === "status" ? await status(rabbit) : await ensure(rabbit);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return error instanceof ConfigError ? 2 : 1;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
