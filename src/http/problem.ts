/**
 * Every answer that is an error, as problem details (RFC 9457).
 *
 * `type` is left at its default, about:blank: the status says what kind of problem it is, `title`
 * repeats the status' phrase, and `detail` tells the client what to do. A detail never carries the
 * payload or a secret, because clients log what they are answered.
 *
 * @module
 */

/** The statuses that are answered, and their phrases in RFC 9110. */
const TITLES = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  500: "Internal Server Error",
  503: "Service Unavailable",
} as const;

/** A status that may be answered as a problem. */
export type ProblemStatus = keyof typeof TITLES;

/** A refusal, decided but not yet answered. */
export interface Problem {
  readonly status: ProblemStatus;
  /** What is wrong and what to do, in whole sentences. */
  readonly detail: string;
  /** Header fields that belong to the status, such as Allow or Retry-After. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The answer that tells `problem` to the client. */
export function problemResponse({ status, detail, headers }: Problem): Response {
  const body = { type: "about:blank", title: titleOf(status), status, detail };
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
  });
}

/** The phrase of a status. */
export function titleOf(status: ProblemStatus): string {
  return TITLES[status];
}
