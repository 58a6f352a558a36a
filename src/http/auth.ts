/**
 * The check of the bearer token.
 *
 * Hashes are compared, in constant time: neither the token's length nor a matching beginning shows
 * in how long an answer takes.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash, timingSafeEqual } from "node:crypto";

/** Makes a function that tells whether an Authorization header value carries `token`. */
export function createTokenCheck(token: string): (authorization: string | null) => boolean {
  const expected = sha256(Buffer.from(token, "utf8"));
  return (authorization) => {
    const given = /^bearer +(.*)$/i.exec(authorization ?? "")?.[1];
    if (given === undefined) return false;
    // Header values come as one character for each byte; a token in UTF-8 is those bytes again.
    return timingSafeEqual(sha256(Buffer.from(given, "latin1")), expected);
  };
}

function sha256(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}
