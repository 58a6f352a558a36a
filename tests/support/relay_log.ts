/**
 * Lines of the relay's log (LOG_FORMAT=json).
 *
 * @module
 */

/** A line of the log: the properties of the event lie beside its message. */
export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly [property: string]: unknown;
}

/** The line of the log that `text` is; undefined when it is something else. */
export function readLogLine(text: string): LogLine | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return undefined;
    if (!("message" in value && "level" in value)) return undefined;
    return { ...value, level: String(value.level), message: String(value.message) };
  } catch {
    return undefined;
  }
}
