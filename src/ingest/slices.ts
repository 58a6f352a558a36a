/**
 * Where the payloads of a batch begin and end.
 *
 * Only found, never parsed and written again: what is yielded are views of the batch's own bytes,
 * so that big integers, spaces and repeated names inside a payload stay as the client wrote them.
 * Both scanners are lazy, and a caller that has seen enough, or has worked for too long without a
 * pause, stops between two payloads.
 *
 * @module
 */

/** One payload of a batch. */
export interface Slice {
  readonly kind: "slice";
  readonly bytes: Uint8Array;
  /** Where it begins in the batch, in bytes. */
  readonly start: number;
}

/** Why a body is no array of payloads; the last that is yielded. */
export interface Malformed {
  readonly kind: "malformed";
  /** In words for the client, with the place. */
  readonly detail: string;
}

const [LINE_FEED, RETURN, TAB, SPACE] = [0x0a, 0x0d, 0x09, 0x20];
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * The elements of a JSON array, without the white space around them.
 *
 * What separates the elements is checked here. What they hold is not: if one of them is no JSON, the
 * places that follow it mean nothing, so the caller has to check each. No byte of a multi-byte UTF-8
 * character is below 0x80, so none is mistaken for a bracket, a comma or a quote.
 */
export function* arraySlices(bytes: Uint8Array): Generator<Slice | Malformed, void> {
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== OPEN_ARRAY) return yield malformed("The batch is not a JSON array.");
  at = skipSpace(bytes, at + 1);
  for (let more = bytes[at] !== CLOSE_ARRAY; more;) {
    const end = endOfElement(bytes, at);
    const after = bytes[end];
    if (after === undefined) return yield malformed("The batch ends before its array does.");
    if (after === CLOSE_OBJECT) return yield malformed(`The batch has a stray } at byte ${end}.`);
    const element = trimEnd(bytes.subarray(at, end));
    if (element.length === 0) {
      return yield malformed(`The batch lacks an element of its array at byte ${end}.`);
    }
    yield { kind: "slice", bytes: element, start: at };
    more = after === COMMA;
    at = more ? skipSpace(bytes, end + 1) : end;
  }
  at = skipSpace(bytes, at + 1);
  if (at < bytes.length) yield malformed(`The batch goes on after its array, at byte ${at}.`);
}

/** The lines of NDJSON that are not blank, without their ends (LF or CRLF). */
export function* lineSlices(bytes: Uint8Array): Generator<Slice, void> {
  for (let start = 0; start < bytes.length;) {
    const feed = bytes.indexOf(LINE_FEED, start);
    const end = feed === -1 ? bytes.length : feed;
    const next = end + 1;
    const line = bytes.subarray(start, bytes[end - 1] === RETURN ? Math.max(start, end - 1) : end);
    if (line.some((byte) => !isSpace(byte))) yield { kind: "slice", bytes: line, start };
    start = next;
  }
}

/** Where the element that begins at `at` ends: at a comma or a bracket of the array, or at the end. */
function endOfElement(bytes: Uint8Array, at: number): number {
  let depth = 0;
  let inString = false;
  for (let i = at; i < bytes.length; i++) {
    const byte = bytes[i];
    if (inString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) depth++;
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) {
      if (depth-- === 0) return i;
    } else if (byte === COMMA && depth === 0) return i;
  }
  return bytes.length;
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at++;
  return at;
}

function trimEnd(bytes: Uint8Array): Uint8Array {
  let end = bytes.length;
  while (end > 0 && isSpace(bytes[end - 1])) end--;
  return bytes.subarray(0, end);
}

/** The white space of JSON. */
function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
}

function malformed(detail: string): Malformed {
  return { kind: "malformed", detail };
}
