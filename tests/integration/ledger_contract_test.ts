/**
 * The contract of a ledger's store, which the one in a file and the one in Redis both keep. What
 * only one of them has to keep is in `ledger_sqlite_test.ts` and `ledger_redis_test.ts`.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Ledger } from "../../src/ledger/ledger.ts";
import type { KeyedAcceptance, TaskRecord } from "../../src/ledger/record.ts";
import { LedgerUnavailableError } from "../../src/ledger/store.ts";
import type { LedgerStore } from "../../src/ledger/store.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Place,
  redisPlace,
  spawnWriter,
  sqlitePlace,
  withStore,
} from "../support/ledger_places.ts";

const LEASE_MS = 60_000;
const COUNTS = 150;
const OWNER = { relay: "a relay", run: "first" };
const STARTED_AGAIN = { ...OWNER, run: "second" };
const ANOTHER = { relay: "another relay", run: "third" };

contract("SQLite", sqlitePlace);
contract("Redis", redisPlace);

function contract(name: string, makePlace: () => Promise<Place>): void {
  const test = (what: string, fn: (place: Place) => Promise<void>): void =>
    Deno.test(`ledger in ${name}: ${what}`, async () => {
      await using place = await makePlace();
      await fn(place);
    });

  test("50 reserve one key at once → one has it, 49 are told to wait", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      const ids = Array.from({ length: 50 }, (_, n) => `task-${n}`);
      const answers = await Promise.all(ids.map((id) => ledger.reserve(keyed(id))));
      const kinds = answers.map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "reserved").length, 1);
      assert.equal(kinds.filter((kind) => kind === "accepting").length, 49);
    }));

  test("a key that is taken → replayed with its id; another payload → mismatched", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      await ledger.reserve(keyed("a"));
      await ledger.accept(keyed("a"));
      assert.deepEqual(await ledger.reserve(keyed("b")), { kind: "replayed", id: "a" });
      const other = { ...keyed("c"), fingerprint: "other" };
      assert.deepEqual(await ledger.reserve(other), { kind: "mismatched" });
      const otherKey = { ...keyed("d"), key: "another key" };
      assert.deepEqual(await ledger.reserve(otherKey), { kind: "reserved", id: "d" });
    }));

  test("released → the key is free; in doubt → its id stays with it", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      await ledger.reserve(keyed("a"));
      await ledger.release("a");
      assert.equal(await ledger.status("a"), undefined);
      assert.deepEqual(await ledger.reserve(keyed("b")), { kind: "reserved", id: "b" });
      await ledger.doubt("b");
      assert.deepEqual(await ledger.reserve(keyed("c")), { kind: "reserved", id: "b" });
      await ledger.release("b");
      assert.deepEqual(await ledger.reserve(keyed("d")), { kind: "reserved", id: "b" });
    }));

  test("a lease that is over → the next one gets the key, or the attempt", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      await ledger.reserve({ ...keyed("a"), leaseMs: 1 });
      await ledger.claim({ ...delivery(1), id: "t", leaseMs: 1 });
      await eventually(async () => {
        assert.deepEqual(await ledger.reserve(keyed("b")), { kind: "reserved", id: "a" });
      });
      await eventually(async () => {
        assert.equal((await ledger.claim({ ...delivery(1), id: "t" })).kind, "granted");
      });
    }));

  test("a lease of a relay that was killed → its own when it runs again; others wait", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      const claim = async (owner: typeof OWNER): Promise<string> =>
        (await ledger.claim({ ...delivery(1), owner })).kind;
      assert.equal(await claim(OWNER), "granted");
      assert.deepEqual([await claim(OWNER), await claim(ANOTHER)], ["leased", "leased"]);
      assert.equal(await claim(STARTED_AGAIN), "granted");
      assert.deepEqual([await claim(STARTED_AGAIN), await claim(ANOTHER)], ["leased", "leased"]);
    }));

  test("a lease that is given up → granted to another; only by whom it was granted", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      const claim = await ledger.claim(delivery(1));
      assert.ok(claim.kind === "granted");
      const ofAnother = { ...delivery(1), owner: ANOTHER };
      await ledger.abandon({ id: "t", owner: ANOTHER, until: claim.until });
      await ledger.abandon({ id: "t", owner: OWNER, until: claim.until - 1 });
      assert.equal((await ledger.claim(ofAnother)).kind, "leased");
      await ledger.abandon({ id: "t", owner: OWNER, until: claim.until });
      assert.equal((await ledger.claim(ofAnother)).kind, "granted");
    }));

  test("a lease from before leases had owners → it holds for its time", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      const state = { state: "delivering", attempt: 1, attempts: 0, enqueuedAt: 1 } as const;
      const write = (record: TaskRecord): Promise<void> =>
        store.update({ by: "id", id: record.id }, () => ({ answer: undefined, record }), true);
      await write({ ...state, id: "t", leaseUntil: Date.now() + LEASE_MS });
      await write({ ...state, id: "over", leaseUntil: Date.now() - LEASE_MS });
      for (const owner of [OWNER, STARTED_AGAIN]) {
        assert.equal((await ledger.claim({ ...delivery(1), owner })).kind, "leased");
      }
      const { kind } = await ledger.claim({ ...delivery(1), id: "over" });
      assert.equal(kind, "granted");
    }));

  test("claims: granted, leased, stale, duplicate, cancelled", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      const claim = async (attempt: number): Promise<string> =>
        (await ledger.claim(delivery(attempt))).kind;
      const conclude = (attempt: number, conclusion: Conclusion): Promise<void> =>
        ledger.conclude({ id: "t", attempt, enqueuedAt: 1, conclusion });
      assert.equal(await claim(1), "granted");
      assert.equal(await claim(1), "leased");
      await conclude(1, { kind: "retried", nextAttemptAt: 1, last: { lastStatus: 500 } });
      assert.equal(await claim(1), "stale");
      assert.equal(await claim(2), "granted");
      await conclude(2, { kind: "delivered", lastStatus: 204 });
      assert.equal(await claim(2), "duplicate");
      const status = await ledger.status("t");
      assert.deepEqual([status?.status, status?.attempts, status?.lastStatus], [
        "delivered",
        2,
        204,
      ]);

      await ledger.accept({ id: "c", enqueuedAt: 1 });
      assert.equal(await ledger.cancel("c"), "cancelled");
      assert.equal((await ledger.claim({ ...delivery(1), id: "c" })).kind, "cancelled");
      assert.equal(await ledger.cancel("t"), "finished");
      assert.equal(await ledger.cancel("nobody's"), "unknown");
    }));

  test("closed and opened again → what it held is there", async ({ where }) => {
    await withStore(where, (store) => new Ledger(store).reserve(keyed("a")));
    await withStore(where, async (store) => {
      const ledger = new Ledger(store);
      assert.equal((await ledger.status("a"))?.status, "queued");
      assert.equal((await ledger.reserve(keyed("b"))).kind, "accepting");
    });
  });

  test("closed → what is asked afterwards is refused", async ({ where }) => {
    const store = await withStore(where, async (store) => {
      await new Ledger(store).status("a");
      return store;
    });
    await assert.rejects(new Ledger(store).status("a"), LedgerUnavailableError);
    await store.close();
  });

  test("past its retention → a record goes with its key; an unfinished one stays", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      await ledger.reserve(keyed("a"));
      await ledger.accept({ id: "waits", enqueuedAt: 1 });
      const { enqueuedAt } = delivery(1);
      const conclusion = { kind: "delivered", lastStatus: 200 } as const;
      await ledger.conclude({ id: "a", attempt: 1, enqueuedAt, conclusion });
      await eventually(async () => {
        await ledger.sweep();
        assert.equal(await ledger.status("a"), undefined);
      });
      assert.deepEqual(await ledger.reserve(keyed("b")), { kind: "reserved", id: "b" });
      assert.equal((await ledger.status("waits"))?.status, "queued");
    }, 30));

  test("a change that throws → fails alone; those beside it are kept", ({ where }) =>
    withStore(where, async (store) => {
      const ledger = new Ledger(store);
      const bug = store.update({ by: "id", id: "x" }, () => {
        throw new RangeError("a bug");
      }, true);
      const beside = ["a", "b"].map((id) => ledger.accept({ id, enqueuedAt: 1 }));
      await assert.rejects(bug, RangeError);
      await Promise.all(beside);
      assert.equal((await ledger.status("a"))?.status, "queued");
      assert.equal((await ledger.status("b"))?.status, "queued");
    }));

  test("a writing process is killed → everything that it was told of is there", async (place) => {
    const child = spawnWriter(place.where, { kind: "write" });
    const acknowledged = await linesUntil(child, 100);
    assert.ok(acknowledged.length >= 100);
    await withStore(place.where, async (store) => {
      const ledger = new Ledger(store);
      const found = await Promise.all(acknowledged.map((id) => ledger.status(id)));
      assert.deepEqual(found.map((status) => status?.id), acknowledged);
    });
  });

  test("two processes write one record → no update is lost", async ({ where }) => {
    const children = [1, 2].map(() => spawnWriter(where, { kind: "count", times: COUNTS }));
    const outputs = await Promise.all(children.map((child) => child.output()));
    assert.deepEqual(outputs.map(({ code }) => code), [0, 0]);
    await withStore(where, async (store) => {
      assert.equal((await new Ledger(store).status("counter"))?.attempts, 2 * COUNTS);
    });
  });

  test("away → an error that says so; back → it goes on by itself", (place) =>
    withStore(place.where, async (store) => {
      const ledger = new Ledger(store);
      await ledger.accept({ id: "before", enqueuedAt: 1 });
      await place.takeAway();
      await eventually(() => failing(store));
      await place.giveBack();
      await eventually(() => ledger.accept({ id: "after", enqueuedAt: 1 }));
      assert.equal((await ledger.status("before"))?.status, "queued");
      assert.equal((await ledger.status("after"))?.status, "queued");
    }));

  test("away at the start → it begins to work when it is there", async (place) => {
    await withStore(place.where, (store) => new Ledger(store).accept({ id: "a", enqueuedAt: 1 }));
    await place.takeAway();
    await withStore(place.where, async (store) => {
      await failing(store);
      await place.giveBack();
      await eventually(async () => {
        assert.equal((await new Ledger(store).status("a"))?.status, "queued");
      });
    });
  });
}

type Conclusion = Parameters<Ledger["conclude"]>[0]["conclusion"];

function keyed(id: string): KeyedAcceptance {
  return { id, key: "a key", fingerprint: "f", enqueuedAt: 1, leaseMs: LEASE_MS };
}

function delivery(attempt: number): Parameters<Ledger["claim"]>[0] {
  return { id: "t", attempt, enqueuedAt: 1, leaseMs: LEASE_MS, owner: OWNER };
}

/** Asserts that the store refuses, and says that it is the ledger that can't be used. */
async function failing(store: LedgerStore): Promise<void> {
  await assert.rejects(new Ledger(store).status("a"), (error: unknown) => {
    assert.ok(error instanceof LedgerUnavailableError);
    assert.match(error.message, /^the ledger .+ can't be used: /);
    return true;
  });
}

/** Kills the process when it has printed so many lines; gives all that it has printed. */
async function linesUntil(child: Deno.ChildProcess, count: number): Promise<string[]> {
  let text = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    const enough = text.split("\n").length > count;
    text += chunk;
    if (!enough && text.split("\n").length > count) child.kill("SIGKILL");
  }
  await child.status;
  return text.split("\n").slice(0, -1);
}
