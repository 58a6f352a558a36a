/**
 * Whether the ledger can be written, for `/readyz` and the log: tried now and then, so that it is
 * known before the first client needs it. Reading would not tell of a disk that is full.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Ledger } from "./ledger.ts";
import { LedgerUnavailableError } from "./store.ts";

const log = getLogger(["relay", "ledger"]);

/** Between two questions, milliseconds. */
const PAUSE_MS = 1_000;

/** The ledger's state as it was last seen. */
export interface LedgerWatch {
  /** `off`, `ready`, or why it can't be reached. */
  readonly state: string;
  /** Asks no more. */
  stop(): void;
}

/** Watches a ledger; without one the state is `off`. */
export function watchLedger(
  ledger: Pick<Ledger, "probe"> | undefined,
  clock: Clock,
): LedgerWatch {
  const stopping = new AbortController();
  let state = ledger === undefined ? "off" : "starting";
  const watch = async (asked: NonNullable<typeof ledger>): Promise<void> => {
    while (!stopping.signal.aborted) {
      const seen = await look(asked);
      report(state, seen);
      state = seen;
      await clock.sleep(PAUSE_MS, stopping.signal);
    }
  };
  if (ledger !== undefined) void watch(ledger);
  return {
    get state(): string {
      return state;
    },
    stop: () => stopping.abort(),
  };
}

async function look(ledger: Pick<Ledger, "probe">): Promise<string> {
  try {
    await ledger.probe();
    return "ready";
  } catch (error) {
    if (!(error instanceof LedgerUnavailableError)) throw error;
    return `unavailable: ${error.message}`;
  }
}

function report(before: string, now: string): void {
  const wasAway = before.startsWith("unavailable");
  const isAway = now.startsWith("unavailable");
  if (isAway && !wasAway) log.error("ledger can't be reached", { error: now });
  if (!isAway && wasAway) log.info("ledger reachable again");
}
