/**
 * Queues that exist with other arguments: told in full before anything is declared, by a relay that
 * then doesn't start and by `--check`.
 *
 * @module
 */
import assert from "node:assert/strict";
import amqplib from "amqplib";
import { rabbitAddress } from "../support/environment.ts";
import { DEFAULT_LADDER } from "../support/queues.ts";
import { withRelay } from "../support/relay.ts";
import { existingQueues, runToEnd, SHORT_LADDER, withPrefix } from "./stage.ts";

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

/** Declares a queue as somebody else might have. */
async function declareForeign(name: string, args: Arguments, durable = true): Promise<void> {
  const { host: hostname, port } = rabbitAddress();
  const connection = await amqplib.connect({ hostname, port });
  const channel = await connection.createChannel();
  await channel.assertQueue(name, { durable, arguments: args });
  await connection.close();
}

const WAY_OUT = [
  /set the environment back/,
  /another QUEUE_PREFIX/,
  /delete_queue/,
  /Nothing was declared or changed/,
];

Deno.test("case 9: a queue exists with another TTL: the relay exits 1, names queue, argument, both values and the way out, and declares nothing", async () => {
  await withPrefix(DEFAULT_LADDER, async (prefix, amqp) => {
    const rung = `${prefix}.retry.15s`;
    await declareForeign(rung, {
      ...QUORUM,
      ...deadLetter(`${prefix}.main`),
      "x-message-ttl": 14_999,
    });
    const [run, check] = await Promise.all([
      runToEnd({ env: { QUEUE_PREFIX: prefix } }),
      runToEnd({ env: { QUEUE_PREFIX: prefix }, args: ["--check"] }),
    ]);
    for (const { status, output } of [run, check]) {
      assert.equal(status, 1, output);
      const line = output.split("\n").find((text) => text.includes(rung)) ?? "";
      assert.match(line, /x-message-ttl.*14999.*15000/);
    }
    for (const words of WAY_OUT) assert.match(run.output, words);
    assert.match(check.output, /would refuse to start/);
    assert.deepEqual(await existingQueues(amqp, prefix), [rung]);
  });
});

/** A queue that differs, with what of it must be told: argument, value there, value wanted. */
const DIFFERENCES: readonly {
  readonly queue: string;
  readonly there: (prefix: string) => Arguments;
  readonly told: RegExp;
}[] = [
  {
    queue: "main",
    there: (prefix) => ({
      ...QUORUM,
      ...deadLetter(`${prefix}.failed`),
      "x-delivery-limit": 100,
    }),
    told: /x-single-active-consumer.*none.*true/,
  },
  {
    queue: "retry.3s",
    there: () => ({ "x-queue-type": "classic", "x-message-ttl": 3_000 }),
    told: /x-queue-type.*classic.*quorum/,
  },
  {
    queue: "retry.60s",
    there: (prefix) => ({
      ...QUORUM,
      ...deadLetter(`${prefix}.elsewhere`),
      "x-message-ttl": 59_000,
    }),
    told: /x-dead-letter-routing-key.*\.elsewhere.*\.main; x-message-ttl.*59000.*60000/,
  },
  {
    queue: "retry.120s",
    there: (prefix) => ({ ...QUORUM, ...deadLetter(`${prefix}.main`) }),
    told: /x-message-ttl.*none.*120000/,
  },
  {
    queue: "failed",
    there: () => ({}),
    told: /x-queue-type.*(classic|none).*quorum/,
  },
];

Deno.test("case 9: queues of another type, without a single active consumer, with another target: all are told at once", async () => {
  await withPrefix(DEFAULT_LADDER, async (prefix, amqp) => {
    for (const { queue, there } of DIFFERENCES) {
      await declareForeign(`${prefix}.${queue}`, there(prefix));
    }
    const [run, check] = await Promise.all([
      runToEnd({ env: { QUEUE_PREFIX: prefix } }),
      runToEnd({ env: { QUEUE_PREFIX: prefix }, args: ["--check"] }),
    ]);
    for (const { status, output } of [run, check]) {
      assert.equal(status, 1, output);
      for (const { queue, told } of DIFFERENCES) {
        const lines = output.split("\n").filter((text) => text.includes(`${prefix}.${queue}`));
        assert.ok(lines.some((line) => told.test(line)), `${queue}: ${told} in\n${output}`);
      }
    }
    const names = DIFFERENCES.map(({ queue }) => `${prefix}.${queue}`);
    assert.deepEqual((await existingQueues(amqp, prefix)).sort(), names.sort());
  });
});

Deno.test("case 9: quorum queues exist and QUEUE_TYPE=classic is asked for: refused, in both directions", async () => {
  await withPrefix(SHORT_LADDER, async (prefix) => {
    const env = { QUEUE_PREFIX: prefix, RETRY_LADDER: SHORT_LADDER };
    await withRelay({ env }, () => {});
    const { status, output } = await runToEnd({ env: { ...env, QUEUE_TYPE: "classic" } });
    assert.equal(status, 1, output);
    assert.match(output, new RegExp(`${prefix}\\.main: x-queue-type.*quorum.*classic`));
  });
  await withPrefix(SHORT_LADDER, async (prefix) => {
    const env = { QUEUE_PREFIX: prefix, RETRY_LADDER: SHORT_LADDER };
    await withRelay({ env: { ...env, QUEUE_TYPE: "classic" } }, () => {});
    const { status, output } = await runToEnd({ env });
    assert.equal(status, 1, output);
    assert.match(output, new RegExp(`${prefix}\\.main: x-queue-type.*classic.*quorum`));
  });
});
