/**
 * Where the ledger's contract tests keep records: a directory, or a Redis of their own. Both can be
 * opened by several stores and processes at once, taken away, and given back.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import type { Clock } from "../../src/clock.ts";
import { systemClock } from "../../src/clock.ts";
import { RedisStore } from "../../src/ledger/redis_store.ts";
import { SqliteStore } from "../../src/ledger/sqlite_store.ts";
import type { LedgerStore } from "../../src/ledger/store.ts";
import { startRedis } from "./redis.ts";

const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));
const WRITER = fileURLToPath(new URL("./ledger_writer.ts", import.meta.url));
const PREFIX = "tasks";
const LONG_RETENTION_MS = 3_600_000;

/** How a store is opened, in this process or in another. */
export type Where =
  | { readonly kind: "sqlite"; readonly dataDir: string }
  | { readonly kind: "redis"; readonly url: string };

/** A place for records. */
export interface Place extends AsyncDisposable {
  readonly where: Where;
  /** Takes it away: what is asked of a store from now on fails. */
  takeAway(): Promise<void>;
  /** Gives it back, with what it held if it can hold anything. */
  giveBack(): Promise<void>;
}

/** Opens a store; the caller closes it. */
export function openStore(
  where: Where,
  retentionMs = LONG_RETENTION_MS,
  clock: Clock = systemClock,
): LedgerStore {
  const common = { prefix: PREFIX, retentionMs, clock };
  return where.kind === "sqlite"
    ? new SqliteStore({ ...common, dataDir: where.dataDir })
    : new RedisStore({ ...common, url: where.url });
}

/** Runs `fn` with an open store and closes it. */
export async function withStore<T>(
  where: Where,
  fn: (store: LedgerStore) => Promise<T>,
  retentionMs = LONG_RETENTION_MS,
  clock: Clock = systemClock,
): Promise<T> {
  const store = openStore(where, retentionMs, clock);
  try {
    return await fn(store);
  } finally {
    await store.close();
  }
}

/** A directory for the embedded ledger. */
export async function sqlitePlace(): Promise<Place & { readonly file: string }> {
  const root = await Deno.makeTempDir({ prefix: "queue-relay-ledger-" });
  const dataDir = `${root}/data`;
  return {
    where: { kind: "sqlite", dataDir },
    file: `${dataDir}/${PREFIX}.ledger.sqlite`,
    /** Root may write where nobody else may, but not into what is no directory. */
    async takeAway(): Promise<void> {
      await Deno.rename(dataDir, `${root}/away`);
      await Deno.writeTextFile(dataDir, "");
    },
    async giveBack(): Promise<void> {
      await Deno.remove(dataDir);
      await Deno.rename(`${root}/away`, dataDir);
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await Deno.remove(root, { recursive: true });
    },
  };
}

/** A Redis of the test's own. */
export async function redisPlace(): Promise<Place> {
  const redis = await startRedis();
  return {
    where: { kind: "redis", url: redis.url() },
    takeAway: () => redis.kill(),
    giveBack: () => redis.start(),
    [Symbol.asyncDispose]: () => redis.stop(),
  };
}

/** What a process of its own is to do with the ledger; `ledger_writer.ts` does it. */
export type Work =
  /** Makes records until it is killed; prints the id of each that was acknowledged. */
  | { readonly kind: "write" }
  /** Counts up in one record, `times` times, several at once. */
  | { readonly kind: "count"; readonly times: number }
  /** Writes until a write fails, then until one succeeds again; prints each change. */
  | { readonly kind: "watch" };

/** Starts a process that works on the ledger; `shell` is put before the command in a shell. */
export function spawnWriter(where: Where, work: Work, shell = ""): Deno.ChildProcess {
  const permissions = ["--allow-env", "--allow-net", "--allow-read", "--allow-write"];
  const command = ["run", "--config", CONFIG, "--no-prompt", ...permissions, WRITER];
  return new Deno.Command("sh", {
    args: [
      "-c",
      `${shell}\nexec "$@"`,
      "sh",
      Deno.execPath(),
      ...command,
      JSON.stringify({ where, work }),
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
}
