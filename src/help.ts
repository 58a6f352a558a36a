/**
 * What `--help` prints, and the same table of variables for the README.
 *
 * Both are made from the table in variables.ts, so that what is documented is what is read.
 *
 * @module
 */

import { VARIABLE_LIST } from "./variables.ts";

const WIDTH = 100;
const NAME_WIDTH = 25;
const DEFAULT_WIDTH = 23;

const USAGE =
  `queue-relay: takes tasks over HTTP, keeps them safe in RabbitMQ and hands them to a backend
no faster than it allows.

Usage: queue-relay [--help | --version | --check | COMMAND]

  (no flag)   run until SIGTERM or SIGINT
  --check     validate the environment, connect, verify the queues and say what was found;
              this changes nothing
  --help      print this text
  --version   print the version
  COMMAND     ask a relay that runs: failed list, show, redrive or delete; pause, resume, stats;
              \`queue-relay stats --help\` lists what each takes

Exit status
  0   stopped on request, or the check passed
  1   could not start, or the check failed
  2   the configuration has a problem

Environment
  An .env file in the working directory is read too; the process environment wins. An empty value
  counts as unset. Seconds may be fractional. A variable marked (secret) may be given as NAME_FILE
  instead: the path of a file whose content, less one trailing newline, is the value.
`;

/** One row of the table, as text. */
interface Row {
  readonly name: string;
  readonly secret: boolean;
  readonly shownDefault: string;
  readonly meaning: string;
  readonly allowed: string;
}

function rows(): Row[] {
  return VARIABLE_LIST.map(([name, { kind, fallback, unset, meaning, secret }]) => ({
    name,
    secret: secret === true,
    shownDefault: fallback ?? unset ?? "",
    meaning,
    allowed: kind.allowed,
  }));
}

/** The text of `--help`: usage, flags, exit statuses and every variable, in 100 columns. */
export function helpText(): string {
  const head = ["variable", "default", "meaning: what is allowed"];
  const lines = rows().flatMap(({ name, secret, shownDefault, meaning, allowed }) => {
    const text = `${secret ? "(secret) " : ""}${meaning}: ${allowed}`;
    return layOut([
      [name],
      wrap(shownDefault, DEFAULT_WIDTH - 2, /(?<=,)/),
      wrap(text, WIDTH - 2 - NAME_WIDTH - DEFAULT_WIDTH, /(?<= )/),
    ]);
  });
  return [USAGE, ...layOut(head.map((title) => [title])), ...lines, ""].join("\n");
}

/** Puts three columns of lines side by side. */
function layOut([name = [], shownDefault = [], text = []]: readonly string[][]): string[] {
  const height = Math.max(name.length, shownDefault.length, text.length);
  return Array.from({ length: height }, (_, line) => {
    const left = (name[line] ?? "").padEnd(NAME_WIDTH);
    const middle = (shownDefault[line] ?? "").padEnd(DEFAULT_WIDTH);
    return `  ${left}${middle}${text[line] ?? ""}`.trimEnd();
  });
}

/** Breaks a text into lines of at most `width`, only where `breakable` allows it. */
function wrap(text: string, width: number, breakable: RegExp): string[] {
  const lines: string[] = [];
  for (const piece of text.split(breakable)) {
    const last = lines.at(-1);
    if (last !== undefined && (last + piece).trimEnd().length <= width) {
      lines[lines.length - 1] = last + piece;
    } else lines.push(piece);
  }
  return lines.map((line) => line.trimEnd());
}

/** The variables as a Markdown table, laid out as `deno fmt` leaves it. */
export function readmeTable(): string {
  const cells = rows().map(({ name, secret, shownDefault, meaning, allowed }) =>
    [
      secret ? `\`${name}\` (secret)` : `\`${name}\``,
      /^(unset|= )/.test(shownDefault) ? shownDefault : `\`${shownDefault}\``,
      meaning,
      allowed,
    ].map((cell) => cell.replaceAll("|", "\\|"))
  );
  const table = [["variable", "default", "meaning", "allowed"], ...cells];
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0))
  );
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = table;
  const rule = widths.map((width) => "-".repeat(width));
  return [head, rule, ...body].map(line).join("\n");
}
