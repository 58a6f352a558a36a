/**
 * The commands for operators: each asks the operators' listener and says what came of it.
 *
 * @module
 */

import type { Page } from "../ops/browse.ts";
import type { FailedTaskDetail } from "../ops/failed_task.ts";
import type { Stats } from "../ops/stats.ts";
import { describeFailed, describeStats, describeTask } from "./describe.ts";
import type { OpsClient } from "./ops_client.ts";
import { printable } from "./table.ts";
import { CommandError, type CommandLine, EXIT } from "./usage.ts";

/** What the listener does in one request, at most: tasks to redrive, ids of such, tasks to list. */
const MOST_REDRIVEN = 10_000;
const MOST_IDS = 1_000;
const LARGEST_PAGE = 1_000;

/** What a command reads from and writes to. */
export interface Terminal {
  /** Columns. */
  readonly width: number;
  say(text: string): void;
  write(bytes: Uint8Array): void;
  /** Asks a person; undefined when there is none. */
  confirm(question: string): boolean | undefined;
}

/** Asks the listener; see `ops_client.ts`. */
export type Client = Pick<OpsClient, "ask">;

type Command = (line: CommandLine, client: Client, terminal: Terminal) => Promise<void>;

/** By name. */
const COMMANDS: Readonly<Record<string, Command>> = {
  "failed list": listFailed,
  "failed show": showFailed,
  "failed redrive": redrive,
  "failed delete": deleteFailed,
  pause: (line, client, terminal) => setPaused(true, line, client, terminal),
  resume: (line, client, terminal) => setPaused(false, line, client, terminal),
  stats,
};

/** Carries a command out. @throws {CommandError} when that is not possible */
export async function runCommand(
  line: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<void> {
  await COMMANDS[line.command ?? ""]?.(line, client, terminal);
}

async function listFailed(
  { options }: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<void> {
  const query = new URLSearchParams();
  for (const name of ["limit", "after", "reason", "status"] as const) {
    const value = options[name];
    if (value !== undefined) query.set(name, value);
  }
  if (options["all-pages"] && options.limit === undefined) query.set("limit", String(LARGEST_PAGE));
  let page = await client.ask<Page>("GET", `/failed?${query}`);
  const tasks = [...page.tasks];
  while (options["all-pages"] && page.next !== null) {
    query.set("after", page.next);
    page = await client.ask<Page>("GET", `/failed?${query}`);
    tasks.push(...page.tasks);
  }
  if (options.json) return terminal.say(jsonText({ ...page, tasks }));
  if (tasks.length > 0) terminal.say(describeFailed(tasks, terminal.width));
  terminal.say(`${tasks.length} shown, ${page.total} in the failed queue`);
  if (page.next !== null) terminal.say(`more: --after ${printable(page.next)}`);
}

async function showFailed(
  { ids: [id = ""], options }: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<void> {
  const task = await client.ask<FailedTaskDetail>("GET", `/failed/${encodeURIComponent(id)}`);
  if (options.payload) return terminal.write(payloadOf(task));
  terminal.say(options.json ? jsonText(task) : describeTask(task, terminal.width));
}

interface Redriven {
  readonly matched: number;
  readonly redriven: number;
}

async function redrive(line: CommandLine, client: Client, terminal: Terminal): Promise<void> {
  const { ids, options } = line;
  const total = options.all
    ? await redriveAll(line, client, terminal)
    : await redriveIds(line, client);
  terminal.say(
    options.json ? jsonText(total) : `${total.matched} matched, ${total.redriven} sent again`,
  );
  const missing = new Set(ids).size - total.matched;
  if (missing > 0) throw new CommandError(`${missing} of them are no failed tasks`, EXIT.notFound);
}

async function redriveIds(
  { ids, options }: CommandLine,
  client: Client,
): Promise<Redriven> {
  const left = [...new Set(ids)];
  const total = { matched: 0, redriven: 0 };
  while (left.length > 0) {
    const body = { ids: left.splice(0, MOST_IDS), dryRun: options["dry-run"] === true };
    const { matched, redriven } = await client.ask<Redriven>("POST", "/failed/redrive", body);
    total.matched += matched;
    total.redriven += redriven;
  }
  return total;
}

/**
 * A request redrives so many and no more, so it is repeated; but not for what fails anew meanwhile,
 * and not for what stays: that matches each time.
 */
async function redriveAll(
  { options }: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<Redriven> {
  const { reason, status } = options;
  const dryRun = options["dry-run"] === true;
  const selection = { reason, ...numberIn("status", status), dryRun };
  const wanted = numberIn("limit", options.limit)["limit"] ?? Infinity;
  if (!dryRun) {
    const what = reason === undefined && status === undefined ? "all" : "all matching";
    confirmed(terminal, options.yes, `Send ${what} failed tasks again?`);
  }
  const { total } = await client.ask<Page>("GET", "/failed?limit=1");
  let left = Math.min(wanted, total);
  let sent = 0;
  while (left > 0) {
    const limit = Math.min(left, MOST_REDRIVEN);
    const body = { all: true, ...selection, limit };
    const { matched, redriven } = await client.ask<Redriven>("POST", "/failed/redrive", body);
    sent += redriven;
    left -= redriven;
    if (matched < limit || redriven === 0 || left === 0) {
      return { matched: sent + matched - redriven, redriven: sent };
    }
  }
  return { matched: 0, redriven: 0 };
}

async function deleteFailed(
  { ids, options }: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<void> {
  let deleted = 0;
  if (options.all) {
    confirmed(terminal, options.yes, "Delete all failed tasks for good?");
    ({ deleted } = await client.ask<{ deleted: number }>("DELETE", "/failed?all=true"));
  }
  const missing: string[] = [];
  for (const id of new Set(ids)) {
    try {
      await client.ask("DELETE", `/failed/${encodeURIComponent(id)}`);
      deleted++;
    } catch (error) {
      if (!(error instanceof CommandError && error.status === EXIT.notFound)) throw error;
      missing.push(id);
    }
  }
  terminal.say(options.json ? jsonText({ deleted }) : `${deleted} deleted`);
  if (missing.length > 0) {
    throw new CommandError(`no failed task now: ${missing.join(", ")}`, EXIT.notFound);
  }
}

async function setPaused(
  paused: boolean,
  { options }: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<void> {
  const answer = await client.ask("POST", paused ? "/pause" : "/resume");
  const said = paused
    ? "paused: nothing is delivered until `resume`, tasks are accepted and wait"
    : "resumed";
  terminal.say(options.json ? jsonText(answer) : said);
}

async function stats(
  { options }: CommandLine,
  client: Client,
  terminal: Terminal,
): Promise<void> {
  const stats = await client.ask<Stats>("GET", "/stats");
  terminal.say(options.json ? jsonText(stats) : describeStats(stats, terminal.width));
}

function confirmed(terminal: Terminal, yes: boolean | undefined, question: string): void {
  if (yes) return;
  const answer = terminal.confirm(question);
  if (answer) return;
  throw answer === undefined
    ? new CommandError("nobody can be asked here; say --yes for --all", EXIT.usage)
    : new CommandError("nothing was done", EXIT.refused);
}

function numberIn<Name extends string>(
  name: Name,
  text: string | undefined,
): { [N in Name]?: number } {
  if (text === undefined) return {};
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    throw new CommandError(`--${name} ${text} must be a whole number from 1`, EXIT.usage);
  }
  return { [name]: Number(text) } as { [N in Name]?: number };
}

function payloadOf({ payload, payloadEncoding }: FailedTaskDetail): Uint8Array {
  return payloadEncoding === "base64"
    ? Uint8Array.fromBase64(payload)
    : new TextEncoder().encode(payload);
}

/** JSON without characters that a terminal would act on: escaped, as JSON has it. */
function jsonText(value: unknown): string {
  return printable(JSON.stringify(value));
}
