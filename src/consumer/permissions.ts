/**
 * What the consumer's Worker may touch. A key that is left out is denied, and so is everything
 * that a key does not name (https://docs.deno.com/runtime/fundamentals/security/).
 *
 * @module
 */

import { resolve } from "node:path";
import type { ConsumerConfig } from "./consumer.ts";

/** The variables that undici reads when it is first used; they must be allowed, not set. */
const READ_BY_UNDICI = ["JEST_WORKER_ID", "UNDICI_NO_WASM_SIMD", "UNDICI_USE_MILO"];

/** The Worker's permissions: broker, backend, Redis, data directory. */
export function workerPermissions(
  { rabbit, backend, redisUrl, dataDir }: Pick<
    ConsumerConfig,
    "rabbit" | "backend" | "redisUrl" | "dataDir"
  >,
): Deno.PermissionOptionsObject {
  const folder = resolve(dataDir);
  return {
    net: [
      hostAndPort(rabbit.host, rabbit.port),
      addressOf(new URL(backend.url), backend.url.startsWith("https:") ? 443 : 80),
      ...(redisUrl === undefined ? [] : [addressOf(new URL(redisUrl), 6379)]),
    ],
    read: [folder],
    write: [folder],
    env: READ_BY_UNDICI,
    ffi: false,
    import: false,
    run: false,
    sys: false,
  };
}

function addressOf({ hostname, port }: URL, defaultPort: number): string {
  return hostAndPort(hostname.replace(/^\[|\]$/g, ""), Number(port) || defaultPort);
}

function hostAndPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
