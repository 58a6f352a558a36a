/**
 * Which bytes are a payload: JSON of any kind (RFC 8259) in UTF-8 without a byte order mark.
 *
 * The check only looks. The bytes themselves travel on, so numbers beyond 2⁵³, repeated names and
 * white space reach the backend as the client wrote them. Nesting is counted on the bytes before
 * anything is parsed, so that a body of a million brackets costs a scan and not a stack.
 *
 * @module
 */

/** Arrays and objects may be nested this deep; most JSON parsers give up somewhere above it. */
export const MAX_NESTING = 512;

/** Whether a body may become a task, and if not, why. */
export type PayloadCheck = { readonly ok: true } | {
  readonly ok: false;
  /** Nesting beyond the cap may be JSON all the same; it was not looked into. */
  readonly reason: "malformed" | "too-deep";
  /** In words for the client. */
  readonly detail: string;
};

const OK: PayloadCheck = { ok: true };

// ignoreBOM keeps a byte order mark in the text, where JSON.parse refuses it; it is looked for
// beforehand only because "remove the byte order mark" helps more than "unexpected token".
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decides whether `bytes` are a payload. Never throws; the detail never quotes the payload. */
export function checkPayload(bytes: Uint8Array): PayloadCheck {
  if (bytes.length === 0) return malformed("The payload is empty. Send it as JSON.");
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    return malformed("The payload begins with a byte order mark. Send UTF-8 without one.");
  }
  // Each level takes a byte to open it: a body no longer than the cap cannot exceed it.
  if (bytes.length > MAX_NESTING && nestsDeeperThan(bytes, MAX_NESTING)) {
    return {
      ok: false,
      reason: "too-deep",
      detail:
        `The payload nests arrays or objects more than ${MAX_NESTING} levels deep. Flatten it.`,
    };
  }
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return malformed("The payload is not valid UTF-8. Encode the JSON as UTF-8.");
  }
  try {
    JSON.parse(text);
  } catch (error) {
    return malformed(
      `The payload is not valid JSON${placeOf(error)}. Correct it and send it again.`,
    );
  }
  return OK;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Whether brackets outside strings are ever open more than `cap` deep. Works on bytes that are not
 * JSON too: what it finds then does not matter, because parsing refuses them. No byte of a
 * multi-byte UTF-8 character is below 0x80, so none is mistaken for a bracket or a quote.
 */
function nestsDeeperThan(bytes: Uint8Array, cap: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (inString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    // "[" and "{" differ in one bit, as do "]" and "}".
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > cap) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}

/**
 * Where the parser stopped, if it says so. V8 gives either a place or an excerpt of the text; the
 * excerpt must not be passed on, so only a place at the very end of the message is taken.
 */
function placeOf(error: unknown): string {
  const message = error instanceof Error ? error.message : "";
  if (message === "Unexpected end of JSON input") return ": it ends too early";
  const place = / in JSON at position \d+ \(line (\d+) column (\d+)\)$/.exec(message);
  return place ? ` (line ${place[1]}, column ${place[2]})` : "";
}

function malformed(detail: string): PayloadCheck {
  return { ok: false, reason: "malformed", detail };
}
