/**
 * The ledger that the configuration asks for.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import { Ledger } from "./ledger.ts";
import { RedisStore } from "./redis_store.ts";
import { SqliteStore } from "./sqlite_store.ts";

/** Opens the ledger, embedded or in Redis; undefined with LEDGER=off. Connects when first used. */
export function openLedger(
  { ledger, queues, dataDir, redisUrl }: Pick<
    Config,
    "ledger" | "queues" | "dataDir" | "redisUrl"
  >,
  clock: Clock,
): Ledger | undefined {
  if (ledger === undefined) return undefined;
  const { retentionMs } = ledger;
  const common = { prefix: queues.prefix, retentionMs, clock };
  const store = redisUrl === undefined
    ? new SqliteStore({ ...common, dataDir })
    : new RedisStore({ ...common, url: redisUrl });
  return new Ledger(store);
}
