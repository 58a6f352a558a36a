/**
 * Why a request got no answer, told apart by what the error says. Pure.
 *
 * @module
 */

import type { Answer } from "./outcome.ts";

type FailureOutcome = Extract<Answer, { kind: "failure" }>["outcome"];

const BY_CODE: ReadonlyMap<string, FailureOutcome> = new Map<string, FailureOutcome>([
  ["ECONNREFUSED", "refused"],
  ["EHOSTUNREACH", "refused"],
  ["ENETUNREACH", "refused"],
  ["EADDRNOTAVAIL", "refused"],
  ["ENOTFOUND", "dns"],
  ["EAI_AGAIN", "dns"],
  ["EAI_FAIL", "dns"],
  ["EAI_NODATA", "dns"],
  ["ETIMEDOUT", "timeout"],
  ["UND_ERR_CONNECT_TIMEOUT", "timeout"],
  ["ECONNRESET", "reset"],
  ["EPIPE", "reset"],
  ["ECONNABORTED", "reset"],
  ["UND_ERR_SOCKET", "reset"],
]);

/**
 * The outcome's name for an error of the client.
 *
 * @param answerBegun whether a status had been read: then the answer broke off half-way, which is
 *   another thing to look for than a connection that was reset before any answer.
 */
export function classify(error: Error, answerBegun: boolean): FailureOutcome {
  // undici has one code for a peer that closed and for an answer that it doesn't accept, such as a
  // 100 or a 101 that nobody asked for.
  if (/^bad (response|upgrade)$/.test(error.message)) return "protocol";
  const code = codeOf(error);
  const known = BY_CODE.get(code);
  if (known !== undefined) return answerBegun && known === "reset" ? "protocol" : known;
  return isTls(code, error) ? "tls" : "protocol";
}

/** A TLS alert, which is how a server that expects TLS answers to plain HTTP. */
// deno-lint-ignore no-control-regex
const TLS_ALERT = /^\x15\x03[\x00-\x04]/;

/** What people are told of the error. */
export function failureText(error: Error): string {
  const speaksTls = "data" in error && typeof error.data === "string" && TLS_ALERT.test(error.data);
  return speaksTls
    ? `the backend expects TLS: set BACKEND_BASE_URL to https://… (${error.message})`
    : error.message;
}

function codeOf(error: Error): string {
  if ("code" in error && typeof error.code === "string") return error.code;
  return error.cause instanceof Error ? codeOf(error.cause) : "";
}

function isTls(code: string, error: Error): boolean {
  return /CERT|TLS|SSL|^UNABLE_TO|SELF_SIGNED|^HOSTNAME_MISMATCH/.test(code) ||
    /certificate|handshake|\bTLS\b|\bSSL\b/i.test(error.message);
}
