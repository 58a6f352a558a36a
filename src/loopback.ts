/**
 * Which hosts are this machine and nobody else: what is bound to one can be reached from here alone.
 *
 * @module
 */

import { isIPv4 } from "node:net";

/** Whether `host`, a name or an address without brackets, is of the loopback interface. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  return name === "localhost" || name === "::1" || (isIPv4(name) && name.startsWith("127."));
}
