/**
 * The queues: exactly those of the contract and nothing else, on a broker that had none, one that
 * has them, and as classic queues under another name; and what `--check` says of them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { withBackend } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { DEFAULT_LADDER, queueNames } from "../support/queues.ts";
import { startRabbit } from "../support/rabbitmq.ts";
import { type RelayProcess, withRelay } from "../support/relay.ts";
import {
  existingQueues,
  relayEnv,
  requestsOf,
  runToEnd,
  SHORT_LADDER,
  withPrefix,
  withStage,
} from "./stage.ts";

type Arguments = Readonly<Record<string, string | number | boolean>>;

const QUORUM = { "x-queue-type": "quorum" };

function deadLetter(queue: string): Arguments {
  return {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": queue,
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
  };
}

/** The contract's seven queues with the arguments that design.md names. */
const SEVEN_QUEUES: Readonly<Record<string, Arguments>> = {
  "tasks.main": {
    ...QUORUM,
    ...deadLetter("tasks.failed"),
    "x-single-active-consumer": true,
    "x-delivery-limit": 100,
  },
  "tasks.retry.3s": { ...QUORUM, ...deadLetter("tasks.main"), "x-message-ttl": 3_000 },
  "tasks.retry.15s": { ...QUORUM, ...deadLetter("tasks.main"), "x-message-ttl": 15_000 },
  "tasks.retry.60s": { ...QUORUM, ...deadLetter("tasks.main"), "x-message-ttl": 60_000 },
  "tasks.retry.120s": { ...QUORUM, ...deadLetter("tasks.main"), "x-message-ttl": 120_000 },
  "tasks.retry.240s": { ...QUORUM, ...deadLetter("tasks.main"), "x-message-ttl": 240_000 },
  // Looked at by people, so the broker must not drop what was looked at often.
  "tasks.failed": { ...QUORUM, "x-delivery-limit": 2 ** 31 - 1 },
};

/** What rabbitmqctl prints as JSON. */
async function listed(
  rabbit: { ctl(...args: string[]): Promise<string> },
  ...what: string[]
): Promise<Record<string, unknown>[]> {
  const text = await rabbit.ctl("--formatter=json", "--quiet", ...what);
  return JSON.parse(text) as Record<string, unknown>[];
}

/** Arguments as rabbitmqctl lists them: a table in one release, name-type-value triples in another. */
function readArguments(value: unknown): Record<string, unknown> {
  if (!Array.isArray(value)) return { ...value as Record<string, unknown> };
  return Object.fromEntries(value.map(([name, _type, content]) => [name, content]));
}

Deno.test("the defaults on an empty broker: the seven queues of the contract and nothing else, and a second relay finds them right", async () => {
  await using rabbit = await startRabbit();
  const env = { QUEUE_PREFIX: "tasks" };
  await withRelay({ rabbit, env }, async (first) => {
    const [queues, exchanges] = await Promise.all([
      listed(rabbit, "list_queues", "name", "durable", "auto_delete", "arguments"),
      listed(rabbit, "list_exchanges", "name"),
    ]);
    const found = queues.map((queue) => [queue["name"], readArguments(queue["arguments"])]);
    assert.deepEqual(Object.fromEntries(found), SEVEN_QUEUES);
    for (const { name, durable, auto_delete } of queues) {
      assert.deepEqual({ durable, auto_delete }, { durable: true, auto_delete: false }, `${name}`);
    }
    const own = exchanges.filter(({ name }) => !/^(amq\..*)?$/.test(String(name)));
    assert.deepEqual(own, []);

    await withRelay({ rabbit, env }, (second) => {
      assert.ok(declares(first), "the first relay did not log what it declared");
      assert.ok(!declares(second), "the second relay declared queues that were there");
    });
  });
});

function declares({ logs }: RelayProcess): boolean {
  return logs.some(({ message }) => message === "queues declared");
}

Deno.test("--check where no queue exists: exit 0, each is missing, and none is declared", async () => {
  await withPrefix(DEFAULT_LADDER, async (prefix, amqp) => {
    const { status, output } = await runToEnd({ env: { QUEUE_PREFIX: prefix }, args: ["--check"] });
    assert.equal(status, 0, output);
    for (const queue of queueNames(prefix).all) {
      assert.match(output, new RegExp(`^${queue}\\s+missing`, "m"));
    }
    assert.deepEqual(await existingQueues(amqp, prefix), []);
  });
});

Deno.test("--check beside a running relay: exit 0, says how many tasks wait", async () => {
  const env = { PREFETCH_COUNT: "1", BACKEND_TIMEOUT: "60" };
  await withStage(
    { env, answer: () => ({ hang: true }) },
    async ({ relay, backend, amqp, queues }) => {
      for (let n = 0; n < 3; n++) await relay.accept(String(n));
      await backend.waitFor(1);
      await eventually(async () => assert.equal(await amqp.depth(queues.main), 2));
      const ladder = { QUEUE_PREFIX: relay.prefix, RETRY_LADDER: SHORT_LADDER };
      const { status, output } = await runToEnd({ env: ladder, args: ["--check"] });
      assert.equal(status, 0, output);
      assert.match(output, /RabbitMQ \d+\.\d+/);
      assert.match(output, new RegExp(`^${queues.main}\\s+ready, 2 waiting`, "m"));
      assert.match(output, new RegExp(`^${queues.failed}\\s+ready, 0 waiting`, "m"));
    },
  );
});

Deno.test("QUEUE_TYPE=classic and a QUEUE_PREFIX of one's own: delivered, retried and failed as with the defaults", async () => {
  await withPrefix(SHORT_LADDER, async (random, amqp) => {
    const prefix = `${random}_Acme.orders-1`;
    const queues = queueNames(prefix, SHORT_LADDER);
    await withBackend(async (backend) => {
      backend.answer = ({ body, headers }) => {
        const [hopeless] = body;
        return { status: hopeless === 0x30 || headers["task-attempt"] === "1" ? 500 : 200 };
      };
      const env = relayEnv(backend, { QUEUE_TYPE: "classic", QUEUE_PREFIX: prefix });
      try {
        await withRelay({ env }, async (relay) => {
          const [failing, passing] = [await relay.accept("0"), await relay.accept("1")];
          await eventually(async () => assert.equal(await amqp.depth(queues.failed), 1));
          await eventually(() => assert.equal(requestsOf(backend, passing).length, 2));
          const [failed] = await amqp.peekAll(queues.failed);
          assert.equal(failed?.id, failing);
          assert.equal(failed?.headers["relay-reason"], "attempts_exhausted");
          assert.equal(await relay.stop(), 0);
          assert.equal(await amqp.depth(queues.main), 0);
        });
      } finally {
        await amqp.deletePrefix(prefix, SHORT_LADDER);
      }
    });
  });
});
