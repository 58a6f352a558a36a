/**
 * The stage of the integration tests: a relay as a process, its backend, and a view into its queues.
 *
 * Everything on it is the test's own, so that tests don't see each other's tasks; where the rate
 * limit or the ladder is not the point they are wide and short, so that no test waits for them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type TestAmqp, withAmqp } from "../support/amqp.ts";
import { type Answering, type Backend, withBackend } from "../support/backend.ts";
import type { Certificate } from "../support/certificate.ts";
import { type RabbitAddress, rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { type QueueNames, queueNames } from "../support/queues.ts";
import { type LogLine, type RelayOptions, type RelayProcess, withRelay } from "../support/relay.ts";

/** Wide, so that the limit is not what a test waits for. */
export const WIDE_LIMIT = { RATE_LIMIT_MAX_REQUESTS: "1000", RATE_LIMIT_WINDOW_SEC: "1" } as const;

/** Two attempts, the second soon after the first. */
export const SHORT_LADDER = "1x0s,1x0.1s";

/** What a stage is set with. */
export interface StageOptions {
  /** Over {@link WIDE_LIMIT} and {@link SHORT_LADDER}. */
  readonly env?: Readonly<Record<string, string>>;
  /** 200 to everything unless given. */
  readonly answer?: Answering;
  /** The backend speaks TLS with this. */
  readonly tls?: Certificate;
  /** Flags of the program. */
  readonly args?: readonly string[];
  /** The test run's unless given. */
  readonly rabbit?: RabbitAddress;
  /** Whether to wait for `/readyz`; true unless given. */
  readonly ready?: boolean;
}

/** A relay with what is on both sides of it. */
export interface Stage {
  readonly relay: RelayProcess;
  readonly backend: Backend;
  readonly amqp: TestAmqp;
  readonly queues: QueueNames;
}

/** Runs `fn` on a stage of its own, and cleans up however it ends. */
export async function withStage(
  options: StageOptions,
  fn: (stage: Stage) => Promise<void>,
): Promise<void> {
  const rabbit = options.rabbit ?? rabbitAddress();
  const { answer, tls, args = [], ready = true } = options;
  await withBackend(async (backend) => {
    const env = relayEnv(backend, options.env);
    await withRelay({ rabbit, args, ready, env }, async (relay) => {
      const queues = queueNames(relay.prefix, env["RETRY_LADDER"]);
      await withAmqp(rabbit, (amqp) => fn({ relay, backend, amqp, queues }));
    });
  }, { ...(answer !== undefined && { answer }), ...(tls !== undefined && { tls }) });
}

/** A test on a stage of its own that waits more than it works. */
export interface Scenario {
  readonly name: string;
  readonly options: StageOptions;
  readonly run: (stage: Stage) => Promise<void>;
}

/** Runs scenarios side by side, as steps of `t`; the leak sanitizers watch over all of them together. */
export async function alongside(
  t: Deno.TestContext,
  scenarios: readonly Scenario[],
): Promise<void> {
  await withStages(scenarios, async (stages) => {
    await Promise.all(stages.map((stage, n) =>
      t.step({
        name: scenarios[n]?.name ?? "",
        fn: () => scenarios[n]?.run(stage),
        sanitizeOps: false,
        sanitizeResources: false,
        sanitizeExit: false,
      })
    ));
  });
}

/** Runs `fn` with a stage for each of the scenarios, all of them ready. */
async function withStages(
  [next, ...rest]: readonly Scenario[],
  fn: (stages: readonly Stage[]) => Promise<void>,
  ready: readonly Stage[] = [],
): Promise<void> {
  if (next === undefined) return await fn(ready);
  await withStage(next.options, (stage) => withStages(rest, fn, [...ready, stage]));
}

/** The environment of a relay in front of `backend`, for tests that need more than one relay. */
export function relayEnv(
  backend: Pick<Backend, "url">,
  env: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  return { BACKEND_BASE_URL: backend.url, RETRY_LADDER: SHORT_LADDER, ...WIDE_LIMIT, ...env };
}

/** What a program that has ended left: its exit status, and what it wrote that is no log line. */
export interface Ended {
  readonly status: number;
  readonly output: string;
}

/** Runs a relay that is to end by itself. @throws when it has not within a minute */
export async function runToEnd(options: RelayOptions): Promise<Ended> {
  return await withRelay({ ...options, ready: false }, async (relay) => {
    let status: number | undefined;
    relay.status.then((ended) => status = ended);
    await eventually(() => assert.ok(status !== undefined, "the program runs on"));
    return { status: await relay.status, output: relay.output };
  });
}

/** Runs `fn` with a QUEUE_PREFIX of the test's own, whose queues are deleted afterwards. */
export async function withPrefix(
  ladder: string,
  fn: (prefix: string, amqp: TestAmqp) => Promise<void>,
): Promise<void> {
  await withAmqp(rabbitAddress(), async (amqp) => {
    const prefix = uniquePrefix();
    try {
      await fn(prefix, amqp);
    } finally {
      await amqp.deletePrefix(prefix, ladder);
    }
  });
}

/** The queues that exist of those that the default ladder makes with this prefix. */
export async function existingQueues(amqp: TestAmqp, prefix: string): Promise<string[]> {
  const depths = await amqp.depths(queueNames(prefix).all);
  return Object.keys(depths).filter((queue) => depths[queue] !== undefined);
}

/** The task's requests as the backend got them, in order. */
export function requestsOf(backend: Backend, id: string): Backend["requests"] {
  return backend.requests.filter(({ headers }) => headers["task-id"] === id);
}

/** The log lines of attempts, of the task `id` if given. */
export function attemptLines(relay: RelayProcess, id?: string): LogLine[] {
  return relay.logs.filter((line) =>
    line.message === "attempt" && (id === undefined || line["task_id"] === id)
  );
}
