/**
 * The secrets that requests are signed with, as the environment may hold them.
 *
 * Standard Webhooks writes a secret as `whsec_` and the base64 of 24 to 64 random bytes. Anything else
 * is refused at the start: a secret that was cut when it was copied would sign every request in vain.
 *
 * @module
 */

import { z } from "zod";
import type { Kind } from "./config_values.ts";

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
const LEAST_BYTES = 24;
const MOST_BYTES = 64;
/** Two are enough to replace one by another; each adds 48 characters to every request. */
const MOST_SECRETS = 10;

/** One or several secrets, as the bytes of their keys. */
export function signingSecrets(): Kind<readonly Uint8Array[]> {
  const allowed = `whsec_ and the base64 of ${LEAST_BYTES} to ${MOST_BYTES} bytes; ` +
    `up to ${MOST_SECRETS} of these, separated by spaces`;
  const schema = z.string().trim().transform((text, context): readonly Uint8Array[] => {
    const keys = text.split(/\s+/).map(keyOf);
    const usable = keys.filter((key) => key !== undefined);
    if (usable.length === keys.length && keys.length <= MOST_SECRETS) return usable;
    context.addIssue(`must be ${allowed}`);
    return z.NEVER;
  });
  return { allowed, schema };
}

function keyOf(secret: string): Uint8Array | undefined {
  try {
    const base64 = SECRET.exec(secret)?.[1] ?? "";
    const key = Uint8Array.fromBase64(base64, { lastChunkHandling: "strict" });
    return key.length >= LEAST_BYTES && key.length <= MOST_BYTES ? key : undefined;
  } catch {
    return undefined;
  }
}
