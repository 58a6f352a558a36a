/**
 * What only the ledger in Redis has to stand: silence, a server that forgets the scripts, a wrong
 * password; and what others find there under which name.
 *
 * @module
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { inspect } from "node:util";
import { Ledger } from "../../src/ledger/ledger.ts";
import { LedgerUnavailableError } from "../../src/ledger/store.ts";
import { eventually } from "../support/eventually.ts";
import { withStore } from "../support/ledger_places.ts";
import { startRedis } from "../support/redis.ts";
import { withTcpRelay } from "../support/tcp_relay.ts";

const PASSWORD = "geheim-4711";

Deno.test("ledger in Redis: silent → an error in bounded time; heard again → it goes on", async () => {
  await using redis = await startRedis();
  await withTcpRelay(
    { targetHost: redis.host, targetPort: redis.port },
    (relay) =>
      withStore({ kind: "redis", url: redis.url(relay.port) }, async (store) => {
        const ledger = new Ledger(store);
        await ledger.accept({ id: "a", enqueuedAt: 1 });
        relay.blackhole();
        const message = await unavailable(ledger.status("a"));
        assert.match(message, /no answer within \d+ ms/);
        await unavailable(ledger.status("a"));
        relay.heal();
        await eventually(async () => {
          assert.equal((await ledger.status("a"))?.status, "queued");
        });
      }),
  );
});

Deno.test("ledger in Redis: silent from the start → it closes all the same", async () => {
  await using redis = await startRedis();
  await withTcpRelay({ targetHost: redis.host, targetPort: redis.port }, async (relay) => {
    relay.blackhole();
    await withStore({ kind: "redis", url: redis.url(relay.port) }, async (store) => {
      await unavailable(new Ledger(store).status("a"));
    });
  });
});

Deno.test("ledger in Redis: connections cut again and again → every record is whole", async () => {
  await using redis = await startRedis();
  await withTcpRelay(
    { targetHost: redis.host, targetPort: redis.port },
    (relay) =>
      withStore({ kind: "redis", url: redis.url(relay.port) }, async (store) => {
        const ledger = new Ledger(store);
        for (let n = 0; n < 10; n++) {
          let isCut = false;
          relay.cutAfter(n % 2 === 0 ? "toServer" : "toClient", 20 + 37 * n)
            .then(() => isCut = true);
          // Asked again until it is known to be done; done twice it is the same as done once.
          await eventually(async () => {
            await ledger.accept({ id: `task-${n}`, enqueuedAt: 1 });
            assert.ok(isCut);
          });
        }
        await eventually(async () => {
          for (let n = 0; n < 10; n++) {
            assert.equal((await ledger.status(`task-${n}`))?.status, "queued");
          }
        });
      }),
  );
});

Deno.test("ledger in Redis: the server has forgotten the scripts → they are sent again", async () => {
  await using redis = await startRedis();
  await withStore({ kind: "redis", url: redis.url() }, async (store) => {
    const ledger = new Ledger(store);
    await ledger.accept({ id: "a", enqueuedAt: 1 });
    assert.match(await redis.command("SCRIPT", "FLUSH"), /^\+OK/);
    await ledger.accept({ id: "b", enqueuedAt: 1 });
    assert.equal((await ledger.status("b"))?.status, "queued");
  });
});

Deno.test("ledger in Redis: wrong password → the error names the server, and no password", async () => {
  await using redis = await startRedis({ password: PASSWORD });
  const url = redis.url().replace(PASSWORD, `${PASSWORD}-wrong`);
  await withStore({ kind: "redis", url }, async (store) => {
    const error = await new Ledger(store).status("a").catch((error: unknown) => error);
    assert.ok(error instanceof LedgerUnavailableError);
    assert.match(error.message, new RegExp(`^the ledger in Redis at ${redis.host}:${redis.port}`));
    assert.match(error.message, /WRONGPASS/);
    assert.ok(!inspect(error, { depth: 10, showHidden: true }).includes(PASSWORD));
  });
  await withStore({ kind: "redis", url: redis.url() }, async (store) => {
    assert.equal(await new Ledger(store).status("a"), undefined);
  });
});

Deno.test("ledger in Redis: no more memory → an error with Redis' own words", async () => {
  await using redis = await startRedis();
  await withStore({ kind: "redis", url: redis.url() }, async (store) => {
    const ledger = new Ledger(store);
    await ledger.accept({ id: "a", enqueuedAt: 1 });
    await redis.command("CONFIG", "SET", "maxmemory", "1");
    assert.match(await unavailable(ledger.accept({ id: "b", enqueuedAt: 1 })), /OOM/);
    await redis.command("CONFIG", "SET", "maxmemory", "0");
    await ledger.accept({ id: "b", enqueuedAt: 1 });
  });
});

Deno.test("ledger in Redis: a record and its key have the documented names, and one end", async () => {
  await using redis = await startRedis();
  await withStore({ kind: "redis", url: redis.url() }, async (store) => {
    const ledger = new Ledger(store);
    const hash = createHash("sha256").update("a key").digest("hex");
    const names = ["{tasks}:ledger:task:a", `{tasks}:ledger:key:${hash}`];
    const lives = (): Promise<number[]> => Promise.all(names.map((name) => timeToLive(name)));
    const timeToLive = async (name: string): Promise<number> =>
      Number((await redis.command("PEXPIRETIME", name)).slice(1));

    await ledger.reserve({ id: "a", key: "a key", fingerprint: "f", enqueuedAt: 1, leaseMs: 1000 });
    await ledger.accept({ id: "a", enqueuedAt: 1 });
    assert.deepEqual(await lives(), [-1, -1]); // they stay while the task is unfinished
    const conclusion = { kind: "delivered", lastStatus: 200 } as const;
    await ledger.conclude({ id: "a", attempt: 1, enqueuedAt: 1, conclusion });
    const finishedAt = (await ledger.status("a"))?.finishedAt ?? 0;
    const [record = 0, key = 0] = await lives();
    assert.equal(record, key);
    assert.ok(record >= finishedAt + 3_600_000 && record < finishedAt + 3_610_000);
  });
});

/** The message with which the ledger refused. */
async function unavailable(asked: Promise<unknown>): Promise<string> {
  const error = await asked.then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof LedgerUnavailableError, `not refused: ${error}`);
  return error.message;
}
