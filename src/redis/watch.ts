/**
 * Whether the Redis in which replicas share their limit answers, for `/readyz`: without it nothing is
 * sent. Seen from the main thread; what the consumer's own connection meets is in its log.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import { RedisConnection, RedisUnavailableError } from "./connection.ts";

/** Between two questions, milliseconds. */
const PAUSE_MS = 1_000;

/** Redis as it was last seen. */
export interface RedisWatch {
  readonly isReady: boolean;
  /** `starting`, `ready`, or why it can't be used. */
  readonly state: string;
  /** Asks no more, and closes the connection. */
  close(): Promise<void>;
}

/**
 * Watches the Redis at `url`.
 *
 * @throws {TypeError} when that is not one of Redis.
 */
export function watchRedis(url: string, clock: Clock): RedisWatch {
  const connection = new RedisConnection(url, clock);
  const stopping = new AbortController();
  let state = "starting";
  const watch = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      state = await look(connection);
      await clock.sleep(PAUSE_MS, stopping.signal);
    }
  };
  const watching = watch();
  return {
    get isReady(): boolean {
      return state === "ready";
    },
    get state(): string {
      return state;
    },
    async close(): Promise<void> {
      stopping.abort();
      await watching;
      await connection.close();
    },
  };
}

async function look(connection: RedisConnection): Promise<string> {
  try {
    await connection.run((client) => client.ping());
    return "ready";
  } catch (error) {
    if (!(error instanceof RedisUnavailableError)) throw error;
    return `unavailable: ${error.message}`;
  }
}
