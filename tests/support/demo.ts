/**
 * `deno task demo`: the main job, to look at. RabbitMQ, a sample backend that fails on purpose, the
 * relay, and tasks that are delivered, retried and failed before one's eyes.
 *
 * With `--once` it ends by itself: 0 when each task went where it should, 1 when not. Only the
 * queues `demo.*` are touched; they are deleted at the start, and what failed lies there at the end.
 *
 * @module
 */
import { resolve } from "node:path";
import { type Config, ConfigError, loadConfig } from "../../src/config.ts";
import { readEnvironment } from "../../src/environment.ts";
import { type TestAmqp, withAmqp } from "./amqp.ts";
import { ensureBroker } from "./broker.ts";
import { whatIsUp } from "./broker_home.ts";
import { DemoRun } from "./demo_run.ts";
import { Screen } from "./demo_screen.ts";
import { DEMO_LADDER, DemoTasks, differences, endingsTable } from "./demo_tasks.ts";
import { freePort } from "./ports.ts";
import { queueNames } from "./queues.ts";
import { type RelayProcess, startRelay } from "./relay.ts";
import { type SampleExchange, startSampleBackend } from "./sample_backend.ts";

const USAGE = `usage: deno task demo [--once]
  --once   ends by itself, with 0 if each task went where it should, else with 1`;

const PREFIX = "demo";
const QUEUES = queueNames(PREFIX, DEMO_LADDER);
/** The product's own default. */
const LIMIT = { requests: 10, seconds: 3 };
/** The exit status after Ctrl-C, as shells have it. */
const INTERRUPTED = 130;
const ECHO_MS = 500;
/** The first tasks are through in about 20 s. */
const PATIENCE_MS = 60_000;
const MORE_EVERY_MS = 5000;

/** Where the demo is shown, and what ends it. */
interface Stage {
  readonly screen: Screen;
  readonly stop: AbortSignal;
}

/** Plays a demo against a broker that is there, and gives the exit status. */
async function withRelayOnStage(
  { screen, stop }: Stage,
  rabbit: Config["rabbit"],
  extraEnv: Readonly<Record<string, string>>,
  play: (run: DemoRun) => Promise<number>,
): Promise<number> {
  return await withAmqp(rabbit, async (amqp) => {
    await clearQueues(amqp);
    const exchanges: SampleExchange[] = [];
    const port = preferredPort(8090);
    const onExchange = (exchange: SampleExchange): void => void exchanges.push(exchange);
    await using _backend = startSampleBackend({ hostname: "127.0.0.1", port, onExchange });
    const relay = await startRelay({ rabbit, env: { ...relayEnv(port), ...extraEnv } });
    try {
      introduce(screen, relay, port);
      return await play(new DemoRun({ screen, amqp, relay, queues: QUEUES, exchanges }));
    } finally {
      screen.settle();
      if (stop.aborted) screen.say("", "ending: the relay finishes what it has begun …");
      await endRelay(relay);
    }
  });
}

/** The first tasks, until each has ended. */
async function playOnce(run: DemoRun, { screen, stop }: Stage): Promise<number> {
  await run.post(new DemoTasks().first());
  const tooLong = AbortSignal.timeout(PATIENCE_MS);
  await run.watch(() => run.done, AbortSignal.any([stop, tooLong]));
  await run.lastPicture();
  return stop.aborted ? INTERRUPTED : await conclude(run, screen);
}

/** The first tasks and then a few more every few seconds, until the user has seen enough. */
async function playOn(run: DemoRun, { screen, stop }: Stage): Promise<number> {
  screen.say("Ctrl-C ends the demo.", "");
  const tasks = new DemoTasks();
  await run.post(tasks.first());
  while (!stop.aborted) {
    const next = performance.now() + MORE_EVERY_MS;
    await run.watch(() => performance.now() >= next, stop);
    if (!stop.aborted) await run.post(tasks.more());
  }
  return 0;
}

/** Says what became of the tasks; the exit status is 0 when that is what should have. */
async function conclude(run: DemoRun, screen: Screen): Promise<number> {
  const endings = await run.endings();
  const wrong = differences(run.tasks, endings);
  const rows = endingsTable(run.tasks, endings).map(({ label, expected, seen }) => {
    const row = `  ${label.padEnd(32)} ${String(expected).padStart(8)} ${String(seen).padStart(6)}`;
    return screen.paint(expected === seen ? "green" : "red", row);
  });
  const perSecond = run.requestsPerSecond().map((count) => count === 0 ? "·" : count).join(" ");
  screen.say(
    "",
    screen.paint(
      "bold",
      `  ${`What became of ${run.tasks.length} tasks`.padEnd(32)} expected   seen`,
    ),
    ...rows,
    "",
    `  Requests at the backend in each second:  ${perSecond}`,
    `  (the limit is ${LIMIT.requests} in ${LIMIT.seconds} s, retries included)`,
    "",
  );
  if (wrong.length > 0) {
    screen.say(...wrong.map((line) => screen.paint("red", `  ${line}`)));
    return 1;
  }
  screen.say(
    `  Each task went where it should. What failed lies in ${QUEUES.failed}, with its reason and the`,
    "  history of its attempts, until the next demo.",
  );
  return 0;
}

function introduce(screen: Screen, relay: RelayProcess, backendPort: number): void {
  screen.say(
    `relay           ${relay.url}/queue/tasks`,
    `dashboard       ${relay.opsUrl}`,
    `sample backend  http://127.0.0.1:${backendPort}/process, which fails on purpose`,
    `rate limit      ${LIMIT.requests} requests in ${LIMIT.seconds} s: attempts come in groups`,
    `retry ladder    ${DEMO_LADDER}: 2 attempts at once, 2 after 1 s, 2 after 2 s`,
    "permanent       a 422 fails a task at once",
    "",
  );
}

/** The settings of the demo's relay; what is not here has its default. */
function relayEnv(backendPort: number): Record<string, string> {
  return {
    INBOUND_PORT: String(preferredPort(8080)),
    OPS_PORT: String(preferredPort(8081)),
    QUEUE_PREFIX: PREFIX,
    BACKEND_BASE_URL: `http://127.0.0.1:${backendPort}`,
    RATE_LIMIT_MAX_REQUESTS: String(LIMIT.requests),
    RATE_LIMIT_WINDOW_SEC: String(LIMIT.seconds),
    RETRY_LADDER: DEMO_LADDER,
    PERMANENT_STATUSES: "422",
  };
}

/** Deletes what an earlier demo left. @throws when one is running now */
async function clearQueues(amqp: TestAmqp): Promise<void> {
  const depths = await amqp.depths(QUEUES.all);
  const existing = QUEUES.all.filter((queue) => depths[queue] !== undefined);
  if (existing.includes(QUEUES.main) && await amqp.consumers(QUEUES.main) > 0) {
    throw new Error(`A relay consumes ${QUEUES.main}: another demo is running. End it first.`);
  }
  // In a broker that has just started, a quorum queue is there before it has a leader, and deleting
  // it fails. A confirm shows that it has one; a queue that gives none is deleted all the same.
  const probes = existing.map((queue) => amqp.publishRaw(queue, "is anybody there?"));
  await Promise.allSettled(probes);
  await amqp.deletePrefix(PREFIX, DEMO_LADDER);
}

function preferredPort(port: number): number {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
    return port;
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return freePort();
    throw error;
  }
}

/** Ctrl-C in a terminal goes to the relay too, and a second signal would cut its drain short. */
async function endRelay(relay: RelayProcess): Promise<void> {
  const stopping = relay.waitForLog(({ message }) => message === "stopping", { within: 300 });
  await stopping.catch(() => relay.signal("SIGTERM"));
  await relay.status;
  await relay.dispose();
}

/**
 * Aborts at the first Ctrl-C; the second ends the demo where it stands. `deno task` passes on what
 * the terminal has sent already: each Ctrl-C comes twice, some 20 ms apart.
 */
function interruption(): AbortSignal {
  const controller = new AbortController();
  let first = Infinity;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      if (performance.now() - first > ECHO_MS) Deno.exit(INTERRUPTED);
      first = Math.min(first, performance.now());
      controller.abort();
    });
  }
  return controller.signal;
}

/** What the relay needs in its environment to reach a broker over TLS. */
function tlsEnv(environment: Readonly<Record<string, string>>): Record<string, string> {
  const { RABBIT_TLS, RABBIT_CA_FILE } = environment;
  return {
    ...(RABBIT_TLS && { RABBIT_TLS }),
    // The relay runs in another directory.
    ...(RABBIT_CA_FILE && { RABBIT_CA_FILE: resolve(RABBIT_CA_FILE) }),
  };
}

async function main(args: readonly string[]): Promise<number> {
  const once = args[0] === "--once";
  if (args.length > (once ? 1 : 0)) {
    console.error(USAGE);
    return 2;
  }
  const stage: Stage = { screen: new Screen(), stop: interruption() };
  try {
    const environment = readEnvironment(Deno.env.toObject(), Deno.readTextFileSync);
    const { rabbit } = loadConfig(environment, Deno.readTextFileSync);
    const version = await ensureBroker(rabbit, (line) => stage.screen.say(line));
    const { host, port } = rabbit;
    stage.screen.say("", `RabbitMQ        ${host}:${port}${version ? `, version ${version}` : ""}`);
    const play = once ? playOnce : playOn;
    const extraEnv = tlsEnv(environment);
    const status = await withRelayOnStage(stage, rabbit, extraEnv, (run) => play(run, stage));
    if ((await whatIsUp())?.port === port) {
      stage.screen.say("", "RabbitMQ goes on running; `deno task broker stop` ends it.");
    }
    return status;
  } catch (error) {
    if (stage.stop.aborted) return INTERRUPTED;
    console.error(error instanceof Error ? error.message : error);
    return error instanceof ConfigError ? 2 : 1;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
