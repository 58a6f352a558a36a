/**
 * Scripts that run in Redis, where nothing else comes between their steps.
 *
 * @module
 */

import { createHash } from "node:crypto";
import type { RedisClient } from "./connection.ts";

/** Runs a script over `keys`, which are all in one hash slot; rejects as the client does. */
export type Script = (client: RedisClient, keys: string[], args: string[]) => Promise<unknown>;

/** A script that is sent once and called by its hash from then on, until the server forgets it. */
export function script(text: string): Script {
  const hash = createHash("sha1").update(text).digest("hex");
  return async (client, keys, args) => {
    const call = { keys, arguments: args };
    try {
      return await client.evalSha(hash, call);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return await client.eval(text, call);
    }
  };
}
