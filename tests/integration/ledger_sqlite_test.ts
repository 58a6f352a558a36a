/**
 * What only the ledger in a file has to stand: locks, a disk that refuses, files that are damaged,
 * moved aside, or too new.
 *
 * @module
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../src/clock.ts";
import { systemClock } from "../../src/clock.ts";
import { Ledger } from "../../src/ledger/ledger.ts";
import { LedgerUnavailableError } from "../../src/ledger/store.ts";
import { eventually } from "../support/eventually.ts";
import { spawnWriter, sqlitePlace, withStore } from "../support/ledger_places.ts";

/** Longer than a store waits for a lock, and than it waits before it opens a broken file again. */
const LATER_MS = 10_000;

Deno.test("ledger file: updates of one turn → one commit for all of them", async () => {
  await using place = await sqlitePlace();
  await withStore(place.where, async (store) => {
    const ledger = new Ledger(store);
    await ledger.status("opens it");
    const reader = new DatabaseSync(place.file);
    const version = reader.prepare("PRAGMA data_version"); // changes with every commit of others
    const seen = new Set<unknown>();
    const tasks = Array.from({ length: 100 }, (_, n) => ({ id: `task-${n}`, enqueuedAt: 1 }));
    await Promise.all(tasks.map(async (task) => {
      await ledger.accept(task);
      seen.add(version.get()?.data_version);
    }));
    reader.close();
    assert.equal(seen.size, 1);
    assert.equal((await ledger.status("task-99"))?.status, "queued");
  });
});

Deno.test("ledger file: locked for a while by another → the update waits, and other work goes on", async () => {
  await using place = await sqlitePlace();
  await withStore(place.where, async (store) => {
    const ledger = new Ledger(store);
    await ledger.status("opens it");
    const other = lock(place.file);
    let turns = 0;
    const turning = setInterval(() => turns++, 1);
    const accepted = ledger.accept({ id: "a", enqueuedAt: 1 });
    await eventually(() => assert.ok(turns > 10));
    clearInterval(turning);
    other.exec("ROLLBACK");
    other.close();
    await accepted;
    assert.equal((await ledger.status("a"))?.status, "queued");
  });
});

Deno.test("ledger file: locked for too long → an error that says so; unlocked → it goes on", async () => {
  await using place = await sqlitePlace();
  const clock = new ShiftedClock();
  await withStore(
    place.where,
    async (store) => {
      const ledger = new Ledger(store);
      await ledger.status("opens it");
      const other = lock(place.file);
      const refused = unavailable(ledger.accept({ id: "a", enqueuedAt: 1 }));
      clock.aheadMs += LATER_MS;
      assert.match(await refused, /database is locked: another process holds its lock/);
      other.exec("ROLLBACK");
      other.close();
      await ledger.accept({ id: "b", enqueuedAt: 1 });
      assert.equal(await ledger.status("a"), undefined);
      assert.equal((await ledger.status("b"))?.status, "queued");
    },
    undefined,
    clock,
  );
});

Deno.test("ledger file: damaged → an error says to move it aside; moved → a new one is begun", async () => {
  await using place = await sqlitePlace();
  await withStore(place.where, (store) => new Ledger(store).accept({ id: "a", enqueuedAt: 1 }));
  await Deno.writeTextFile(place.file, "this is no ledger ".repeat(1_000));
  await withStore(place.where, async (store) => {
    const ledger = new Ledger(store);
    const message = await unavailable(ledger.status("a"));
    assert.ok(message.includes(place.file), message);
    assert.match(message, /file is not a database: the file is damaged: move it aside/);
    await Deno.rename(place.file, `${place.file}.damaged`);
    await eventually(() => ledger.accept({ id: "b", enqueuedAt: 1 }));
    assert.equal(await ledger.status("a"), undefined);
    assert.equal((await ledger.status("b"))?.status, "queued");
  });
});

Deno.test("ledger file: pages damaged while it is open → refused, and nobody is told a wrong state", async () => {
  await using place = await sqlitePlace();
  await withStore(place.where, async (store) => {
    const tasks = Array.from({ length: 500 }, (_, n) => ({ id: `task-${n}`, enqueuedAt: 1 }));
    await Promise.all(tasks.map((task) => new Ledger(store).accept(task)));
  });
  const file = await Deno.open(place.file, { write: true });
  await file.seek(4096, Deno.SeekMode.Start);
  await file.write(new Uint8Array((await file.stat()).size - 4096).fill(0x55));
  file.close();
  await withStore(place.where, async (store) => {
    const message = await unavailable(new Ledger(store).accept({ id: "new", enqueuedAt: 1 }));
    assert.match(message, /malformed: the file is damaged: move it aside/);
  });
});

Deno.test("ledger file: moved aside while two have it open → both go on in the new one", async () => {
  await using place = await sqlitePlace();
  const clock = new ShiftedClock();
  await withStore(
    place.where,
    (first) =>
      withStore(
        place.where,
        async (second) => {
          await new Ledger(first).accept({ id: "a", enqueuedAt: 1 });
          assert.equal((await new Ledger(second).status("a"))?.status, "queued");
          for (const end of ["", "-wal", "-shm"]) {
            await Deno.rename(`${place.file}${end}`, `${place.file}.old${end}`);
          }
          clock.aheadMs += LATER_MS;
          await new Ledger(first).accept({ id: "b", enqueuedAt: 1 });
          assert.equal((await new Ledger(second).status("b"))?.status, "queued");
          assert.equal(await new Ledger(second).status("a"), undefined);
        },
        undefined,
        clock,
      ),
    undefined,
    clock,
  );
});

Deno.test("ledger file: of a newer relay → an error names both versions, and it stays as it was", async () => {
  await using place = await sqlitePlace();
  await withStore(place.where, (store) => new Ledger(store).accept({ id: "a", enqueuedAt: 1 }));
  pragma(place.file, "user_version = 7");
  await withStore(place.where, async (store) => {
    const message = await unavailable(new Ledger(store).status("a"));
    assert.match(message, /it has version 7, and this relay knows none after 1: use the newer/);
  });
  pragma(place.file, "user_version = 1");
  await withStore(place.where, async (store) => {
    assert.equal((await new Ledger(store).status("a"))?.status, "queued");
  });
});

Deno.test("ledger file: the disk takes no more → an error; it takes more → it goes on", async () => {
  await using place = await sqlitePlace();
  // A limit on the size of files stands in for the disk: it needs no root, and can be lifted.
  const child = spawnWriter(place.where, { kind: "watch" }, "trap '' XFSZ; ulimit -S -f 2000");
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const failure = (await lines.read()).value ?? "";
  assert.match(failure, /^the ledger .+ can't be used: .+: (see the system's log|free space)/);
  const lift = ["--pid", String(child.pid), "--fsize=unlimited:"];
  const { success } = await new Deno.Command("prlimit", { args: lift }).output();
  assert.ok(success, "prlimit failed");
  assert.equal((await lines.read()).value, "works again\n");
  assert.ok((await lines.read()).done);
  assert.equal((await child.status).code, 0);
});

Deno.test("ledger file: a sweep removes a bounded number, the oldest first", async () => {
  await using place = await sqlitePlace();
  await withStore(place.where, async (store) => {
    const ledger = new Ledger(store);
    const conclusion = { kind: "delivered", lastStatus: 200 } as const;
    const ids = Array.from({ length: 600 }, (_, n) => `task-${n}`);
    await Promise.all(
      ids.map((id) => ledger.conclude({ id, attempt: 1, enqueuedAt: 1, conclusion })),
    );
    const counts: number[] = [];
    await eventually(async () => {
      const count = await ledger.sweep();
      if (count > 0) counts.push(count);
      assert.deepEqual(counts, [500, 100]);
    });
  }, 0);
});

/** A clock that can be put forward. */
class ShiftedClock implements Clock {
  aheadMs = 0;
  now = (): number => systemClock.now() + this.aheadMs;
  monotonic = (): number => systemClock.monotonic() + this.aheadMs;
  sleep = systemClock.sleep;
}

/** Takes the file's write lock by another connection. */
function lock(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec("BEGIN IMMEDIATE");
  return database;
}

function pragma(file: string, setting: string): void {
  const database = new DatabaseSync(file);
  database.exec(`PRAGMA ${setting}`);
  database.close();
}

/** The message with which the ledger refused. */
async function unavailable(asked: Promise<unknown>): Promise<string> {
  const error = await asked.then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof LedgerUnavailableError, `not refused: ${error}`);
  return error.message;
}
