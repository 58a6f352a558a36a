/**
 * The environment as the process, `.env` and files of secrets give it.
 *
 * @module
 */

import assert from "node:assert/strict";
import { ConfigError, KNOWN_NAMES, loadConfig } from "../../src/config.ts";
import { readEnvironment, unknownNames } from "../../src/environment.ts";

/** A working directory whose `.env` holds `content`. */
function dotEnv(content: string): (path: string) => string {
  return (path) => {
    assert.equal(path, ".env");
    return content;
  };
}

function notFound(): never {
  throw new Deno.errors.NotFound("No such file or directory");
}

Deno.test("without an .env the environment is the process's", () => {
  assert.deepEqual(readEnvironment({ A: "1" }, notFound), { A: "1" });
});

Deno.test("an .env fills in what the process does not set", () => {
  const content = "# ports\nINBOUND_PORT=81\nexport RABBIT_HOST='r 1'\nQUEUE_TYPE=classic # old\n";
  assert.deepEqual(readEnvironment({ INBOUND_PORT: "82" }, dotEnv(content)), {
    INBOUND_PORT: "82",
    RABBIT_HOST: "r 1",
    QUEUE_TYPE: "classic",
  });
});

Deno.test("an empty variable of the process switches off the .env's", () => {
  const environment = readEnvironment({ INGEST_TOKEN: "" }, dotEnv("INGEST_TOKEN=t"));
  assert.equal(loadConfig(environment, notFound).inbound.token, undefined);
});

Deno.test("a secret's file named by the process wins over the secret in .env", () => {
  const environment = readEnvironment({ INGEST_TOKEN_FILE: "/run/t" }, dotEnv("INGEST_TOKEN=old"));
  assert.equal(loadConfig(environment, () => "new\n").inbound.token, "new");
});

Deno.test("a secret given by the process wins over its file named in .env", () => {
  const environment = readEnvironment({ INGEST_TOKEN: "new" }, dotEnv("INGEST_TOKEN_FILE=/run/t"));
  assert.equal(loadConfig(environment, notFound).inbound.token, "new");
});

Deno.test("a secret and its file both in .env are a problem", () => {
  const environment = readEnvironment({}, dotEnv("INGEST_TOKEN=a\nINGEST_TOKEN_FILE=/run/t\n"));
  assert.throws(() => loadConfig(environment, notFound), /INGEST_TOKEN_FILE are both set/);
});

Deno.test("an .env written on Windows is read like any other", () => {
  const content = "\uFEFFINBOUND_PORT=81\r\nRABBIT_HOST=rabbit\r\n";
  assert.deepEqual(readEnvironment({}, dotEnv(content)), {
    INBOUND_PORT: "81",
    RABBIT_HOST: "rabbit",
  });
});

Deno.test("an .env that is a directory is a ConfigError which says so", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${directory}/.env`);
    const read = (path: string): string => Deno.readTextFileSync(`${directory}/${path}`);
    assert.throws(() => readEnvironment({}, read), (error) => {
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, /^1 problem in the environment:\n {2}\.env in the working dir/);
      assert.match(error.message, /directory \(os error/);
      return true;
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("an .env that is not there on a real disk is no problem", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const read = (path: string): string => Deno.readTextFileSync(`${directory}/${path}`);
    assert.deepEqual(readEnvironment({ A: "1" }, read), { A: "1" });
  } finally {
    await Deno.remove(directory);
  }
});

Deno.test("misspelt names are told, those of Docker links, Kubernetes and others are not", () => {
  const names = [
    "RATE_LIMIT_WINDOW",
    "RABBIT_USERNAME",
    "INBOUND_PORT",
    "INGEST_TOKEN_FILE",
    "RABBIT_PORT_5672_TCP",
    "RABBIT_PORT_5672_TCP_ADDR",
    "RABBIT_ENV_ERLANG_COOKIE",
    "RABBIT_SERVICE_HOST",
    "BACKEND_PORT",
    "RABBITMQ_NODENAME",
    "PATH",
  ];
  const environment = Object.fromEntries(names.map((name) => [name, "x"]));
  assert.deepEqual(unknownNames(environment, KNOWN_NAMES), [
    "RABBIT_USERNAME",
    "RATE_LIMIT_WINDOW",
  ]);
});
