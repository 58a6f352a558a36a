/**
 * Free TCP ports for servers that tests start and start again.
 *
 * The ports lie below the range from which Linux takes the local ports of outgoing connections
 * (32768 to 60999). A port from within that range may be taken by anybody's connection while a
 * killed broker is down, and a client that reconnects to it may even be connected to itself.
 *
 * A port that was given out stays that of the process it was given to, until that one ends: files
 * of tests run side by side, and one of them must not take the port of a relay that another one has
 * just killed. A lock on a file tells so, because it goes with its holder however that ends.
 *
 * @module
 */

import { tmpdir } from "node:os";

const LOWEST = 20_000;
const HIGHEST = 32_000;
const TRIES = 100;

/** The locks on this process's ports: kept open, for a lock goes when its file is closed. */
const held: Deno.FsFile[] = [];

/**
 * A TCP port that nothing on 127.0.0.1 listens on now, and that `freePort` gives to nobody else as
 * long as this process lives.
 *
 * @throws when 100 tries found none
 */
export function freePort(): number {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (reserve(port) && isFree(port)) return port;
  }
  throw new Error(`no free port found between ${LOWEST} and ${HIGHEST} in ${TRIES} tries`);
}

function reserve(port: number): boolean {
  const directory = `${tmpdir()}/queue-relay-test-ports`;
  Deno.mkdirSync(directory, { recursive: true });
  const lock = Deno.openSync(`${directory}/${port}`, { create: true, write: true });
  if (lock.tryLockSync(true)) {
    held.push(lock);
    return true;
  }
  lock.close();
  return false;
}

function isFree(port: number): boolean {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return false;
    throw error;
  }
}
