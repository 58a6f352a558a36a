/**
 * W3C Trace Context (https://www.w3.org/TR/trace-context/): what a valid `traceparent` is, and the
 * one that an attempt sends. Pure, but for the random ids.
 *
 * Each attempt is an operation of its own in the client's trace. With the client's parent id on all
 * of them a tracer could not tell 27 attempts from one.
 *
 * @module
 */

/** The two header fields, as they were sent or are to be sent. */
export interface TraceContext {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\t\x20-\x7e]*)?$/;
/** What a later version may append is read; nothing sensible needs more than this. */
const LONGEST = 512;
/** The flags that version 00 defines: sampled, and (since Level 2) random trace id. */
const KNOWN_FLAGS = 0x03;

interface Parts {
  readonly version: string;
  readonly traceId: string;
  readonly flags: string;
}

/** Whether a traceparent can be read; a tracestate beside one that can't must not be sent on. */
export function isTraceparent(value: string): boolean {
  return parse(value) !== undefined;
}

/** The id of the trace, if the traceparent can be read. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent === undefined ? undefined : parse(traceparent)?.traceId;
}

/**
 * The trace context of an attempt of its own: the same trace, flags and tracestate under a new
 * parent id. Empty when there is no traceparent that can be read.
 *
 * A traceparent of a later version goes on as version 00 with the flags that 00 knows, as the
 * specification wants it of who does not know that version.
 */
export function childOf({ traceparent, tracestate }: TraceContext, parentId: string): TraceContext {
  const parts = traceparent === undefined ? undefined : parse(traceparent);
  if (parts === undefined) return {};
  const { version, traceId, flags } = parts;
  const kept = version === "00" ? flags : knownOf(flags);
  const child = { traceparent: `00-${traceId}-${parentId}-${kept}` };
  return tracestate === undefined ? child : { ...child, tracestate };
}

/** A random parent id; one of zeros would be invalid. */
export function newParentId(): string {
  while (true) {
    const id = crypto.getRandomValues(new Uint8Array(8)).toHex();
    if (!isZero(id)) return id;
  }
}

function parse(value: string): Parts | undefined {
  if (value.length > LONGEST) return undefined;
  const [, version, traceId = "", parentId = "", flags = "", more] = TRACEPARENT.exec(value) ?? [];
  if (version === undefined || version === "ff") return undefined;
  if (version === "00" && more !== undefined) return undefined;
  return isZero(traceId) || isZero(parentId) ? undefined : { version, traceId, flags };
}

function knownOf(flags: string): string {
  return (parseInt(flags, 16) & KNOWN_FLAGS).toString(16).padStart(2, "0");
}

function isZero(hex: string): boolean {
  return /^0+$/.test(hex);
}
