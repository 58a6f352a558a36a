/**
 * Logs: one line an event on standard output, JSON for machines or pretty for people.
 *
 * Ingest and the consumer's Worker both call {@link setUpLogging}: each thread has loggers of its
 * own, and a line is written in one piece.
 *
 * @module
 */

import {
  configure,
  getAnsiColorFormatter,
  getJsonLinesFormatter,
  getTextFormatter,
} from "@logtape/logtape";
import type { LogRecord, TextFormatter } from "@logtape/logtape";
import type { Config } from "./config.ts";

/** Makes every logger of this thread write at `level` and above in `format`. */
export async function setUpLogging(log: Config["log"]): Promise<void> {
  const format = log.format === "json" ? jsonLine : prettyLine;
  const sink = (record: LogRecord): void => console.log(format(record).trimEnd());
  await configure({
    reset: true,
    sinks: { out: sink },
    loggers: [
      { category: ["relay"], sinks: ["out"], lowestLevel: log.level },
      { category: ["logtape", "meta"], sinks: ["out"], lowestLevel: "warning" },
    ],
  });
}

const jsonLine: TextFormatter = getJsonLinesFormatter({ properties: "flatten" });

const LINE = { timestamp: "time", category: "." } as const;

/** Colours are for terminals; in a file they are noise. */
const linePrefix: TextFormatter = Deno.stdout.isTerminal()
  ? getAnsiColorFormatter(LINE)
  : getTextFormatter(LINE);

function prettyLine(record: LogRecord): string {
  const properties = Object.entries(record.properties)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${plain(value)}`);
  return [linePrefix(record).trimEnd(), ...properties].join(" ");
}

function plain(value: unknown): string {
  return typeof value === "string" && !/[\s"=]/.test(value) ? value : JSON.stringify(value);
}
