/**
 * A process of its own that works on a ledger, for tests that kill it, limit it, or run two at once.
 *
 * @module
 */
import { LedgerUnavailableError } from "../../src/ledger/store.ts";
import type { LedgerStore } from "../../src/ledger/store.ts";
import { openStore } from "./ledger_places.ts";
import type { Where, Work } from "./ledger_places.ts";

/** At once, so that groups are larger than one; those who count are in each other's way. */
const WRITERS = 5;
const COUNTERS = 2;

const { where, work }: { where: Where; work: Work } = JSON.parse(Deno.args[0] ?? "");
const store = openStore(where);
await perform(work);
await store.close();

async function perform(work: Work): Promise<void> {
  if (work.kind === "count") return await count(store, work.times);
  if (work.kind === "watch") return await watch(store);
  await Promise.all(Array.from({ length: WRITERS }, (_, n) => writeForever(store, n)));
}

async function writeForever(store: LedgerStore, writer: number): Promise<void> {
  for (let n = 0;; n++) {
    const id = `${writer}-${n}`;
    await write(store, id, "");
    console.log(id);
  }
}

async function count(store: LedgerStore, times: number): Promise<void> {
  let left = times;
  await Promise.all(Array.from({ length: COUNTERS }, async () => {
    while (left-- > 0) await store.update({ by: "id", id: "counter" }, countUp, false);
  }));
}

function countUp(record: Parameters<Parameters<LedgerStore["update"]>[1]>[0]): {
  answer: undefined;
  record: NonNullable<typeof record>;
} {
  const { attempts } = record ?? { attempts: 0 };
  const counted = { id: "counter", state: "queued", attempt: 1, enqueuedAt: 1 } as const;
  return { answer: undefined, record: { ...counted, attempts: attempts + 1 } };
}

async function watch(store: LedgerStore): Promise<void> {
  let wantsFailure = true;
  for (let n = 0;; n++) {
    const failure = await write(store, `watched-${n}`, "x".repeat(10_000)).catch(unavailable);
    if ((failure !== undefined) !== wantsFailure) continue;
    console.log(failure ?? "works again");
    if (!wantsFailure) return;
    wantsFailure = false;
  }
}

async function write(store: LedgerStore, id: string, lastError: string): Promise<undefined> {
  const record = {
    id,
    state: "queued",
    attempt: 1,
    attempts: 0,
    enqueuedAt: 1,
    lastError,
  } as const;
  await store.update({ by: "id", id }, () => ({ answer: undefined, record }), true);
}

function unavailable(error: unknown): string {
  if (error instanceof LedgerUnavailableError) return error.message;
  throw error;
}
