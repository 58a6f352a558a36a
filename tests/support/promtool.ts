/**
 * Prometheus' own tool, asked whether what the relay tells Prometheus is right.
 *
 * @module
 */

/** How a run ended. */
export interface Verdict {
  readonly ok: boolean;
  /** Everything that it said. */
  readonly said: string;
}

/**
 * Runs promtool.
 *
 * @param input its standard input; nothing unless given.
 * @throws when it is not installed; Debian's package is `prometheus`.
 */
export async function promtool(args: readonly string[], input = ""): Promise<Verdict> {
  const child = new Deno.Command("promtool", {
    args: [...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  await writer.close();
  const { success, stdout, stderr } = await child.output();
  const text = new TextDecoder();
  return { ok: success, said: text.decode(stdout) + text.decode(stderr) };
}
