/**
 * Figures of several rounds: the median, and how far they lie apart.
 *
 * @module
 */

/** The middle value of a list that isn't empty. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = NaN, high = NaN] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[middle]];
  return (low + high) / 2;
}

/** A quarter of the values is below the first, half below the second, three quarters below the third. */
export function quartiles(values: readonly number[]): readonly [number, number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return [median(sorted.slice(0, half)), median(sorted), median(sorted.slice(-half))];
}

/** `1,234 (1,100–1,300)`: median and range. */
export function show(values: readonly number[]): string {
  const text = (value: number): string => Math.round(value).toLocaleString("en");
  return `${text(median(values))} (${text(Math.min(...values))}–${text(Math.max(...values))})`;
}
