/**
 * Who this relay is, so that after a kill -9 it knows the leases of its own that nobody holds any more.
 *
 *     DATA_DIR/PREFIX.relay      a uuid, and the number of the file that it was written into
 *     DATA_DIR/PREFIX.relay.1    of a second relay on the same directory, and so on
 *
 * No two processes may have one identity at once, or one would take the other for dead. So a process
 * holds the lock of its file as long as it lives, and the kernel releases it when it is killed; who
 * finds a file locked takes the next one. A copy of the directory, on another disk with the same
 * Redis, has files of other numbers, and therefore begins identities of its own.
 *
 * The process holds it and not the consumer's Worker: one that dies is followed by another of the same
 * relay, whatever the runtime does by then with the files of the dead one.
 *
 * When one of several relays on a directory stays away, another may take its file at the next start
 * and leave its own: then the leases of its last run are not known for its own, and end by their time.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import { messageOf } from "../errors.ts";

const log = getLogger(["relay", "ledger"]);

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The identity of a process, for as long as it lives or until it is released. */
export interface Identity {
  readonly relay: string;
  /** Leaves it to whoever comes next. */
  release(): void;
}

/**
 * Takes the first identity of the directory that nobody has. Where files can't be locked it is a new
 * one each time: then leases end by their time, as those of a relay that is gone for good.
 */
export function takeIdentity(folder: string, prefix: string): Identity {
  const path = `${folder}/${prefix}.relay`;
  try {
    let taken = take(path);
    for (let number = 1; taken === undefined; number++) taken = take(`${path}.${number}`);
    return taken;
  } catch (error) {
    const consequence = "tasks in flight at a kill wait until BACKEND_TIMEOUT and 2 s are over";
    log.warning("identity can't be kept", { path, error: messageOf(error), consequence });
    return { relay: crypto.randomUUID(), release: () => {} };
  }
}

function take(path: string): Identity | undefined {
  const file = Deno.openSync(path, { read: true, write: true, create: true });
  let taken: Identity | undefined;
  try {
    if (file.tryLockSync(true)) taken = { relay: relayOf(file), release: () => file.close() };
    return taken;
  } finally {
    if (taken === undefined) file.close();
  }
}

/** The identity that was written into this very file, else a new one. */
function relayOf(file: Deno.FsFile): string {
  const number = String(file.statSync().ino);
  const content = new Uint8Array(256);
  const length = file.readSync(content) ?? 0;
  const [relay = "", writtenInto] = new TextDecoder().decode(content.subarray(0, length)).split(
    /\s/,
  );
  if (UUID.test(relay) && writtenInto === number) return relay;
  const fresh = crypto.randomUUID();
  file.truncateSync();
  file.seekSync(0, Deno.SeekMode.Start);
  file.writeSync(new TextEncoder().encode(`${fresh} ${number}\n`));
  return fresh;
}
