/**
 * The kinds of value that the environment can hold: what text is allowed and what it becomes.
 *
 * A kind says what it allows once, in words that complete "must be …", so that an error, `--help` and
 * the README cannot tell different stories. Every number has bounds, and every duration becomes whole
 * milliseconds here, so that nothing behind the configuration has to doubt what it is given.
 *
 * @module
 */

import { isIP } from "node:net";
import { z } from "zod";
import { maxAttempts, MOST_ATTEMPTS } from "./rungs.ts";
import type { Rung } from "./rungs.ts";

/** One kind of value. `T` is what the text becomes. */
export interface Kind<T> {
  /** What may be written, completing "must be …". */
  readonly allowed: string;
  /** Its first issue completes `NAME="value": …`. */
  readonly schema: z.ZodType<T, string>;
}

/** One variable of the environment. */
export interface Variable<T = unknown> {
  readonly kind: Kind<T>;
  /** The text that counts when the variable is unset; absent when unset means something of its own. */
  readonly fallback?: string;
  /** What people read as the default when there is no `fallback`. */
  readonly unset?: string;
  readonly meaning: string;
  /** May come as `NAME_FILE` and is never shown. */
  readonly secret?: true;
}

type Defaulted<T> = Variable<T> & { readonly fallback: string };

/** What a variable becomes. */
export type ValueOf<V> = V extends Defaulted<infer T> ? T
  : V extends Variable<infer T> ? T | undefined
  : never;

/** A variable with a default. */
export function variable<T>(kind: Kind<T>, fallback: string, meaning: string): Defaulted<T> {
  return { kind, fallback, meaning };
}

/** A variable that may be left out; `unset` is what people then read as its default. */
export function optional<T>(kind: Kind<T>, meaning: string, unset = "unset"): Variable<T> {
  return { kind, unset, meaning };
}

/** The same variable as a secret. */
export function secret<V extends Variable>(open: V): V & { readonly secret: true } {
  return { ...open, secret: true };
}

const LONGEST_QUOTE = 120;
const DECIMAL = /^(\d+(\.\d+)?|\.\d+)$/;
const LADDER_STEP = /^(\d+)\s*x\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h)$/i;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
const DAY_MS = 24 * UNIT_MS.h;
const MOST_FAULTS = 5;

/**
 * A value as an error may show it: quoted, control characters escaped, cut when long, and without what
 * stands before an `@`, because a URL with a password in it is easily put into the wrong variable.
 */
export function quote(text: string): string {
  const harmless = text.replace(/^(\s*[a-z][a-z0-9+.-]*:\/\/)?.*@/is, "$1***@");
  const cut = harmless.length > LONGEST_QUOTE ? `${harmless.slice(0, LONGEST_QUOTE)}…` : harmless;
  return JSON.stringify(cut);
}

/** A whole number within bounds, both included. */
export function wholeNumber(min: number, max: number): Kind<number> {
  const allowed = `a whole number from ${min} to ${max}`;
  const error = ({ input }: { input?: unknown }): string =>
    `must be ${allowed}${linkHint(String(input))}`;
  const schema = z.string().trim().regex(/^\d+$/, { error })
    .transform(Number).pipe(z.number({ error }).min(min, { error }).max(max, { error }));
  return { allowed, schema };
}

/** A port to listen on, or `off`. */
export function portOrOff(): Kind<number | "off"> {
  const port = wholeNumber(0, 65_535);
  const allowed = `${port.allowed}, or off`;
  const schema = z.string().trim().transform((text, context): number | "off" => {
    if (text === "off") return text;
    const result = port.schema.safeParse(text);
    if (result.success) return result.data;
    context.addIssue(`must be ${allowed}`);
    return z.NEVER;
  });
  return { allowed, schema };
}

/** Docker's links and Kubernetes fill `RABBIT_PORT` for a service of that name; nobody wrote it. */
function linkHint(text: string): string {
  return text.startsWith("tcp://")
    ? " (Docker links and Kubernetes set this for a service of that name:" +
      " rename the service or set the variable yourself)"
    : "";
}

/** A duration written in seconds, read as whole milliseconds; the bounds are seconds and included. */
export function seconds(min: number, max: number): Kind<number> {
  const allowed = `seconds from ${min} to ${max}, down to whole milliseconds`;
  const error = `must be ${allowed}`;
  const schema = z.string().trim().regex(DECIMAL, { error })
    .transform((text) => toMilliseconds(text, 1000))
    .pipe(z.int({ error }).min(min * 1000, { error }).max(max * 1000, { error }));
  return { allowed, schema };
}

/** A number from 0 to 1. */
export function share(): Kind<number> {
  const allowed = "a number from 0 to 1";
  const error = `must be ${allowed}`;
  const schema = z.string().trim().regex(DECIMAL, { error }).transform(Number)
    .pipe(z.number({ error }).max(1, { error }));
  return { allowed, schema };
}

/** `1.005` times 1000 is 1004.9999999999999 in a double: what is that near to a whole number is one. */
function toMilliseconds(decimal: string, unitMs: number): number {
  const ms = Number(decimal) * unitMs;
  const whole = Math.round(ms);
  return Math.abs(ms - whole) < 1e-6 ? whole : ms;
}

/** One of a few words, written exactly so. */
export function oneOf<const T extends string>(first: T, ...rest: readonly T[]): Kind<T> {
  const allowed = [first, ...rest].join(" or ");
  const error = `must be ${allowed}`;
  return { allowed, schema: z.string().trim().pipe(z.enum([first, ...rest], { error })) };
}

/** `true` or `false`. */
export function flag(): Kind<boolean> {
  const words = oneOf("true", "false");
  return { allowed: words.allowed, schema: words.schema.transform((word) => word === "true") };
}

/** A string which a pattern describes; `allowed` says the same in words. */
export function matching(pattern: RegExp, allowed: string): Kind<string> {
  return { allowed, schema: z.string().trim().regex(pattern, { error: `must be ${allowed}` }) };
}

/**
 * Text for the broker's handshake. Nothing is trimmed, and any character goes but NUL, which separates
 * user and password there; `maxBytes` is a limit of the protocol, counted in UTF-8.
 */
export function handshakeText(maxBytes: number): Kind<string> {
  const allowed = `up to ${maxBytes} bytes without NUL`;
  const fits = (text: string): boolean =>
    !text.includes("\0") && new TextEncoder().encode(text).length <= maxBytes;
  return { allowed, schema: z.string().refine(fits, { error: `must be ${allowed}` }) };
}

/** Text that can travel as the value of an HTTP header, where spaces at the ends would be lost. */
export function headerText(): Kind<string> {
  const allowed = "printable ASCII without a space at either end";
  const pattern = /^[!-~]([ -~]*[!-~])?$/;
  return { allowed, schema: z.string().regex(pattern, { error: `must be ${allowed}` }) };
}

/** A host name or an address; IPv6 also in brackets, which are taken off. */
export function hostName(): Kind<string> {
  const allowed = "a host name or an IP address, without scheme and port";
  const isHost = (text: string): boolean =>
    isIP(text) !== 0 || /^(?=.{1,253}$)\w([\w.-]*[\w.])?$/.test(text);
  const schema = z.string().trim().transform((text) => text.replace(/^\[(.*:.*)\]$/, "$1"))
    .refine(isHost, { error: `must be ${allowed}` });
  return { allowed, schema };
}

/** A path of the file system. */
export function filePath(): Kind<string> {
  const allowed = "a path";
  const schema = z.string().refine((path) => path.trim() !== "" && !path.includes("\0"), {
    error: `must be ${allowed}`,
  });
  return { allowed, schema };
}

/** A list of HTTP statuses, sorted and without repetition. */
export function failureStatuses(): Kind<readonly number[]> {
  const allowed = "statuses from 300 to 599 separated by commas, such as 400,410,422";
  const error = `must be ${allowed} (2xx means that the task is done)`;
  const schema = z.string().regex(/^\s*[345]\d\d(\s*,\s*[345]\d\d)*\s*$/, { error })
    .transform((text) => [...new Set(text.split(",").map(Number))].sort((a, b) => a - b));
  return { allowed, schema };
}

/** Where a Redis listens. */
export function redisUrl(): Kind<string> {
  const allowed = "a redis:// or rediss:// URL with a host, such as redis://:password@host:6379/0";
  const fits = (text: string): boolean => {
    if (!/^rediss?:\/\/[^/?#]/i.test(text) || !URL.canParse(text)) return false;
    const { hostname, pathname, username, password } = new URL(text);
    const readable = [username, password].every((part) => !/%(?![\da-f]{2})/i.test(part));
    return hostname !== "" && /^(\/\d*)?$/.test(pathname) && readable;
  };
  return { allowed, schema: z.string().trim().refine(fits, { error: `must be ${allowed}` }) };
}

/** The retry ladder, see {@link parseLadder}. */
export function retryLadder(): Kind<readonly Rung[]> {
  const allowed = "ATTEMPTSxDELAY separated by commas, such as 2x0s,5x1.5s,3x2m " +
    "(ms, s, m or h; up to 24h; 1 to 10000 attempts in all)";
  const schema = z.string().transform((text, context): readonly Rung[] => {
    const { rungs, faults } = readLadder(text);
    if (faults.length === 0) return rungs;
    context.addIssue(`must be ${allowed}: ${faults.slice(0, MOST_FAULTS).join("; ")}`);
    return z.NEVER;
  });
  return { allowed, schema };
}

/**
 * Reads `2x0s,5x3s`: two attempts at once, then five, each 3 s after the one before it. The first
 * attempt of the first rung has nothing before it and is made at once whatever its delay.
 *
 * @throws {RangeError} naming every step that cannot be read or is out of bounds.
 */
export function parseLadder(text: string): Rung[] {
  const { rungs, faults } = readLadder(text);
  if (faults.length > 0) throw new RangeError(`Retry ladder ${quote(text)}: ${faults.join("; ")}`);
  return rungs;
}

function readLadder(text: string): { rungs: Rung[]; faults: string[] } {
  const steps = text.split(",").map((step) => readStep(step.trim()));
  const rungs = steps.filter((step) => typeof step !== "string");
  const faults = steps.filter((step) => typeof step === "string");
  const total = maxAttempts(rungs);
  if (total > MOST_ATTEMPTS) faults.push(`${total} attempts in all are too many`);
  return { rungs, faults };
}

/** One step of the ladder, or what is wrong with it. */
function readStep(step: string): Rung | string {
  const [, attemptsText, delayText, unit] = LADDER_STEP.exec(step) ?? [];
  if (attemptsText === undefined || delayText === undefined || unit === undefined) {
    return `${quote(step)} is not ATTEMPTSxDELAY`;
  }
  const attempts = Number(attemptsText);
  const delayMs = toMilliseconds(delayText, UNIT_MS[unit.toLowerCase() as keyof typeof UNIT_MS]);
  if (attempts < 1) return `${quote(step)} makes no attempt`;
  if (delayMs > DAY_MS) return `${quote(step)} waits longer than 24h`;
  if (!Number.isInteger(delayMs)) return `${quote(step)} is not a whole number of milliseconds`;
  return { attempts, delayMs };
}
