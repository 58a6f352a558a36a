/**
 * Removes what is past its retention from the ledger: a little at a time, so that no task waits for
 * it.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import { LedgerUnavailableError } from "../ledger/store.ts";

const log = getLogger(["relay", "ledger"]);

/** Between two sweeps that found something, and between two when there was nothing, milliseconds. */
const BUSY_PAUSE_MS = 250;
const IDLE_PAUSE_MS = 10_000;

/** Sweeps until `stopping` aborts. */
export async function sweepUntil(
  stopping: AbortSignal,
  ledger: { sweep(): Promise<number> },
  clock: Clock,
): Promise<void> {
  while (!stopping.aborted) {
    const gone = await sweepOnce(ledger);
    await clock.sleep(gone > 0 ? BUSY_PAUSE_MS : IDLE_PAUSE_MS, stopping);
  }
}

/** A ledger that can't be reached is swept later; whoever needs it now says that it is away. */
async function sweepOnce(ledger: { sweep(): Promise<number> }): Promise<number> {
  try {
    return await ledger.sweep();
  } catch (error) {
    if (!(error instanceof LedgerUnavailableError)) throw error;
    log.debug("sweep skipped", { error: error.message });
    return 0;
  }
}
