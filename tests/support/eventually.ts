/**
 * Waiting for something to become true without a fixed sleep.
 *
 * A sleep that is long enough for a busy machine makes every run slow, and a short one makes tests
 * fail by chance. `eventually` asks again and again, goes on the moment the assertion holds, and
 * fails with the assertion's own words.
 *
 * @module
 */

/**
 * How long a test waits for what should happen soon, milliseconds. Far longer than it takes: on a
 * machine that others use as well, everything stands still for ten seconds now and then, and what a
 * test claims is that it happens, not when. Where the time is the claim, the test says so itself.
 */
export const PATIENCE_MS = 60_000;

/** How long `eventually` goes on asking. */
export interface Patience {
  /** Milliseconds until it gives up; {@link PATIENCE_MS} by default. */
  readonly within?: number;
  /** Milliseconds between two tries; 20 by default. */
  readonly every?: number;
}

/**
 * Calls `assertion` until it neither throws nor rejects, and returns what it returned.
 *
 * @throws the last failure, its message extended by how long was waited; a try that never settles
 * counts as a failure too.
 */
export async function eventually<T>(
  assertion: () => T | Promise<T>,
  { within = PATIENCE_MS, every = 20 }: Patience = {},
): Promise<T> {
  const start = performance.now();
  let last: unknown;
  do {
    const left = Math.max(1, within - (performance.now() - start));
    try {
      return await before(left, assertion, last);
    } catch (failure) {
      last = failure;
    }
    await new Promise((resolve) => setTimeout(resolve, every));
  } while (performance.now() - start < within);
  throw withWaitingTime(last, Math.round(performance.now() - start));
}

/** Settles as `assertion` does, or fails with the failure before it when it takes too long. */
async function before<T>(ms: number, assertion: () => T | Promise<T>, last: unknown): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(last ?? new Error("the assertion never settled")), ms);
  });
  try {
    return await Promise.race([assertion(), tooLong]);
  } finally {
    clearTimeout(timer);
  }
}

/** Extends the failure itself, so that its type and its diff reach the test report. */
function withWaitingTime(failure: unknown, waited: number): Error {
  const error = failure instanceof Error ? failure : new Error(String(failure));
  error.message = `${error.message}\n(not true within ${waited} ms)`;
  return error;
}
