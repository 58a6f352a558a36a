/**
 * Tables for a terminal. Pure.
 *
 * @module
 */

/** No column is narrower, however narrow the terminal. */
const LEAST_WIDTH = 8;
const GAP = "  ";

/**
 * Lays rows out under their heads, within `width` columns if that is possible: the last column is the
 * first to be cut. Numbers are text, and to be aligned right by whoever pads them.
 */
export function layOutTable(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
): string {
  const cells = [heads, ...rows].map((row) => row.map(printable));
  const widths = heads.map((_, column) =>
    Math.max(...cells.map((row) => [...row[column] ?? ""].length))
  );
  const others = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, 0);
  const last = widths.length - 1;
  widths[last] = Math.min(widths[last] ?? 0, Math.max(LEAST_WIDTH, width - others));
  return cells.map((row) =>
    row.map((text, column) => fit(text, widths[column] ?? 0)).join(GAP).trimEnd()
  ).join("\n");
}

/** Text that moves no cursor and colours nothing: control characters are shown, not sent. */
export function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${character.codePointAt(0)?.toString(16).padStart(4, "0")}`,
  );
}

function fit(text: string, width: number): string {
  const characters = [...text];
  if (characters.length <= width) return text + " ".repeat(width - characters.length);
  return `${characters.slice(0, width - 1).join("")}…`;
}
