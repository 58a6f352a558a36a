/**
 * The entry of the commands for operators. Loaded only when one is given: it starts no relay, connects
 * to no broker, and needs of the environment only where the operators' listener is.
 *
 * @module
 */

import { loadOps } from "../config.ts";
import { ConfigError, type Environment, type ReadTextFile } from "../environment.ts";
import { runCommand, type Terminal } from "./commands.ts";
import { opsAddress, OpsClient } from "./ops_client.ts";
import { printable } from "./table.ts";
import { CommandError, COMMANDS_HELP, EXIT, readCommandLine } from "./usage.ts";

/** Columns of what is no terminal: nothing is cut. */
const WIDE = 10_000;

/** Runs one command; the exit status. */
export async function runCli(
  args: readonly string[],
  readEnvironment: () => Environment,
  readTextFile: ReadTextFile,
): Promise<number> {
  try {
    const line = readCommandLine(args);
    if (line.command === undefined) {
      terminal.say(COMMANDS_HELP.trimEnd());
      return EXIT.done;
    }
    const ops = loadOps(readEnvironment(), readTextFile);
    const client = new OpsClient(opsAddress(ops, line.options.url));
    await runCommand(line, client, terminal);
    return EXIT.done;
  } catch (error) {
    // Whoever read the output has seen enough.
    if (error instanceof Deno.errors.BrokenPipe) return EXIT.done;
    if (!(error instanceof CommandError || error instanceof ConfigError)) throw error;
    if (error instanceof ConfigError) {
      console.error(error.message);
      return EXIT.usage;
    }
    console.error(printable(error.message)); // the listener's own words may be in it
    return error.status;
  }
}

const terminal: Terminal = {
  get width() {
    return Deno.stdout.isTerminal() ? Deno.consoleSize().columns : WIDE;
  },
  say: (text) => terminal.write(new TextEncoder().encode(`${text}\n`)),
  write(bytes): void {
    for (let written = 0; written < bytes.length;) {
      written += Deno.stdout.writeSync(bytes.subarray(written));
    }
  },
  confirm: (question) => Deno.stdin.isTerminal() ? confirm(question) : undefined,
};
