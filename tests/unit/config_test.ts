/**
 * loadConfig: what an environment becomes, and what is said about one that can't be used.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import {
  type Config,
  ConfigError,
  KNOWN_NAMES,
  loadConfig,
  VARIABLE_LIST,
} from "../../src/config.ts";
import { maxAttempts } from "../../src/rungs.ts";
import type { Environment } from "../../src/environment.ts";

const PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const FILES: ReadonlyMap<string, string> = new Map([
  ["/run/token", "t0ken\n"],
  ["/run/two-newlines", "t0ken\n\n"],
  ["/run/crlf", "pässwörd\r\n"],
  ["/run/empty", "\n"],
  ["/run/ca.pem", PEM],
  ["/run/secrets", `${secretOf(24)}\n${secretOf(25)}\n`],
  ["/run/key.pem", "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"],
]);

function keyOf(bytes: number): Uint8Array {
  return new Uint8Array(bytes).fill(bytes);
}

function secretOf(bytes: number): string {
  return `whsec_${keyOf(bytes).toBase64()}`;
}

function readTextFile(path: string): string {
  const content = FILES.get(path);
  if (content === undefined) throw new Deno.errors.NotFound("No such file");
  return content;
}

function load(environment: Environment): Config {
  return loadConfig(environment, readTextFile);
}

/** The problems that `loadConfig` reports; none when it accepts the environment. */
function problemsOf(environment: Environment, read = readTextFile): readonly string[] {
  try {
    loadConfig(environment, read);
    return [];
  } catch (error) {
    assert.ok(error instanceof ConfigError, `threw ${error}`);
    return error.problems;
  }
}

Deno.test("an empty environment gives the contract's defaults", () => {
  assert.deepEqual(load({}), {
    inbound: {
      host: "0.0.0.0",
      port: 8080,
      maxTaskBytes: 262_144,
      maxBatchTasks: 1000,
      maxBatchBytes: 8_388_608,
      maxDelayMs: 604_800_000,
    },
    rabbit: { host: "localhost", port: 5672, user: "guest", password: "guest", vhost: "/" },
    queues: { prefix: "tasks", type: "quorum", singleActiveConsumer: true },
    backend: {
      url: new URL("http://localhost:8090/process"),
      timeoutMs: 5000,
      retryAfterMaxMs: 3_600_000,
    },
    limit: { maxRequests: 10, windowMs: 3000, algorithm: "fixed-window" },
    consumer: { prefetch: 20, concurrency: 20 },
    ladder: [
      { attempts: 2, delayMs: 0 },
      { attempts: 5, delayMs: 3000 },
      { attempts: 5, delayMs: 15_000 },
      { attempts: 5, delayMs: 60_000 },
      { attempts: 5, delayMs: 120_000 },
      { attempts: 5, delayMs: 240_000 },
    ],
    breakerFailures: 0,
    permanentStatuses: [],
    ledger: { retentionMs: 86_400_000 },
    dataDir: "./data",
    ops: { host: "127.0.0.1", port: 8081 },
    shutdownGraceMs: 20_000,
    log: { level: "info", format: "json" },
  });
  assert.equal(maxAttempts(load({}).ladder), 27);
});

Deno.test("SINGLE_ACTIVE_CONSUMER=false with REDIS_URL: several consume, with the ledger or without", () => {
  const REDIS_URL = "redis://cache";
  for (const LEDGER of ["on", "off"]) {
    const config = load({ SINGLE_ACTIVE_CONSUMER: "false", REDIS_URL, LEDGER });
    assert.equal(config.queues.singleActiveConsumer, false);
    assert.equal(config.redisUrl, REDIS_URL);
  }
});

Deno.test("every variable set to an empty string counts as unset", () => {
  const blank = Object.fromEntries([...KNOWN_NAMES].map((name) => [name, ""]));
  assert.deepEqual(load(blank), load({}));
});

Deno.test("case 41: INBOUND_PORT=80a, RETRY_LADDER=5x and BACKEND_BASE_URL=localhost:8090 at once are one message with three problems", () => {
  const environment = {
    INBOUND_PORT: "80a",
    RETRY_LADDER: "5x",
    BACKEND_BASE_URL: "localhost:8090",
  };
  assert.throws(() => load(environment), (error) => {
    assert.ok(error instanceof ConfigError);
    const [title, port, base, ladder, ...more] = error.message.split("\n");
    assert.equal(title, "3 problems in the environment:");
    assert.equal(port, '  INBOUND_PORT="80a": must be a whole number from 0 to 65535');
    assert.match(base!, /^ {2}BACKEND_BASE_URL="localhost:8090": must be an http:\/\/ or https:/);
    assert.match(base!, /\(did you mean http:\/\/localhost:8090\?\)$/);
    assert.match(ladder!, /^ {2}RETRY_LADDER="5x": must be ATTEMPTSxDELAY .*"5x" is not ATT/);
    assert.deepEqual(more, []);
    return true;
  });
});

const ACCEPTED: readonly [environment: Environment, pick: (c: Config) => unknown, is: unknown][] = [
  [{ INBOUND_HOST: "::1" }, (c) => c.inbound.host, "::1"],
  [{ RETRY_JITTER: ".25" }, (c) => c.ladder[1]?.spread?.at(-1), 3_727],
  [{ RETRY_JITTER: "1" }, (c) => c.ladder[1]?.spread?.length, 16],
  [{ RETRY_AFTER_MAX_SEC: "0" }, (c) => c.backend.retryAfterMaxMs, 0],
  [{ BREAKER_FAILURES: "5" }, (c) => c.breakerFailures, 5],
  [{ INBOUND_HOST: "[::1]" }, (c) => c.inbound.host, "::1"],
  [{ INBOUND_PORT: "0" }, (c) => c.inbound.port, 0],
  [{ INBOUND_PORT: " 65535\r" }, (c) => c.inbound.port, 65_535],
  [{ OPS_PORT: "off" }, (c) => c.ops, undefined],
  [{ OPS_PORT: "0", OPS_HOST: "[::1]" }, (c) => c.ops, { host: "::1", port: 0 }],
  [{ OPS_HOST: "0.0.0.0", OPS_PORT: "off" }, (c) => c.ops, undefined],
  [{ OPS_HOST: "0.0.0.0", OPS_TOKEN: "t" }, (c) => c.ops?.token, "t"],
  [{ OPS_HOST: "127.8.0.1" }, (c) => c.ops?.token, undefined],
  [{ INGEST_TOKEN: "two words" }, (c) => c.inbound.token, "two words"],
  [{ INGEST_TOKEN_FILE: "/run/token" }, (c) => c.inbound.token, "t0ken"],
  [{ INGEST_TOKEN: "t", INGEST_TOKEN_FILE: "" }, (c) => c.inbound.token, "t"],
  [{ RABBIT_HOST: "rabbit_1.internal" }, (c) => c.rabbit.host, "rabbit_1.internal"],
  [{ RABBIT_PASSWORD: ' p@:/%"ä✓ ' }, (c) => c.rabbit.password, ' p@:/%"ä✓ '],
  [{ RABBIT_PASSWORD_FILE: "/run/crlf" }, (c) => c.rabbit.password, "pässwörd"],
  [{ RABBIT_PASSWORD_FILE: "/run/two-newlines" }, (c) => c.rabbit.password, "t0ken\n"],
  [{ RABBIT_VHOST: "a/b %" }, (c) => c.rabbit.vhost, "a/b %"],
  [{ RABBIT_TLS: "false" }, (c) => "tls" in c.rabbit, false],
  [{ RABBIT_TLS: "true" }, (c) => c.rabbit.tls, {}],
  [{ RABBIT_TLS: "true", RABBIT_CA_FILE: "/run/ca.pem" }, (c) => c.rabbit.tls, { ca: PEM }],
  [{ QUEUE_PREFIX: "my-app.v2_" }, (c) => c.queues.prefix, "my-app.v2_"],
  [{ QUEUE_TYPE: "classic" }, (c) => c.queues.type, "classic"],
  [
    { BACKEND_BASE_URL: "HTTPS://H:443/api/", BACKEND_PATH: "do?x=1" },
    (c) => c.backend.url.href,
    "https://h/api/do?x=1",
  ],
  [{ BACKEND_BASE_URL: "http://h/@me" }, (c) => c.backend.url.href, "http://h/@me/process"],
  [{ BACKEND_TIMEOUT: ".25" }, (c) => c.backend.timeoutMs, 250],
  [{ BACKEND_TIMEOUT: "1.005" }, (c) => c.backend.timeoutMs, 1005],
  [{ BACKEND_AUTHORIZATION: "Basic eDp5" }, (c) => c.backend.authorization, "Basic eDp5"],
  [{ BACKEND_BASE_URL: "https://h" }, (c) => "ca" in c.backend, false],
  [
    { BACKEND_BASE_URL: "https://h", BACKEND_CA_FILE: "/run/ca.pem" },
    (c) => c.backend.ca,
    PEM,
  ],
  [{ SIGNING_SECRET: secretOf(24) }, (c) => c.backend.signingSecrets, [keyOf(24)]],
  [{ SIGNING_SECRET: secretOf(64) }, (c) => c.backend.signingSecrets, [keyOf(64)]],
  [
    { SIGNING_SECRET: ` ${secretOf(32)}  ${secretOf(25)} ` },
    (c) => c.backend.signingSecrets,
    [keyOf(32), keyOf(25)],
  ],
  [
    { SIGNING_SECRET_FILE: "/run/secrets" },
    (c) => c.backend.signingSecrets,
    [keyOf(24), keyOf(25)],
  ],
  [{ RATE_LIMIT_WINDOW_SEC: "2678400" }, (c) => c.limit.windowMs, 2_678_400_000],
  [{ PREFETCH_COUNT: "7" }, (c) => c.consumer, { prefetch: 7, concurrency: 7 }],
  [{ CONCURRENCY: "3" }, (c) => c.consumer, { prefetch: 20, concurrency: 3 }],
  [{ PERMANENT_STATUSES: "422, 400,422 " }, (c) => c.permanentStatuses, [400, 422]],
  [{ MAX_TASK_BYTES: "16777216" }, (c) => c.inbound.maxTaskBytes, 16_777_216],
  [{ SHUTDOWN_GRACE_SEC: "0" }, (c) => c.shutdownGraceMs, 0],
  [{ LOG_LEVEL: "warning", LOG_FORMAT: "pretty" }, (c) => c.log, {
    level: "warning",
    format: "pretty",
  }],
];

for (const [environment, pick, expected] of ACCEPTED) {
  Deno.test(`accepted: ${JSON.stringify(environment)}`, () => {
    assert.deepEqual(pick(load(environment)), expected);
  });
}

const HTTPS = { BACKEND_BASE_URL: "https://h" } as const;

const REFUSED: readonly [environment: Environment, problem: RegExp][] = [
  [{ INBOUND_HOST: "http://h" }, /without scheme and port/],
  [{ INBOUND_PORT: "65536" }, /from 0 to 65535/],
  [{ INBOUND_PORT: "-1" }, /from 0 to 65535/],
  [{ INBOUND_PORT: "1e3" }, /from 0 to 65535/],
  [{ OPS_PORT: "on" }, /^OPS_PORT="on": must be a whole number from 0 to 65535, or off$/],
  [{ OPS_HOST: "0.0.0.0" }, /^OPS_TOKEN must be set, because OPS_HOST="0.0.0.0" is not a loopback/],
  [{ OPS_HOST: "127.0.0.1.nip.io" }, /^OPS_TOKEN must be set/],
  [{ INGEST_TOKEN: "a\nb" }, /^INGEST_TOKEN \(a secret, not shown\): must be printable ASCII/],
  [{ INGEST_TOKEN: " padded " }, /without a space at either end/],
  [{ INGEST_TOKEN_FILE: "/run/empty" }, /^INGEST_TOKEN_FILE="\/run\/empty": .*is empty/],
  [{ INGEST_TOKEN_FILE: "/run/absent" }, /"\/run\/absent": cannot be read: No such file/],
  [{ INGEST_TOKEN: "a", INGEST_TOKEN_FILE: "/run/token" }, /both set/],
  [{ BACKEND_AUTHORIZATION_FILE: "/run/two-newlines" }, /the file's content must be printable/],
  [{ RABBIT_HOST: "rabbit:5672" }, /without scheme and port/],
  [{ RABBIT_HOST: "h".repeat(254) }, /must be a host name/],
  [{ RABBIT_HOST: "amqp://me:hunter2@rabbit" }, /"amqp:\/\/\*\*\*@rabbit"/],
  [{ RABBIT_PORT: "0" }, /from 1 to 65535/],
  [{ RABBIT_PORT: "tcp://10.0.0.1:5672" }, /Docker links and Kubernetes set this/],
  [{ RABBIT_PASSWORD: "a\0b" }, /without NUL/],
  [{ RABBIT_VHOST: "ä".repeat(128) }, /up to 255 bytes/],
  [{ RABBIT_TLS: "yes" }, /must be true or false/],
  [{ RABBIT_CA_FILE: "/run/ca.pem" }, /needs RABBIT_TLS=true/],
  [{ RABBIT_CA_FILE: "/run/key.pem", RABBIT_TLS: "true" }, /must be PEM \(-----BEGIN CERTIF/],
  [{ RABBIT_CA_FILE: "/run/absent", RABBIT_TLS: "true" }, /"\/run\/absent": cannot be read/],
  [{ BACKEND_CA_FILE: "/run/ca.pem" }, /needs an https:\/\/ URL in BACKEND_BASE_URL/],
  [{ BACKEND_CA_FILE: "/run/key.pem", ...HTTPS }, /^BACKEND_CA_FILE=.* must be PEM/],
  [{ BACKEND_CA_FILE: "/run/absent", ...HTTPS }, /"\/run\/absent": cannot be read/],
  [{ BACKEND_CA_FILE: "/run/ca.pem", BACKEND_BASE_URL: "h" }, /^BACKEND_BASE_URL="h": must be/],
  [{ SIGNING_SECRET: "whsec_" }, /^SIGNING_SECRET \(a secret, not shown\): must be whsec_ and/],
  [{ SIGNING_SECRET: secretOf(23) }, /the base64 of 24 to 64 bytes/],
  [{ SIGNING_SECRET: secretOf(65) }, /the base64 of 24 to 64 bytes/],
  [{ SIGNING_SECRET: secretOf(32).slice("whsec_".length) }, /must be whsec_/],
  [{ SIGNING_SECRET: secretOf(32).replace("=", "") }, /must be whsec_/],
  [{ SIGNING_SECRET: secretOf(32).replace(/.=$/, "J=") }, /must be whsec_/],
  [{ SIGNING_SECRET: secretOf(32).replace("I", "-") }, /must be whsec_/],
  [{ SIGNING_SECRET: `${secretOf(32)},${secretOf(33)}` }, /separated by spaces/],
  [{ SIGNING_SECRET: `${secretOf(32)} whsec_short` }, /separated by spaces/],
  [{ SIGNING_SECRET: Array(11).fill(secretOf(24)).join(" ") }, /up to 10 of these/],
  [
    { SIGNING_SECRET_FILE: "/run/token" },
    /^SIGNING_SECRET_FILE="\/run\/token": the file's content/,
  ],
  [{ QUEUE_PREFIX: "amq.tasks" }, /without amq\. in front/],
  [{ QUEUE_PREFIX: "a b" }, /1 to 100 of A-Z/],
  [{ QUEUE_PREFIX: "p".repeat(101) }, /1 to 100 of A-Z/],
  [{ QUEUE_TYPE: "stream" }, /must be quorum or classic/],
  [{ REDIS_URL: "http://h" }, /must be a redis:\/\/ or rediss:\/\//],
  [{ REDIS_URL: "redis://h/abc" }, /must be a redis:/],
  [{ REDIS_URL: "redis://:100%@h" }, /must be a redis:/],
  [
    { SINGLE_ACTIVE_CONSUMER: "false" },
    /="false": without REDIS_URL .* whole rate limit; set REDIS_URL/,
  ],
  [{ SINGLE_ACTIVE_CONSUMER: "no" }, /must be true or false/],
  [{ BACKEND_BASE_URL: "127.0.0.1:80/x" }, /did you mean http:\/\/127\.0\.0\.1:80\/x\?/],
  [{ BACKEND_BASE_URL: "[::1]:80" }, /did you mean http:\/\/\[::1\]:80\?/],
  [{ BACKEND_BASE_URL: "ftp://h" }, /must be an http:\/\/ or https:\/\/ URL/],
  [{ BACKEND_BASE_URL: "http:///x" }, /must be an http:/],
  [{ BACKEND_BASE_URL: "http://h:99999" }, /must be an http:/],
  [{ BACKEND_BASE_URL: "http://me:hunter2@h" }, /"http:\/\/\*\*\*@h".*BACKEND_AUTHORIZATION/],
  [{ BACKEND_BASE_URL: "http://h?x=1" }, /a query belongs in BACKEND_PATH/],
  [{ BACKEND_BASE_URL: "http://h/#x" }, /fragment/],
  [{ BACKEND_BASE_URL: "http://h/a\tb" }, /control character/],
  [{ BACKEND_PATH: "/task#x" }, /without host, # or control/],
  [{ BACKEND_PATH: "http://h/task" }, /without host, # or control/],
  [{ BACKEND_TIMEOUT: "0" }, /seconds from 0\.001 to 900/],
  [{ BACKEND_TIMEOUT: "0.0015" }, /whole milliseconds/],
  [{ BACKEND_TIMEOUT: "900.001" }, /seconds from 0\.001 to 900/],
  [{ BACKEND_TIMEOUT: "5s" }, /seconds from 0\.001 to 900/],
  [{ RATE_LIMIT_MAX_REQUESTS: "0" }, /from 1 to 1000000/],
  [{ RATE_LIMIT_MAX_REQUESTS: "2.5" }, /from 1 to 1000000/],
  [{ RATE_LIMIT_WINDOW_SEC: "2678401" }, /to 2678400/],
  [{ RATE_LIMIT_WINDOW_SEC: "9".repeat(400) }, /to 2678400/],
  [{ RATE_LIMIT_ALGORITHM: "token" }, /must be fixed-window or sliding-window/],
  [{ PREFETCH_COUNT: "0" }, /from 1 to 65535/],
  [{ CONCURRENCY: "21" }, /^CONCURRENCY="21": must be at most PREFETCH_COUNT, which is 20$/],
  [{ PERMANENT_STATUSES: "200" }, /2xx means that the task is done/],
  [{ PERMANENT_STATUSES: "400,,422" }, /separated by commas/],
  [{ PERMANENT_STATUSES: "600" }, /from 300 to 599/],
  [{ RETRY_LADDER: "2x0s,0x3s,1x3" }, /"0x3s" makes no attempt; "1x3" is not ATTEMPTSxDELAY$/],
  [{ MAX_TASK_BYTES: "16777217" }, /from 1 to 16777216/],
  [{ DATA_DIR: "  " }, /must be a path/],
  [{ SHUTDOWN_GRACE_SEC: "3601" }, /from 0 to 3600/],
  [{ LOG_LEVEL: "warn" }, /must be debug or info or warning or error/],
  [{ LOG_FORMAT: "text" }, /must be json or pretty/],
];

for (const [environment, problem] of REFUSED) {
  Deno.test(`refused: ${JSON.stringify(environment).slice(0, 80)}`, () => {
    const problems = problemsOf(environment);
    assert.equal(problems.length, 1, problems.join("\n"));
    assert.match(problems[0]!, problem);
  });
}

Deno.test("a long value is cut in its problem, and control characters are escaped", () => {
  const [problem] = problemsOf({ LOG_LEVEL: `\x1b[2J${"x".repeat(10_000)}` });
  assert.ok(problem!.length < 300, problem);
  assert.ok(!problem!.includes("\x1b"), problem);
});

/** Environments of names that are known, with text of any kind and text that is nearly right. */
const anyEnvironment = fc.dictionary(
  fc.constantFrom(...KNOWN_NAMES),
  fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom(...VARIABLE_LIST.map(([, { fallback }]) => fallback ?? "true")),
    fc.stringMatching(/^[0-9a-z:/.,@x#?-]{0,20}$/),
  ),
);

Deno.test("whatever the environment, it is a Config or a ConfigError with a line a problem", () => {
  fc.assert(
    fc.property(anyEnvironment, (environment) => {
      for (const problem of problemsOf(environment)) {
        assert.match(problem, /^[A-Z_]+/);
        assert.ok(!/[\n\r]/.test(problem), problem);
      }
    }),
    { numRuns: 2000 },
  );
});

Deno.test("no message ever shows a secret, whether it came by value or by file", () => {
  const secrets = VARIABLE_LIST.filter(([, { secret }]) => secret).map(([name]) => name);
  const marker = "hunter2";
  const anySecret = fc.tuple(fc.string({ unit: "binary" }), fc.constantFrom("", "\0", "\n"))
    .map(([text, end]) => `${marker}${text}${end}`);
  fc.assert(
    fc.property(anySecret, fc.boolean(), fc.constantFrom(...secrets), (text, byFile, name) => {
      const given = byFile ? { [`${name}_FILE`]: "/run/x" } : { [name]: text };
      const problems = problemsOf({ ...given, INBOUND_PORT: "x" }, () => text);
      assert.ok(problems.length > 0);
      assert.ok(!problems.join().includes(marker), problems.join());
    }),
  );
});
