/**
 * What a rate limit looks like to the one it protects: counts over the moments at which requests
 * arrived. Pure, so that the tests of the limiter can trust them.
 *
 * @module
 */

/**
 * The largest number of arrivals in any window of `windowMs`, wherever it begins. A window is half
 * open: of two arrivals exactly `windowMs` apart it holds one.
 *
 * @param times milliseconds, ascending
 */
export function busiestWindow(times: readonly number[], windowMs: number): number {
  let oldest = 0;
  let most = 0;
  for (const [newest, time] of times.entries()) {
    while ((times[oldest] ?? time) <= time - windowMs) oldest++;
    most = Math.max(most, newest - oldest + 1);
  }
  return most;
}

/**
 * Arrivals in each window of `windowMs`, one after the other from `origin` to the last arrival.
 *
 * @param times milliseconds, ascending
 * @param origin where the first window begins: the first arrival unless given; what came before
 * it is not counted
 */
export function perFixedWindow(
  times: readonly number[],
  windowMs: number,
  origin: number = times[0] ?? 0,
): number[] {
  const last = times.at(-1);
  if (last === undefined || last < origin) return [];
  const counts = new Array<number>(Math.floor((last - origin) / windowMs) + 1).fill(0);
  for (const time of times) {
    const window = Math.floor((time - origin) / windowMs);
    if (window >= 0) counts[window] = (counts[window] ?? 0) + 1;
  }
  return counts;
}
