/**
 * What can be said on the command line to a running relay, and how it is read.
 *
 * @module
 */

import { parseArgs, type ParseArgsConfig } from "node:util";

/** Exit statuses of the commands. */
export const EXIT = { done: 0, refused: 1, usage: 2, notFound: 3 } as const;

/** A command can't be carried out; the message is for people. */
export class CommandError extends Error {
  override readonly name = "CommandError";

  constructor(message: string, readonly status: number) {
    super(message);
  }
}

/** The text of `--help` for the commands. */
export const COMMANDS_HELP =
  `queue-relay commands: they ask the operators' listener of a relay that runs.

  failed list [--limit N] [--after ID] [--reason R] [--status S] [--all-pages]
  failed show ID [--payload]         all that is known of a failed task; --payload: its bytes alone
  failed redrive ID...               send failed tasks again, from their first attempt
  failed redrive --all [--reason R] [--status S] [--limit N] [--dry-run] [--yes]
  failed delete ID... | --all        delete them for good
  pause, resume                      deliver nothing, and go on, at all relays of the prefix
  stats                              how the relay and its queues stand

  --url URL    where the listener is; else OPS_HOST and OPS_PORT, of .env too, say so.
               OPS_TOKEN is sent
  --json       the listener's own JSON
  --yes        --all without being asked; needed where nobody can be asked
  --help       this text

Exit status
  0   done
  1   the listener refused, or can't be reached
  2   the command or the configuration has a problem
  3   no such task
`;

/** Every option there is; each command takes some of them. */
const OPTIONS = {
  url: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean" },
  limit: { type: "string" },
  after: { type: "string" },
  reason: { type: "string" },
  status: { type: "string" },
  "all-pages": { type: "boolean" },
  payload: { type: "boolean" },
  all: { type: "boolean" },
  "dry-run": { type: "boolean" },
  yes: { type: "boolean" },
} as const satisfies ParseArgsConfig["options"];

/** The options as they were given. */
export type Options = {
  readonly [Name in keyof typeof OPTIONS]?:
    | (typeof OPTIONS[Name]["type"] extends "string" ? string : boolean)
    | undefined;
};

/** The options of every command. */
const COMMON = ["url", "json", "help"];

/** The options of each command, besides those. */
const OPTIONS_OF: Readonly<Record<string, readonly string[]>> = {
  "failed list": ["limit", "after", "reason", "status", "all-pages"],
  "failed show": ["payload"],
  "failed redrive": ["all", "reason", "status", "limit", "dry-run", "yes"],
  "failed delete": ["all", "yes"],
  pause: [],
  resume: [],
  stats: [],
};

/** A command line that was understood. */
export interface CommandLine {
  /** Such as `failed list`; undefined when only help is wanted. */
  readonly command: string | undefined;
  /** What follows the command: ids. */
  readonly ids: readonly string[];
  readonly options: Options;
}

/** Whether a first argument is a command of this kind, and not the relay's own business. */
export function isCommand(first: string | undefined): boolean {
  return first !== undefined &&
    Object.keys(OPTIONS_OF).some((name) => name.split(" ")[0] === first);
}

/** Reads a command line. @throws {CommandError} with status 2 and what is wrong with it */
export function readCommandLine(args: readonly string[]): CommandLine {
  const { values: options, positionals } = readOptions(args);
  const [first = "", second = ""] = positionals;
  const command = first in OPTIONS_OF ? first : `${first} ${second}`;
  if (options.help) return { command: undefined, ids: [], options };
  const allowed = OPTIONS_OF[command];
  if (allowed === undefined) throw wrong(`unknown command ${command.trim()}`);
  const foreign = Object.keys(options).find((name) =>
    !COMMON.includes(name) && !allowed.includes(name)
  );
  if (foreign !== undefined) throw wrong(`${command} takes no --${foreign}`);
  const ids = positionals.slice(command.split(" ").length);
  const filter = ["reason", "status", "limit"].find((name) => name in options);
  checkIds({ command, ids, all: options.all === true, filter });
  return { command, ids, options };
}

function checkIds(
  { command, ids, all, filter }: Pick<CommandLine, "ids"> & {
    readonly command: string;
    readonly all: boolean;
    readonly filter: string | undefined;
  },
): void {
  switch (command) {
    case "failed show":
      if (ids.length !== 1) throw wrong("failed show takes one id");
      return;
    case "failed redrive":
    case "failed delete":
      if (all === ids.length > 0) throw wrong(`${command} takes either ids or --all`);
      if (!all && filter !== undefined) throw wrong(`--${filter} goes with --all, not with ids`);
      return;
    default:
      if (ids.length > 0) throw wrong(`${command} takes no ${ids[0]}`);
  }
}

function readOptions(args: readonly string[]): ReturnType<typeof parse> {
  try {
    return parse(args);
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
}

function parse(
  args: readonly string[],
): { readonly values: Options; readonly positionals: readonly string[] } {
  return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
}

function wrong(problem: string): CommandError {
  return new CommandError(`${problem}; --help lists what there is`, EXIT.usage);
}
