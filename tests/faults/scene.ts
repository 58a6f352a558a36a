/**
 * The stage of the fault tests: a relay as a process, its backend, and a network between it and its
 * broker that can be cut; and the counting with which every fault test ends.
 *
 * What the counting keeps true: accepted = delivered + waiting + failed, id by id. A task may be
 * delivered and wait all the same (at least once), but none may be nowhere.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type Stock, type TestAmqp, withAmqp } from "../support/amqp.ts";
import { type Answer, type Answering, type Backend, withBackend } from "../support/backend.ts";
import { type RabbitAddress, rabbitAddress } from "../support/environment.ts";
import { eventually, type Patience } from "../support/eventually.ts";
import type { Rabbit } from "../support/rabbitmq.ts";
import { type QueueNames, queueNames } from "../support/queues.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import { type TcpRelay, withTcpRelay } from "../support/tcp_relay.ts";

/** Short, so that a task goes all its way in about a second. */
export const LADDER = "2x0s,4x0.2s";

/** Wide, so that the limit is not what a test waits for. */
export const WIDE_LIMIT = { RATE_LIMIT_MAX_REQUESTS: "1000", RATE_LIMIT_WINDOW_SEC: "1" } as const;

/** What a scene is set with. */
export interface SceneOptions {
  /** Over {@link LADDER} and {@link WIDE_LIMIT}. */
  readonly env?: Readonly<Record<string, string>>;
  /** The test run's unless given. */
  readonly rabbit?: RabbitAddress;
  /** Whether to wait for `/readyz`; true unless given. */
  readonly ready?: boolean;
}

/** A relay between its clients, its broker and its backend. */
export interface Scene {
  readonly relay: RelayProcess;
  readonly backend: Backend;
  /** Between the relay and its broker; knows AMQP. */
  readonly network: TcpRelay;
  readonly rabbit: RabbitAddress;
  readonly names: QueueNames;
  /** The ids that were answered 202. */
  readonly accepted: Set<string>;
  /** Posts so many tasks at once; all must be answered 202. */
  post(count: number): Promise<string[]>;
  /** How the backend answers from now on; like `Backend.answer`, but keeps what was delivered. */
  answer: Answering;
  /** The ids that the backend has answered 2xx, or was about to. */
  readonly delivered: ReadonlySet<string>;
  /** Ends the relay and counts; see {@link assertNoneLost}. */
  count(patience?: Patience): Promise<Stock>;
}

/**
 * The relay without its ledger: what the broker alone guarantees, copies included. What the ledger
 * makes of them is in `ledger_cuts_test.ts` and `ledger_kills_test.ts`.
 */
export const PLAIN = { LEDGER: "off" } as const;

/** Runs `fn` on a scene of its own, and cleans up however it ends. */
export async function withScene(
  options: SceneOptions,
  fn: (scene: Scene) => Promise<void>,
): Promise<void> {
  const rabbit = options.rabbit ?? rabbitAddress();
  const target = { targetHost: rabbit.host, targetPort: rabbit.port, amqp: true };
  await withBackend((backend) =>
    withTcpRelay(target, async (network) => {
      const env = {
        RABBIT_PORT: String(network.port),
        BACKEND_BASE_URL: backend.url,
        RETRY_LADDER: LADDER,
        ...WIDE_LIMIT,
        ...options.env,
      };
      const { ready = true } = options;
      await withRelay({ rabbit, ready, env: { RABBIT_HOST: network.hostname, ...env } }, (relay) =>
        fn(setScene({ relay, backend, network, rabbit }, env.RETRY_LADDER)));
    })
  );
}

function setScene(
  parts: Pick<Scene, "relay" | "backend" | "network" | "rabbit">,
  ladder: string,
): Scene {
  const { relay, backend, rabbit } = parts;
  const accepted = new Set<string>();
  const names = queueNames(relay.prefix, ladder);
  const delivered = new Set<string>();
  let answering: Answering = () => ({ status: 200 });
  backend.answer = async (request, n): Promise<Answer> => {
    const answer = await answering(request, n);
    if ("status" in answer && answer.status >= 200 && answer.status <= 299) {
      delivered.add(taskId(request));
    }
    return answer;
  };
  return {
    ...parts,
    names,
    accepted,
    delivered,
    get answer() {
      return answering;
    },
    set answer(next: Answering) {
      answering = next;
    },
    async post(count: number): Promise<string[]> {
      const bodies = Array.from({ length: count }, (_, n) => `{"n":${n}}`);
      const ids = await Promise.all(bodies.map((body) => relay.accept(body)));
      for (const id of ids) accepted.add(id);
      return ids;
    },
    async count(patience?: Patience): Promise<Stock> {
      await relay.kill();
      return await withAmqp(
        rabbit,
        (amqp) => assertNoneLost(amqp, names, accepted, delivered, patience),
      );
    },
  };
}

/** The id of the task that a request carries. */
export function taskId(
  { headers }: { readonly headers: Backend["requests"][number]["headers"] },
): string {
  return String(headers["task-id"]);
}

/**
 * Counts: each accepted id was delivered, or waits in a queue, or lies in the failed queue. No relay
 * may be running.
 *
 * @throws with the ids that are nowhere
 */
export async function assertNoneLost(
  amqp: TestAmqp,
  names: QueueNames,
  accepted: ReadonlySet<string>,
  delivered: ReadonlySet<string>,
  patience?: Patience,
): Promise<Stock> {
  assert.ok(accepted.size > 0, "no task was accepted, so nothing was tested");
  const depths = await amqp.depths(names.all);
  const ready = Object.values(depths).reduce<number>((sum, depth) => sum + (depth ?? 0), 0);
  return await amqp.census(names, ({ waiting, failed, messages }) => {
    if (messages.length < ready) {
      const seen = Object.entries(Object.groupBy(messages, ({ queue }) => queue))
        .map(([queue, held]) => `${queue} ${held?.length}`);
      assert.fail(`of ${JSON.stringify(depths)} messages only [${seen.join(", ")}] were seen`);
    }
    const lost = [...accepted].filter((id) =>
      !delivered.has(id) && !waiting.has(id) && !failed.has(id)
    );
    assert.deepEqual(lost, [], `${lost.length} of ${accepted.size} accepted tasks are lost`);
  }, patience);
}

/** How many times the backend was asked for each task. */
export function timesAsked(backend: Backend): Map<string, number> {
  const times = new Map<string, number>();
  for (const request of backend.requests) {
    const id = taskId(request);
    times.set(id, (times.get(id) ?? 0) + 1);
  }
  return times;
}

/** Waits until each of the accepted tasks is delivered. */
export async function untilAllDelivered(scene: Scene, patience?: Patience): Promise<void> {
  await eventually(() => {
    const open = [...scene.accepted].filter((id) => !scene.delivered.has(id));
    assert.deepEqual(open, [], `${open.length} of ${scene.accepted.size} tasks were not delivered`);
  }, patience);
}

/** Resident memory of a process in MiB. By `cat`, for Deno itself reads /proc only with --allow-all. */
export async function residentMebibytes(pid: number): Promise<number> {
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/status`] }).output();
  const kibibytes = /VmRSS:\s+(\d+) kB/.exec(new TextDecoder().decode(stdout))?.[1];
  assert.ok(kibibytes, `process ${pid} is not there`);
  return Number(kibibytes) / 1024;
}

/**
 * Makes the broker write the terms of its quorum queues to disk, which it does by itself every five
 * seconds. Killed before that, RabbitMQ (3.10.8 and 4.0.5) leaves the queue that was declared last
 * without a leader until somebody triggers an election: a fault of its own, which no client can
 * mend. With a broker that is killed later than five seconds after its start this does nothing.
 */
export async function settleTerms(rabbit: Rabbit): Promise<void> {
  await rabbit.ctl("eval", "ok = dets:sync(ra_log_meta).");
}
