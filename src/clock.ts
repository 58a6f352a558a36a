/**
 * Time as a parameter: what waits or measures is given a `Clock`, so that tests can turn it.
 *
 * @module
 */

/** The longest delay that a timer can hold; a longer one fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A source of time. */
export interface Clock {
  /** Wall time in milliseconds since the epoch: for what leaves the process. */
  now(): number;
  /** Milliseconds on a clock that never jumps: for every duration inside the process. */
  monotonic(): number;
  /** Settles after `ms`, of any length, or as soon as `signal` aborts; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The machine's own time. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const end = performance.now() + ms;
    while (!signal?.aborted) {
      const left = end - performance.now();
      if (left <= 0) return;
      await sleepOnce(Math.min(left, LONGEST_TIMER_MS), signal);
    }
  },
};

function sleepOnce(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, Math.ceil(ms));
    signal?.addEventListener("abort", finish);
  });
}
