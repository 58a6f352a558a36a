/**
 * Who may use the operators' listener. Pure.
 *
 * With a token it is who has it. Without one the listener is bound to this machine's loopback, and
 * whoever is on it may; but so is the browser, and it runs pages of anybody. What a page of another
 * origin sends is told by three things it can't forge: `Sec-Fetch-Site`, which all current browsers
 * send to loopback addresses; `Origin`, which comes with everything but a plain GET; and `Host`,
 * which is the page's own name when that was made to resolve to this machine (DNS rebinding).
 *
 * @module
 */

import { createTokenCheck } from "../http/auth.ts";
import type { Problem } from "../http/problem.ts";
import { isLoopback } from "../loopback.ts";

const NO_TOKEN: Problem = {
  status: 401,
  detail: "This needs the operators' token (OPS_TOKEN). Send it as Authorization: Bearer TOKEN.",
  headers: { "www-authenticate": "Bearer" },
};

const FOREIGN_HOST: Problem = {
  status: 403,
  detail:
    "Without OPS_TOKEN the Host must be localhost or a loopback address, with the port that " +
    "is listened on. Ask for http://127.0.0.1:PORT, or set OPS_TOKEN.",
};

const FOREIGN_ORIGIN: Problem = {
  status: 403,
  detail:
    "Without OPS_TOKEN nothing is answered to pages of other origins. Open the address itself.",
};

/** Makes a function that says why a request is refused; undefined when it is not. */
export function createGuard(
  token: string | undefined,
): (headers: Headers, port: number) => Problem | undefined {
  if (token === undefined) return refuseForeign;
  const authorized = createTokenCheck(token);
  return (headers) => authorized(headers.get("authorization")) ? undefined : NO_TOKEN;
}

function refuseForeign(headers: Headers, port: number): Problem | undefined {
  const host = headers.get("host") ?? "";
  if (!isOwnHost(host, port)) return FOREIGN_HOST;
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") return FOREIGN_ORIGIN;
  const origin = headers.get("origin");
  return origin === null || origin === `http://${host}` ? undefined : FOREIGN_ORIGIN;
}

/** `localhost:8081`, `127.0.0.1:8081` or `[::1]:8081`; browsers leave port 80 out. */
function isOwnHost(host: string, port: number): boolean {
  const [, name = "", given = "80"] = /^(\[[\da-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?$/i.exec(host) ?? [];
  return Number(given) === port && isLoopback(name.replace(/^\[(.*)\]$/, "$1"));
}
