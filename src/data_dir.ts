/**
 * DATA_DIR, tried before anything is accepted: a folder that can't be written would end the consumer
 * again and again, while clients are told that all is well.
 *
 * @module
 */

/**
 * Makes the folder with those above it, and tries to write into it.
 *
 * @throws {Error} when it can't be made or written; the message says which and what to do.
 */
export function prepareDataDir(folder: string): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
    Deno.removeSync(Deno.makeTempFileSync({ dir: folder, prefix: ".trial-" }));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(
      `DATA_DIR="${folder}" can't be written: ${reason}. Give the user of this process the right ` +
        "to write there, or set DATA_DIR to another folder.",
      { cause },
    );
  }
}
