/**
 * Lines of the charts, and what they say in words. Pure; runs in the browser.
 *
 * @module
 */

/** A line of a chart; null where nothing is known. */
export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

/** The drawing's own units; it is stretched to its place. */
export const WIDTH = 300;
export const HEIGHT = 80;

/** The top of the scale: 1, 2 or 5 times a power of ten, at least what is shown; 1 for nothing. */
export function topOf(series: readonly Series[]): number {
  const largest = Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  if (largest === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return power * ([1, 2, 5].find((step) => step * power >= largest) ?? 10);
}

/** The `d` of a path through `values` over `slots` places, ending at the right; gaps where it is null. */
export function linePath(values: readonly (number | null)[], top: number, slots: number): string {
  const step = WIDTH / Math.max(1, slots - 1);
  const begin = slots - values.length;
  let pen = "M";
  return values.map((value, n) => {
    if (value === null) {
      pen = "M";
      return "";
    }
    const x = ((begin + n) * step).toFixed(1);
    const y = (HEIGHT - (Math.min(value, top) / top) * HEIGHT).toFixed(1);
    const move = `${pen}${x} ${y}`;
    // A point alone would not be drawn.
    const dot = pen === "M" && (values[n + 1] ?? null) === null ? "h0.1" : "";
    pen = "L";
    return move + dot;
  }).join("");
}

/** A sentence that tells a series to who can't see it. */
export function summaryOf({ name, values }: Series, format: (value: number) => string): string {
  const known = values.filter((value) => value !== null);
  const last = values.at(-1);
  if (known.length === 0) return `${name}: nothing known`;
  const now = last === null || last === undefined ? "nothing" : format(last);
  return `${name}: now ${now}, lowest ${format(Math.min(...known))}, highest ${
    format(Math.max(...known))
  }`;
}
