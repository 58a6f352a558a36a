/**
 * Figures and foreign text as people read them. Pure; runs in the browser, and in the tests in Deno.
 *
 * @module
 */

/** Stands where nothing is known. */
export const UNKNOWN = "–";

const COUNT = new Intl.NumberFormat("en");

/** A whole number with its thousands apart. */
export function formatCount(count: number | null): string {
  return count === null ? UNKNOWN : COUNT.format(count);
}

/** A duration in seconds by its two largest units, such as `3 min 20 s`. */
export function formatDuration(seconds: number | null): string {
  if (seconds === null) return UNKNOWN;
  const whole = Math.round(seconds);
  if (whole < 1) return seconds > 0 ? "under 1 s" : "0 s";
  const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]] as const;
  const first = units.findIndex(([, size]) => whole >= size);
  let rest = whole;
  const parts = units.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? "" : `${count} ${name}`;
  });
  return parts.filter((part) => part !== "").join(" ");
}

/** Milliseconds: `850 ms`, `1.2 s`. */
export function formatMs(ms: number | null): string {
  if (ms === null) return UNKNOWN;
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** How many a second: `0.25/s`, `12.5/s`, `1,200/s`. */
export function formatRate(perSecond: number): string {
  const digits = perSecond < 1 ? 2 : perSecond < 100 ? 1 : 0;
  return `${COUNT.format(Number(perSecond.toFixed(digits)))}/s`;
}

/** A moment of RFC 3339 to the second, in UTC as the log has it. */
export function formatMoment(moment: string | null): string {
  return moment === null ? UNKNOWN : moment.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
}

/** Seconds from `from` until `until`, both RFC 3339; never below 0. */
export function secondsUntil(until: string, from: string): number {
  return Math.max(0, (Date.parse(until) - Date.parse(from)) / 1_000);
}

/**
 * Foreign text so that it can't look like something else: control characters and those that turn
 * the direction of writing are shown by their code. Line ends and tabs stay.
 */
export function showText(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu,
    (char) =>
      char === "\n" || char === "\t"
        ? char
        : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** JSON indented as it is, its numbers untouched; undefined when it is none. */
export function prettyJson(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // Parsed and printed, 12345678901234567890 would become another number: only spaces are changed.
  let depth = 0;
  const line = (): string => `\n${"  ".repeat(depth)}`;
  return text.trim().replace(/("(?:\\.|[^"\\])*")|[{[]\s*[}\]]|\s+|[{}[\],:]/g, (part, string) => {
    if (string !== undefined) return part;
    if (/^[{[]./s.test(part)) return part.replace(/\s/g, "");
    if (part === "{" || part === "[") return depth++, `${part}${line()}`;
    if (part === "}" || part === "]") return depth--, `${line()}${part}`;
    if (part === ",") return `,${line()}`;
    return part === ":" ? ": " : "";
  });
}
