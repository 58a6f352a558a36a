/**
 * Which header fields of a POST a task takes along, and which make it unacceptable.
 *
 * What passes here is safe to be carried in AMQP properties (names and strings of at most 255
 * bytes) and to be sent to the backend as header values: no control characters, bounded lengths.
 *
 * @module
 */
import { isTraceparent } from "../trace_context.ts";
import type { TraceContext } from "../trace_context.ts";
import type { Problem } from "../http/problem.ts";

/** The fields of a task that come from header fields. */
export interface TaskHeaders extends TraceContext {
  readonly contentType: string;
  readonly idempotencyKey?: string;
}

/** The fields to be carried along, or the problem to answer. */
export type HeaderCheck =
  | { readonly ok: true; readonly fields: TaskHeaders }
  | { readonly ok: false; readonly problem: Problem };

/** A content type is an AMQP short string: at most 255 bytes. */
export const MAX_CONTENT_TYPE = 255;
/** Characters of an Idempotency-Key, quotes and escapes not counted. */
export const MAX_IDEMPOTENCY_KEY = 255;
/** Characters of a tracestate; W3C asks to carry 512, and some vendors send more. */
export const MAX_TRACESTATE = 8 * 1024;
/** Characters of all the values that are carried along, as they were sent. */
export const MAX_CARRIED = 64 * 1024;

/**
 * Reads and checks the header fields of a POST. Pure; never throws.
 *
 * @param checkType what the Content-Type may be, which a batch and a single task differ in.
 */
export function checkHeaders(headers: Headers, checkType = checkContentType): HeaderCheck {
  const contentType = headers.get("content-type");
  const encoding = headers.get("content-encoding");
  const key = headers.get("idempotency-key");
  const traceparent = headers.get("traceparent");
  const tracestate = headers.get("tracestate");

  const carried = lengthOf(contentType) + lengthOf(key) + lengthOf(traceparent) +
    lengthOf(tracestate);
  if (carried > MAX_CARRIED) {
    return bad(
      `The header fields to be carried along have ${carried} characters in sum. Send ` +
        `at most ${MAX_CARRIED}.`,
    );
  }
  const mediaProblem = checkType(contentType) ?? checkContentEncoding(encoding);
  if (mediaProblem !== undefined) return { ok: false, problem: mediaProblem };

  let fields: TaskHeaders = { contentType: contentType ?? "" };
  if (key !== null) {
    const idempotencyKey = parseIdempotencyKey(key);
    if (idempotencyKey === undefined) return bad(KEY_DETAIL);
    fields = { ...fields, idempotencyKey };
  }
  if (traceparent === null && tracestate === null) return { ok: true, fields };
  const trace = checkTrace(traceparent, tracestate);
  if (typeof trace === "string") return bad(trace);
  return { ok: true, fields: { ...fields, ...trace } };
}

/** Content types, by what the client is told when its own is another. */
interface Media {
  readonly pattern: RegExp;
  readonly advice: string;
  /** For the header field Accept of the answer. */
  readonly accept: string;
}

const JSON_MEDIA: Media = {
  pattern: /^application\/(?:[!#$%&'*+.^_`|~0-9a-z-]+\+)?json[ \t]*(?=;|$)/i,
  advice: "Send application/json or application/*+json.",
  accept: "application/json",
};
const BATCH_MEDIA: Media = {
  pattern: /^application\/(?:(?:[!#$%&'*+.^_`|~0-9a-z-]+\+)?json|x-ndjson)[ \t]*(?=;|$)/i,
  advice: "Send application/json with an array, or application/x-ndjson.",
  accept: "application/json, application/x-ndjson",
};
// One parameter with its semicolon; RFC 9110 allows an empty one ("application/json;").
const PARAMETER =
  /;[ \t]*(?:([!#$%&'*+.^_`|~0-9a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([!#$%&'*+.^_`|~0-9a-z-]+)))?[ \t]*/iy;

/** The problem with the Content-Type of a task, if there is one. `null` means that there was none. */
export function checkContentType(value: string | null): Problem | undefined {
  return value === "application/json" ? undefined : checkMedia(value, JSON_MEDIA);
}

/** The same for a batch. */
export function checkBatchType(value: string | null): Problem | undefined {
  return checkMedia(value, BATCH_MEDIA);
}

/** Whether a batch, whose Content-Type was checked, has a payload a line. */
export function isNdjson(contentType: string): boolean {
  return /^application\/x-ndjson\b/i.test(contentType);
}

function checkMedia(value: string | null, media: Media): Problem | undefined {
  const { pattern, advice } = media;
  if (value === null) return unsupported(`There is no Content-Type. ${advice}`, media);
  if (value.length > MAX_CONTENT_TYPE) {
    return {
      status: 400,
      detail: `Content-Type has ${value.length} characters. Send at most ${MAX_CONTENT_TYPE}.`,
    };
  }
  const type = isAsciiText(value) ? pattern.exec(value) : null;
  if (type === null) return unsupported(`Content-Type is not JSON. ${advice}`, media);
  PARAMETER.lastIndex = type[0].length;
  while (PARAMETER.lastIndex < value.length) {
    const parameter = PARAMETER.exec(value);
    if (parameter === null) {
      return unsupported(`Content-Type has a malformed parameter. ${advice}`, media);
    }
    const [, name, quoted, token] = parameter;
    if (name?.toLowerCase() === "charset" && !/^utf-?8$/i.test(quoted ?? token ?? "")) {
      return unsupported("Content-Type names a charset other than UTF-8. Send UTF-8.", media);
    }
  }
  return undefined;
}

/** The problem with a Content-Encoding, if there is one: nothing is unpacked here. */
export function checkContentEncoding(value: string | null): Problem | undefined {
  if (value === null || value === "" || value.toLowerCase() === "identity") return undefined;
  return {
    status: 415,
    detail: "The body has a Content-Encoding. Send it as it is, without compression.",
    headers: { "accept-encoding": "identity" },
  };
}

const KEY_DETAIL = `Idempotency-Key must be 1 to ${MAX_IDEMPOTENCY_KEY} printable ASCII ` +
  `characters, neither the first nor the last a space, plain or as one quoted string with \\" ` +
  `and \\\\ as its only escapes.`;

/**
 * The key that an Idempotency-Key means, plain (`abc`) or as a structured field (`"a\"c"`, RFC 9651);
 * undefined when it is malformed. A key goes to the backend as a header value, which loses spaces
 * at its ends: such a key would not arrive as it was sent, so it is malformed too.
 */
export function parseIdempotencyKey(value: string): string | undefined {
  const key = value.startsWith('"') ? unquoted(value) : value;
  if (key === undefined || key.length > MAX_IDEMPOTENCY_KEY) return undefined;
  return /^[!-~]([ -~]*[!-~])?$/.test(key) ? key : undefined;
}

function unquoted(value: string): string | undefined {
  const inner = /^"((?:[^"\\]|\\["\\])*)"$/.exec(value)?.[1];
  return inner?.replace(/\\(["\\])/g, "$1");
}

/**
 * The trace context to carry along, or a detail when its fields cannot be harmless. A traceparent
 * that is merely malformed is dropped, and its tracestate with it, as W3C Trace Context demands:
 * a broken tracer must not cost a task.
 */
export function checkTrace(
  traceparent: string | null,
  tracestate: string | null,
): TraceContext | string {
  if (hasControls(traceparent) || hasControls(tracestate)) {
    return "traceparent and tracestate must not contain control characters.";
  }
  if (lengthOf(tracestate) > MAX_TRACESTATE) {
    return `tracestate has ${lengthOf(tracestate)} characters. Send at most ${MAX_TRACESTATE}.`;
  }
  if (traceparent === null || !isTraceparent(traceparent)) return {};
  if (tracestate === null || tracestate === "" || !isAsciiText(tracestate)) return { traceparent };
  return { traceparent, tracestate };
}

// A tab is white space between the members of a tracestate or before a parameter, and harmless.
function hasControls(value: string | null): boolean {
  return value !== null && /[^\t\x20-\x7e\x80-\u{10ffff}]/u.test(value);
}

function isAsciiText(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}

function lengthOf(value: string | null): number {
  return value === null ? 0 : value.length;
}

function unsupported(detail: string, { accept }: Media): Problem {
  return { status: 415, detail, headers: { accept } };
}

function bad(detail: string): HeaderCheck {
  return { ok: false, problem: { status: 400, detail } };
}
