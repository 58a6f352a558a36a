/**
 * The configuration: `loadConfig` turns an environment into a readonly `Config`, or into one error with
 * every problem in it. The variables are those of `variables.ts`.
 *
 * Nothing here reads the environment itself. The value of a secret never gets into a message.
 *
 * @module
 */

import { joinUrl } from "./backend_url.ts";
import { quote } from "./config_values.ts";
import {
  ConfigError,
  type Environment,
  readFileOf,
  readOpen,
  readSecret,
  type ReadTextFile,
} from "./environment.ts";
import { isLoopback } from "./loopback.ts";
import { withJitter } from "./rungs.ts";
import type { Rung } from "./rungs.ts";
import { type Values, VARIABLE_LIST } from "./variables.ts";

export { joinUrl } from "./backend_url.ts";
export { ConfigError } from "./environment.ts";
export { parseLadder } from "./config_values.ts";
export { KNOWN_NAMES, VARIABLE_LIST } from "./variables.ts";

/** The whole configuration of a relay: validated, readonly, times in milliseconds. */
export interface Config {
  readonly inbound: {
    readonly host: string;
    readonly port: number;
    readonly token?: string;
    readonly maxTaskBytes: number;
    readonly maxBatchTasks: number;
    readonly maxBatchBytes: number;
    readonly maxDelayMs: number;
  };
  readonly rabbit: {
    readonly host: string;
    readonly port: number;
    readonly user: string;
    readonly password: string;
    readonly vhost: string;
    /** Absent: plain TCP. `ca` is the PEM text of RABBIT_CA_FILE, without it the public ones count. */
    readonly tls?: { readonly ca?: string };
  };
  readonly queues: {
    readonly prefix: string;
    readonly type: "quorum" | "classic";
    readonly singleActiveConsumer: boolean;
  };
  readonly backend: {
    readonly url: URL;
    readonly timeoutMs: number;
    /** A longer Retry-After is cut to this. */
    readonly retryAfterMaxMs: number;
    /** The PEM text of BACKEND_CA_FILE; absent: the public authorities. */
    readonly ca?: string;
    readonly authorization?: string;
    /** The keys themselves; absent: requests are not signed. */
    readonly signingSecrets?: readonly Uint8Array[];
  };
  readonly limit: {
    readonly maxRequests: number;
    readonly windowMs: number;
    readonly algorithm: "fixed-window" | "sliding-window";
  };
  readonly consumer: { readonly prefetch: number; readonly concurrency: number };
  readonly ladder: readonly Rung[];
  /** Failures in a row to reach the backend that close the gate; 0: it is not closed by them. */
  readonly breakerFailures: number;
  readonly permanentStatuses: readonly number[];
  /** Absent: no idempotency, no task status. */
  readonly ledger?: {
    /** Kept this long after the final disposition. */
    readonly retentionMs: number;
  };
  readonly dataDir: string;
  /** Where replicas share the ledger, the limit and the gate; absent: they are this replica's own. */
  readonly redisUrl?: string;
  /** Absent: operators are not listened for. */
  readonly ops?: {
    readonly host: string;
    readonly port: number;
    /** Always given when `host` is not a loopback address. */
    readonly token?: string;
  };
  readonly shutdownGraceMs: number;
  readonly log: {
    readonly level: "debug" | "info" | "warning" | "error";
    readonly format: "json" | "pretty";
  };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^]+-----END CERTIFICATE-----/;

/**
 * The configuration which an environment describes.
 *
 * @param readTextFile for secrets that come as `NAME_FILE`, and for RABBIT_CA_FILE and BACKEND_CA_FILE.
 * @throws {ConfigError} with every problem at once, in the order of the table.
 */
export function loadConfig(environment: Environment, readTextFile: ReadTextFile): Config {
  const problems = new Map<string, string>();
  const values = readValues(environment, readTextFile, problems);
  checkTogether(values, problems);
  const authorities = readAuthorities(values, readTextFile, problems);
  if (problems.size > 0) {
    const inOrder = VARIABLE_LIST.map(([name]) => problems.get(name));
    throw new ConfigError(inOrder.filter((problem) => problem !== undefined));
  }
  // Without a problem every variable that has a fallback has a value.
  return assemble(values as Values, authorities);
}

/** The variables of the operators' listener, as they are. */
export interface OpsValues {
  readonly host: string;
  readonly port: number | "off";
  readonly token?: string | undefined;
}

/**
 * Where operators are listened for, as far as an environment says so; nothing else of it is looked at.
 *
 * @param readTextFile for OPS_TOKEN_FILE.
 * @throws {ConfigError} with every problem of these variables.
 */
export function loadOps(environment: Environment, readTextFile: ReadTextFile): OpsValues {
  const problems = new Map<string, string>();
  const list = VARIABLE_LIST.filter(([name]) => name.startsWith("OPS_"));
  const values = readValues(environment, readTextFile, problems, list);
  if (problems.size > 0) throw new ConfigError([...problems.values()]);
  const { OPS_HOST, OPS_PORT, OPS_TOKEN } = values as Values;
  return { host: OPS_HOST, port: OPS_PORT, token: OPS_TOKEN };
}

/** Reads each variable by itself; what can't be read is left out and leaves a problem. */
function readValues(
  environment: Environment,
  readTextFile: ReadTextFile,
  problems: Map<string, string>,
  variables = VARIABLE_LIST,
): Partial<Values> {
  const values: Record<string, unknown> = {};
  for (const [name, { kind, fallback = "", secret }] of variables) {
    const given = secret
      ? readSecret(environment, name, readTextFile)
      : readOpen(environment, name);
    if (given.state === "unusable") {
      problems.set(name, given.problem);
      continue;
    }
    const { text, source } = given.state === "set" ? given : { text: fallback, source: name };
    if (text === "") continue;
    const result = kind.schema.safeParse(text);
    if (result.success) values[name] = result.data;
    else problems.set(name, `${source} ${result.error.issues[0]?.message}`);
  }
  return values as Partial<Values>;
}

/** What no variable shows by itself. */
function checkTogether(values: Partial<Values>, problems: Map<string, string>): void {
  const { CONCURRENCY: concurrency, PREFETCH_COUNT: prefetch } = values;
  if (concurrency !== undefined && prefetch !== undefined && concurrency > prefetch) {
    const allowed = `must be at most PREFETCH_COUNT, which is ${prefetch}`;
    problems.set("CONCURRENCY", `CONCURRENCY="${concurrency}": ${allowed}`);
  }
  const { SINGLE_ACTIVE_CONSUMER: singleActive, REDIS_URL: redis } = values;
  if (singleActive === false && redis === undefined && !problems.has("REDIS_URL")) {
    const why = "without REDIS_URL each replica would send at the whole rate limit";
    const advice = "set REDIS_URL, by which they share it, or leave it true";
    problems.set("SINGLE_ACTIVE_CONSUMER", `SINGLE_ACTIVE_CONSUMER="false": ${why}; ${advice}`);
  }
  const { OPS_HOST: host, OPS_PORT: port, OPS_TOKEN: token } = values;
  const isOpen = host !== undefined && !isLoopback(host) && port !== "off";
  if (isOpen && token === undefined && !problems.has("OPS_TOKEN")) {
    const why = `OPS_HOST=${quote(host)} is not a loopback address`;
    problems.set("OPS_TOKEN", `OPS_TOKEN must be set, because ${why}`);
  }
}

/** PEM texts of those whose certificates are trusted. */
interface Authorities {
  readonly rabbitCa: string | undefined;
  readonly backendCa: string | undefined;
}

function readAuthorities(
  values: Partial<Values>,
  readTextFile: ReadTextFile,
  problems: Map<string, string>,
): Authorities {
  const read = (name: CaVariable, isUsed: boolean, needs: string): string | undefined => {
    const path = values[name];
    if (path === undefined) return undefined;
    if (isUsed) return readAuthority(name, path, readTextFile, problems);
    problems.set(name, `${name}=${quote(path)}: needs ${needs}`);
    return undefined;
  };
  // What can't be read is a problem already, and says nothing about this.
  const byTls = values.RABBIT_TLS ?? true;
  const byHttps = (values.BACKEND_BASE_URL?.protocol ?? "https:") === "https:";
  return {
    rabbitCa: read("RABBIT_CA_FILE", byTls, "RABBIT_TLS=true"),
    backendCa: read("BACKEND_CA_FILE", byHttps, "an https:// URL in BACKEND_BASE_URL"),
  };
}

type CaVariable = "RABBIT_CA_FILE" | "BACKEND_CA_FILE";

function readAuthority(
  name: CaVariable,
  path: string,
  readTextFile: ReadTextFile,
  problems: Map<string, string>,
): string | undefined {
  const content = readFileOf(name, path, readTextFile);
  if (content.state === "unusable") problems.set(name, content.problem);
  if (content.state !== "set") return undefined;
  if (!CERTIFICATE.test(content.text)) {
    problems.set(name, `${content.source} must be PEM (-----BEGIN CERTIFICATE-----)`);
  }
  return content.text;
}

function assemble(values: Values, { rabbitCa, backendCa }: Authorities): Config {
  return {
    inbound: {
      host: values.INBOUND_HOST,
      port: values.INBOUND_PORT,
      ...(values.INGEST_TOKEN === undefined ? {} : { token: values.INGEST_TOKEN }),
      maxTaskBytes: values.MAX_TASK_BYTES,
      maxBatchTasks: values.MAX_BATCH_TASKS,
      maxBatchBytes: values.MAX_BATCH_BYTES,
      maxDelayMs: values.MAX_DELAY_SEC,
    },
    rabbit: {
      host: values.RABBIT_HOST,
      port: values.RABBIT_PORT,
      user: values.RABBIT_USER,
      password: values.RABBIT_PASSWORD,
      vhost: values.RABBIT_VHOST,
      ...(values.RABBIT_TLS ? { tls: rabbitCa === undefined ? {} : { ca: rabbitCa } } : {}),
    },
    queues: {
      prefix: values.QUEUE_PREFIX,
      type: values.QUEUE_TYPE,
      singleActiveConsumer: values.SINGLE_ACTIVE_CONSUMER,
    },
    backend: {
      url: joinUrl(values.BACKEND_BASE_URL, values.BACKEND_PATH),
      timeoutMs: values.BACKEND_TIMEOUT,
      retryAfterMaxMs: values.RETRY_AFTER_MAX_SEC,
      ...(backendCa === undefined ? {} : { ca: backendCa }),
      ...(values.BACKEND_AUTHORIZATION === undefined
        ? {}
        : { authorization: values.BACKEND_AUTHORIZATION }),
      ...(values.SIGNING_SECRET === undefined ? {} : { signingSecrets: values.SIGNING_SECRET }),
    },
    limit: {
      maxRequests: values.RATE_LIMIT_MAX_REQUESTS,
      windowMs: values.RATE_LIMIT_WINDOW_SEC,
      algorithm: values.RATE_LIMIT_ALGORITHM,
    },
    consumer: {
      prefetch: values.PREFETCH_COUNT,
      concurrency: values.CONCURRENCY ?? values.PREFETCH_COUNT,
    },
    ladder: withJitter(values.RETRY_LADDER, values.RETRY_JITTER),
    breakerFailures: values.BREAKER_FAILURES,
    permanentStatuses: values.PERMANENT_STATUSES ?? [],
    ...(values.LEDGER === "on" ? { ledger: { retentionMs: values.LEDGER_RETENTION_SEC } } : {}),
    dataDir: values.DATA_DIR,
    ...(values.REDIS_URL === undefined ? {} : { redisUrl: values.REDIS_URL }),
    ...(values.OPS_PORT === "off" ? {} : { ops: opsOf(values, values.OPS_PORT) }),
    shutdownGraceMs: values.SHUTDOWN_GRACE_SEC,
    log: { level: values.LOG_LEVEL, format: values.LOG_FORMAT },
  };
}

function opsOf(values: Values, port: number): NonNullable<Config["ops"]> {
  return {
    host: values.OPS_HOST,
    port,
    ...(values.OPS_TOKEN === undefined ? {} : { token: values.OPS_TOKEN }),
  };
}
