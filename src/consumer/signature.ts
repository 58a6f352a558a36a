/**
 * Signatures by which the backend knows that a request is the relay's and unchanged: Standard
 * Webhooks 1.0 (https://www.standardwebhooks.com), HMAC-SHA256 over `ID.SECONDS.PAYLOAD`.
 *
 * The payload is signed as the bytes that are sent. Decoding it first would sign other bytes than
 * those wherever a payload is not valid UTF-8.
 *
 * @module
 */

import { createHmac, createSecretKey } from "node:crypto";

/** The value of `webhook-signature` for a request. Pure. */
export type Sign = (id: string, seconds: number, payload: Uint8Array) => string;

/**
 * Signs with each of the secrets, which may be several while one takes the place of another: a
 * receiver accepts a request when any of its signatures is right.
 */
export function createSigner(secrets: readonly Uint8Array[]): Sign {
  // Made once: a key object spares each request the preparation of the key.
  const keys = secrets.map((secret) => createSecretKey(secret));
  return (id, seconds, payload) =>
    keys.map((key) => {
      const hmac = createHmac("sha256", key).update(`${id}.${seconds}.`).update(payload);
      return `v1,${hmac.digest("base64")}`;
    }).join(" ");
}
