/**
 * Long tests side by side: what mostly waits takes no longer beside another.
 *
 * @module
 */

/** Settles when all have settled, so that none runs on past a test. @throws what failed first */
export async function alongside(...runs: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(runs);
  await Promise.all(runs);
}
