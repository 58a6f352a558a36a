/**
 * The environment: the process's own, an `.env` file under it, and secrets that lie in files.
 *
 * It is read through what is passed in, so that tests and the compiled binary go the same way. Files
 * are looked up when the program runs, in the directory in which it runs.
 *
 * @module
 */

import { parseEnv } from "node:util";
import { quote } from "./config_values.ts";

/** An environment; a variable that is an empty string counts as unset. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a text file at once, throwing when it can't, as `Deno.readTextFileSync` does. */
export type ReadTextFile = (path: string) => string;

/** Everything that is wrong with an environment; the message lists it and is meant for people. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  /** One line a problem: the name, the value given unless it is secret, and what is allowed. */
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
    super(`${count} in the environment:\n${problems.map((line) => `  ${line}`).join("\n")}`);
    this.problems = problems;
  }
}

/**
 * Merges the `.env` file of the working directory, if there is one, under the process's environment.
 *
 * What the process sets wins, even when it is empty; and a `NAME_FILE` of the process also wins over a
 * `NAME` of the file (and the other way round), because they are two ways to give one value.
 *
 * @param readTextFile throws `Deno.errors.NotFound` for a file that is not there.
 * @throws {ConfigError} if there is an `.env` that cannot be read.
 */
export function readEnvironment(
  processEnvironment: Readonly<Record<string, string>>,
  readTextFile: ReadTextFile,
): Record<string, string> {
  const file = parseEnv(readDotEnv(readTextFile));
  const isSet = (name: string): boolean =>
    Object.hasOwn(processEnvironment, name) && processEnvironment[name] !== "";
  const kept = Object.entries(file).filter(([name, value]) =>
    value !== undefined && !isSet(otherWayToGive(name))
  );
  return { ...Object.fromEntries(kept), ...processEnvironment } as Record<string, string>;
}

function otherWayToGive(name: string): string {
  return name.endsWith("_FILE") ? name.slice(0, -"_FILE".length) : `${name}_FILE`;
}

function readDotEnv(readTextFile: ReadTextFile): string {
  try {
    // Editors on Windows begin a file with a byte order mark, which would be part of the first name.
    return readTextFile(".env").replace(/^\uFEFF/, "");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw new ConfigError([`.env in the working directory cannot be read: ${reason(error)}`]);
  }
}

/** What an environment gives for one variable. */
export type Given =
  | { readonly state: "unset" }
  /** `source` is how a problem with the text begins; it holds the text only if that is no secret. */
  | { readonly state: "set"; readonly text: string; readonly source: string }
  | { readonly state: "unusable"; readonly problem: string };

/** What the environment gives for a variable that is no secret. */
export function readOpen(environment: Environment, name: string): Given {
  const text = setText(environment, name);
  if (text === undefined) return { state: "unset" };
  return { state: "set", text, source: `${name}=${quote(text)}:` };
}

/** What the environment gives for a secret: its own text, or the content of the file `NAME_FILE`. */
export function readSecret(
  environment: Environment,
  name: string,
  readTextFile: ReadTextFile,
): Given {
  const text = setText(environment, name);
  const path = setText(environment, `${name}_FILE`);
  if (path === undefined) {
    if (text === undefined) return { state: "unset" };
    return { state: "set", text, source: `${name} (a secret, not shown):` };
  }
  if (text !== undefined) {
    const problem = `${name} and ${name}_FILE are both set: set one of them`;
    return { state: "unusable", problem };
  }
  return readSecretFile(`${name}_FILE`, path, readTextFile);
}

function readSecretFile(name: string, path: string, readTextFile: ReadTextFile): Given {
  const content = readFileOf(name, path, readTextFile);
  if (content.state !== "set") return content;
  const text = content.text.replace(/\r?\n$/, "");
  if (text !== "") return { ...content, text };
  return { state: "unusable", problem: `${content.source} the file is empty` };
}

/** The content of the file which the variable `name` names. */
export function readFileOf(name: string, path: string, readTextFile: ReadTextFile): Given {
  const source = `${name}=${quote(path)}:`;
  try {
    return { state: "set", text: readTextFile(path), source: `${source} the file's content` };
  } catch (error) {
    return { state: "unusable", problem: `${source} cannot be read: ${reason(error)}` };
  }
}

function setText(environment: Environment, name: string): string | undefined {
  const text = Object.hasOwn(environment, name) ? environment[name] : undefined;
  return text === "" ? undefined : text;
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const FAMILIES = /^(INBOUND|INGEST|RABBIT|QUEUE|BACKEND|RATE_LIMIT|RETRY|SIGNING)_/;
/** What Docker links and Kubernetes add for a service called `rabbit` or `backend`. */
const LINKED = /_(NAME|PORT(_\d+_\w+)?|ENV_\w+|SERVICE_\w+)$/;

/** The names that look as if they were meant for the relay, but are not known: worth a warning. */
export function unknownNames(environment: Environment, known: ReadonlySet<string>): string[] {
  return Object.keys(environment)
    .filter((name) => FAMILIES.test(name) && !LINKED.test(name) && !known.has(name)).sort();
}
