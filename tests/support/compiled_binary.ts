/**
 * What `deno compile` puts behind the runtime in a binary: permissions and the like, and a file
 * system with the modules.
 *
 * The format is nobody's promise. It is read as Deno 2.9.6 writes it, the version that this project
 * pins everywhere, so that what is in the binary can be proved where the binary cannot be run.
 *
 * @module
 */

import assert from "node:assert/strict";

/** What `deno compile` writes behind the runtime, as far as the tests look at it. */
export interface Compiled {
  readonly metadata: {
    readonly entrypoint_key: string;
    readonly permissions: Readonly<Record<string, unknown>>;
    readonly unstable_config: { readonly features: readonly string[] };
    readonly env_vars_from_env_file: Readonly<Record<string, string>>;
  };
  /** Paths of the embedded files. */
  readonly files: readonly string[];
  /** Everything embedded, a character a byte, for a search by content. */
  readonly content: string;
}

type Entry =
  | { readonly Dir: { readonly n: string; readonly e: readonly Entry[] } }
  | { readonly File: { readonly n: string } }
  | { readonly Symlink: { readonly n: string } };

function pathsOf(entry: Entry, above = ""): string[] {
  if ("Dir" in entry) return entry.Dir.e.flatMap((e) => pathsOf(e, `${above}${entry.Dir.n}/`));
  return "File" in entry ? [`${above}${entry.File.n}`] : [];
}

/**
 * Reads a compiled binary. @throws when the parts are not where Deno 2.9.6 puts them: each of the two
 * JSON documents is preceded by its length as 64 bits, little-endian.
 */
export function readCompiled(binary: Uint8Array<ArrayBuffer>): Compiled {
  const text = new TextDecoder("latin1").decode(binary);
  const at = text.lastIndexOf('{"argv":');
  const metadata = documentAt(binary, at);
  const files = documentAt(binary, text.indexOf('[{"Dir":', at));
  return {
    metadata: JSON.parse(metadata),
    files: (JSON.parse(files) as Entry[]).flatMap((entry) => pathsOf(entry)),
    content: text.slice(at),
  };
}

function documentAt(binary: Uint8Array<ArrayBuffer>, at: number): string {
  assert.ok(at >= 8, "the binary does not hold what deno compile 2.9.6 writes");
  const length = Number(new DataView(binary.buffer).getBigUint64(at - 8, true));
  return new TextDecoder().decode(binary.subarray(at, at + length));
}
