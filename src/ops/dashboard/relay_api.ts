/**
 * Requests to the relay with the operator's token, which lives as long as the tab.
 *
 * @module
 */

const KEY = "queue-relay-token";

/** The relay wants a token, or another one. */
export class TokenError extends Error {}

/** Keeps the token for this tab. */
export function keepToken(token: string): void {
  sessionStorage.setItem(KEY, token);
}

/** Whether a token was given; it may be wrong. */
export function hasToken(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

/** @throws TokenError at 401; Error with the relay's own words at other refusals, or without an answer */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const token = sessionStorage.getItem(KEY);
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  const response = await fetch(path, { ...init, headers, cache: "no-store" });
  if (response.ok) return response;
  const detail = await detailOf(response);
  throw response.status === 401 ? new TokenError(detail) : new Error(detail);
}

/** The answer's JSON. @throws as {@link request} */
export async function requestJson<T>(path: string, init?: RequestInit): Promise<T> {
  return await (await request(path, init)).json();
}

/** Posts JSON. @throws as {@link request} */
export async function postJson<T>(path: string, body: unknown): Promise<T> {
  return await requestJson(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function detailOf(response: Response): Promise<string> {
  try {
    const { detail } = await response.json();
    if (typeof detail === "string") return detail;
  } catch {
    // Something between here and the relay answered, in its own way.
  }
  return `The relay answered ${response.status}.`;
}
