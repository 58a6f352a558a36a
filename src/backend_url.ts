/**
 * The backend's address, from a base and a path, joined as a person means it.
 *
 * `new URL("/task", "http://h/api")` drops `/api`, and a path of `//evil/x` changes the host. Here the
 * path is resolved by itself first and then laid under the base, so that the result always keeps the
 * base's origin and begins with the base's path, whatever the path holds.
 *
 * @module
 */

import { z } from "zod";
import type { Kind } from "./config_values.ts";

/** `URL` drops some of these silently, so that what is sent would not be what was written. */
const CONTROL = /\p{Cc}/u;
const ABSOLUTE = /^[a-z][a-z0-9+.-]*:\/\//i;

/**
 * Lays `path` (with an optional query) under `base`: `http://h/api` and `/task` are `http://h/api/task`.
 *
 * Slashes where the two meet become one; an empty path leaves the base as it is and `/` ends it with a
 * slash. `..` goes no higher than the base. What a URL can't hold is percent-encoded, what is encoded
 * already stays.
 *
 * @throws {RangeError} if `path` holds a `#`: a fragment is never sent.
 */
export function joinUrl(base: URL, path: string): URL {
  if (path.includes("#")) throw new RangeError("The path of a request cannot have a fragment (#)");
  const question = path.indexOf("?");
  const pathOnly = question < 0 ? path : path.slice(0, question);
  const alone = new URL("http://alone");
  alone.pathname = pathOnly;
  const below = alone.pathname.replace(/^\/+/, "");
  const above = base.pathname.replace(/\/+$/, "");

  const url = new URL(base);
  url.pathname = pathOnly === "" ? base.pathname : `${above}/${below}`;
  url.search = question < 0 ? "" : path.slice(question);
  url.hash = "";
  return url;
}

/** The base of the backend's URL: scheme, host, and perhaps a port and a path. */
export function baseUrl(): Kind<URL> {
  const allowed = "an http:// or https:// URL without credentials, query or fragment";
  const schema = z.string().trim().transform((text, context): URL => {
    const fault = faultOfBase(text);
    if (fault === undefined) return new URL(text);
    context.addIssue(`must be ${allowed}${fault}`);
    return z.NEVER;
  });
  return { allowed, schema };
}

/** What to say after "must be …" about a base that can't be used; nothing when it can. */
function faultOfBase(text: string): string | undefined {
  if (CONTROL.test(text)) return ": it holds a control character";
  if (!/^https?:\/\/[^/?#\\]/i.test(text) || !URL.canParse(text)) return suggestion(text);
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") {
    return ": give credentials in BACKEND_AUTHORIZATION instead";
  }
  if (text.includes("#")) return ": it has a fragment (#)";
  if (text.includes("?")) return ": a query belongs in BACKEND_PATH";
  return undefined;
}

/** `localhost:8090` parses as a URL of the scheme `localhost:`, but is surely a host and a port. */
function suggestion(text: string): string {
  const guess = `http://${text}`;
  const isHost = /^(\[[\da-f:.]+\]|[\w.-]+)(:\d+)?(\/[^@?#\\]*)?$/i.test(text);
  return isHost && URL.canParse(guess) ? ` (did you mean ${guess}?)` : "";
}

/** The path of the request, perhaps with a query. */
export function requestPath(): Kind<string> {
  const allowed = "a path, perhaps with a query, without host, # or control characters";
  const fits = (text: string): boolean =>
    !text.includes("#") && !CONTROL.test(text) && !ABSOLUTE.test(text);
  return { allowed, schema: z.string().trim().refine(fits, { error: `must be ${allowed}` }) };
}
