/**
 * The variables: what the environment may hold, in one table. `loadConfig` reads by it, `--help` and
 * the README show it, so that what is documented is what is read.
 *
 * @module
 */

import { baseUrl, requestPath } from "./backend_url.ts";
import {
  failureStatuses,
  filePath,
  flag,
  handshakeText,
  headerText,
  hostName,
  matching,
  oneOf,
  optional,
  portOrOff,
  redisUrl,
  retryLadder,
  seconds,
  secret,
  share,
  type ValueOf,
  type Variable,
  variable,
  wholeNumber,
} from "./config_values.ts";
import { signingSecrets } from "./signing_secrets.ts";

const MOST_REQUESTS = 1_000_000;
const MONTH_SEC = 31 * 24 * 3600;
/** RabbitMQ 4 refuses larger messages (`max_message_size`). */
const LARGEST_MESSAGE = 16 * 1024 * 1024;
const MOST_BATCH_BYTES = 128 * 1024 * 1024;
const YEAR_SEC = 366 * 24 * 3600;
/** Twelve days: what twenty binary levels of seconds can hold, rounded down. */
const LONGEST_DELAY_SEC = 12 * 24 * 3600;
/** amqplib sends a prefetch count as 16 bits, where 0 would mean no limit. */
const MOST_PREFETCH = 65_535;

/** Every variable that has an effect, in the order in which people read them. */
export const VARIABLES = {
  INBOUND_HOST: variable(hostName(), "0.0.0.0", "address on which clients post"),
  INBOUND_PORT: variable(wholeNumber(0, 65_535), "8080", "port for clients; 0 takes a free one"),
  INGEST_TOKEN: secret(optional(headerText(), "clients send it as `Authorization: Bearer …`")),
  RABBIT_HOST: variable(hostName(), "localhost", "where RabbitMQ listens"),
  RABBIT_PORT: variable(wholeNumber(1, 65_535), "5672", "port of RabbitMQ; 5671 is usual with TLS"),
  RABBIT_USER: variable(handshakeText(255), "guest", "user of RabbitMQ"),
  RABBIT_PASSWORD: secret(variable(handshakeText(4096), "guest", "password of that user")),
  RABBIT_VHOST: variable(handshakeText(255), "/", "virtual host, not percent-encoded"),
  RABBIT_TLS: variable(flag(), "false", "connect by TLS (amqps)"),
  RABBIT_CA_FILE: optional(
    filePath(),
    "PEM file of the authority to trust; unset: the public ones",
  ),
  QUEUE_PREFIX: variable(
    matching(/^(?!amq\.)[\w.-]{1,100}$/, "1 to 100 of A-Z a-z 0-9 _ . - without amq. in front"),
    "tasks",
    "queues are called PREFIX.main, PREFIX.retry.3s, …, PREFIX.failed",
  ),
  QUEUE_TYPE: variable(oneOf("quorum", "classic"), "quorum", "type of the queues"),
  SINGLE_ACTIVE_CONSUMER: variable(
    flag(),
    "true",
    "one consumes, the others stand by; false: all do, needs REDIS_URL",
  ),
  BACKEND_BASE_URL: variable(baseUrl(), "http://localhost:8090", "where the backend listens"),
  BACKEND_PATH: variable(requestPath(), "/process", "laid under the base URL; / for its root"),
  BACKEND_CA_FILE: optional(
    filePath(),
    "PEM file of the authority to trust, for https; unset: the public ones",
  ),
  BACKEND_TIMEOUT: variable(
    seconds(0.001, 900),
    "5",
    "time for the whole exchange, body included",
  ),
  BACKEND_AUTHORIZATION: secret(optional(headerText(), "sent to the backend as `Authorization`")),
  SIGNING_SECRET: secret(
    optional(signingSecrets(), "requests to the backend are signed with it (Standard Webhooks)"),
  ),
  RATE_LIMIT_MAX_REQUESTS: variable(
    wholeNumber(1, MOST_REQUESTS),
    "10",
    "requests per window, retries included",
  ),
  RATE_LIMIT_WINDOW_SEC: variable(seconds(0.001, MONTH_SEC), "3", "length of the window"),
  RATE_LIMIT_ALGORITHM: variable(
    oneOf("fixed-window", "sliding-window"),
    "fixed-window",
    "sliding-window keeps the limit in every trailing window",
  ),
  PREFETCH_COUNT: variable(wholeNumber(1, MOST_PREFETCH), "20", "messages held unacknowledged"),
  CONCURRENCY: optional(
    wholeNumber(1, MOST_PREFETCH),
    "requests in flight at once, at most PREFETCH_COUNT",
    "= PREFETCH_COUNT",
  ),
  RETRY_LADDER: variable(
    retryLadder(),
    "2x0s,5x3s,5x15s,5x60s,5x120s,5x240s",
    "attempts and the delay before each; then the task has failed",
  ),
  RETRY_JITTER: variable(share(), "0", "share of a delay that is random, only ever added"),
  PERMANENT_STATUSES: optional(failureStatuses(), "answers after which a task has failed at once"),
  RETRY_AFTER_MAX_SEC: variable(
    seconds(0, LONGEST_DELAY_SEC),
    "3600",
    "a longer Retry-After of the backend is cut to this",
  ),
  BREAKER_FAILURES: variable(
    wholeNumber(0, MOST_REQUESTS),
    "0",
    "failures in a row to reach the backend that close the gate; 0: never",
  ),
  MAX_TASK_BYTES: variable(wholeNumber(1, LARGEST_MESSAGE), "262144", "largest payload accepted"),
  MAX_BATCH_TASKS: variable(wholeNumber(1, 10_000), "1000", "tasks in one batch, at most"),
  MAX_BATCH_BYTES: variable(wholeNumber(1, MOST_BATCH_BYTES), "8388608", "largest batch accepted"),
  MAX_DELAY_SEC: variable(seconds(0, LONGEST_DELAY_SEC), "604800", "longest delay of a task"),
  LEDGER: variable(oneOf("on", "off"), "on", "off: no idempotency, no task status"),
  LEDGER_RETENTION_SEC: variable(
    seconds(1, YEAR_SEC),
    "86400",
    "kept this long after the final disposition",
  ),
  DATA_DIR: variable(filePath(), "./data", "directory for what must survive a restart"),
  REDIS_URL: secret(
    optional(redisUrl(), "when set, replicas share ledger, rate limit and gate in this Redis"),
  ),
  OPS_HOST: variable(hostName(), "127.0.0.1", "address on which operators are answered"),
  OPS_PORT: variable(portOrOff(), "8081", "port for operators; 0 takes a free one, off: none"),
  OPS_TOKEN: secret(
    optional(headerText(), "operators send it; needed when OPS_HOST is not a loopback address"),
  ),
  SHUTDOWN_GRACE_SEC: variable(seconds(0, 3600), "20", "time for what is in flight at SIGTERM"),
  LOG_LEVEL: variable(oneOf("debug", "info", "warning", "error"), "info", "least level logged"),
  LOG_FORMAT: variable(oneOf("json", "pretty"), "json", "pretty is for people"),
} as const;

type Name = keyof typeof VARIABLES;
/** What each variable's text becomes. */
export type Values = { readonly [N in Name]: ValueOf<(typeof VARIABLES)[N]> };

/** The variables as a list, for whoever shows them or looks for one. */
export const VARIABLE_LIST: readonly (readonly [string, Variable])[] = Object.entries(VARIABLES);

/** Every name that has an effect, the `NAME_FILE` of secrets included. */
export const KNOWN_NAMES: ReadonlySet<string> = new Set(
  VARIABLE_LIST.flatMap(([name, { secret }]) => secret ? [name, `${name}_FILE`] : [name]),
);
