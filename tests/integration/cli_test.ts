/**
 * The program on its command line and in its environment: flags, exit status, and what it tells a
 * person whose configuration is wrong.
 *
 * @module
 */
import assert from "node:assert/strict";
import denoJson from "../../deno.json" with { type: "json" };
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/ports.ts";
import { startRedis } from "../support/redis.ts";
import { withRelay } from "../support/relay.ts";
import { runToEnd, withStage } from "./stage.ts";

/** Runs `fn` with a directory that holds these files. */
async function withFiles(
  files: Readonly<Record<string, string>>,
  fn: (folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${folder}/${name}`, text);
    }
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("--help and --version: they answer without a broker, exit 0", async () => {
  const env = { RABBIT_PORT: String(freePort()), INBOUND_PORT: "nonsense" };
  const [help, version] = await Promise.all([
    runToEnd({ args: ["--help"], env }),
    runToEnd({ args: ["--version"], env }),
  ]);
  assert.equal(help.status, 0);
  for (const name of ["INBOUND_PORT", "RETRY_LADDER", "SHUTDOWN_GRACE_SEC", "--check"]) {
    assert.ok(help.output.includes(name), `${name} is not in the help`);
  }
  assert.deepEqual(version, { status: 0, output: `${denoJson.version}\n` });
});

Deno.test("an unknown flag, and two flags at once: told, exit 2, and no relay", async () => {
  const [unknown, two] = await Promise.all([
    runToEnd({ args: ["--chek"] }),
    runToEnd({ args: ["--check", "--version"] }),
  ]);
  assert.equal(unknown.status, 2);
  assert.match(unknown.output, /--chek\b.*--help/);
  assert.equal(two.status, 2);
  assert.match(two.output, /--check --version/);
});

Deno.test("case 41: three wrong variables at once: one message, three problems with name, value and what is allowed, exit 2", async () => {
  const env = {
    INBOUND_PORT: "80a",
    RETRY_LADDER: "5x",
    BACKEND_BASE_URL: "localhost:8090",
    RABBIT_PASSWORD: "SECRET",
    // Given, so that nobody asks the wrong ladder for the names of queues to be deleted.
    QUEUE_PREFIX: "tasks",
  };
  for (const args of [[], ["--check"]]) {
    const { status, output } = await runToEnd({ env, args });
    assert.equal(status, 2);
    const lines = output.trimEnd().split("\n");
    assert.equal(lines.length, 4, output);
    assert.match(output, /^3 problems/);
    assert.match(output, /INBOUND_PORT="80a": .*0.*65535/);
    assert.match(output, /RETRY_LADDER="5x": .+/);
    assert.match(output, /BACKEND_BASE_URL="localhost:8090": .*http/);
    assert.doesNotMatch(output, /SECRET/);
  }
});

Deno.test("--check without a broker: says where it looked and what to do, exit 1", async () => {
  const port = freePort();
  const { status, output } = await runToEnd({
    args: ["--check"],
    env: { RABBIT_PORT: String(port) },
  });
  assert.equal(status, 1);
  assert.match(output, new RegExp(`${port}.*ECONNREFUSED`));
  assert.match(output, /Check RABBIT_HOST/);
});

Deno.test("--check with REDIS_URL: says whether Redis answers, exit 1 when not, and the password isn't shown", async () => {
  await using redis = await startRedis({ password: "SECRET" });
  const checked = (url: string): ReturnType<typeof runToEnd> =>
    runToEnd({ args: ["--check"], env: { REDIS_URL: url } });
  const there = await checked(redis.url());
  assert.equal(there.status, 0, there.output);
  assert.match(there.output, /^Redis \d+\.\d+.*: connected$/m);
  const wrong = await checked(redis.url().replace("SECRET", "WRONG-SECRET"));
  assert.equal(wrong.status, 1);
  assert.match(wrong.output, /Redis at .* can't be used: .*\n.*a relay sends nothing/);
  assert.doesNotMatch(there.output + wrong.output, /SECRET/);
});

Deno.test("--check with a password that RabbitMQ refuses: exit 1, and the password isn't shown", async () => {
  const env = { RABBIT_PASSWORD: "SECRET" };
  const { status, output } = await runToEnd({ args: ["--check"], env });
  assert.equal(status, 1);
  assert.match(output, /ACCESS.REFUSED/);
  assert.doesNotMatch(output, /SECRET/);
});

Deno.test("case 42: the .env of the working directory is read where the program runs, the process's environment wins", async () => {
  const dotEnv = "MAX_TASK_BYTES=20\nINGEST_TOKEN='from the file'\nINBOUND_PORT=nonsense\n";
  await withFiles({ ".env": dotEnv }, async (cwd) => {
    await withRelay({ cwd, env: { INGEST_TOKEN: "from the process" } }, async (relay) => {
      const token = { authorization: "Bearer from the process" };
      assert.equal((await relay.post(`"${"x".repeat(18)}"`, token)).status, 202);
      assert.equal((await relay.post(`"${"x".repeat(19)}"`, token)).status, 413);
      const other = { authorization: "Bearer from the file" };
      assert.equal((await relay.post('"x"', other)).status, 401);
    });
  });
});

Deno.test("INGEST_TOKEN_FILE: the content less its newline is the token; health needs none", async () => {
  await withFiles({ token: "s3cret token\n" }, async (folder) => {
    await withRelay({ env: { INGEST_TOKEN_FILE: `${folder}/token` } }, async (relay) => {
      const bearer = (token: string): Record<string, string> => ({
        authorization: `Bearer ${token}`,
      });
      assert.equal((await relay.post("1", bearer("s3cret token"))).status, 202);
      assert.equal((await relay.post("1", bearer("s3cret"))).status, 401);
      const refused = await relay.post("1");
      assert.equal(refused.status, 401);
      assert.match(String(refused.headers["www-authenticate"]), /^Bearer/);
      assert.match(String(refused.headers["content-type"]), /^application\/problem\+json/);
      assert.equal((await relay.get("/healthz")).status, 200);
      assert.equal((await relay.get("/readyz")).status, 200);
    });
  });
});

Deno.test("a secret's file that isn't there, is empty, or stands beside the secret itself: told by name, exit 2", async () => {
  await withFiles({ empty: "\n", full: "SECRET\n" }, async (folder) => {
    const env = {
      INGEST_TOKEN_FILE: `${folder}/missing`,
      RABBIT_PASSWORD_FILE: `${folder}/full`,
      BACKEND_AUTHORIZATION_FILE: `${folder}/empty`,
    };
    const { status, output } = await runToEnd({ env });
    assert.equal(status, 2);
    assert.match(output, /INGEST_TOKEN_FILE=.*missing/);
    assert.match(output, /RABBIT_PASSWORD and RABBIT_PASSWORD_FILE are both set/);
    assert.match(output, /BACKEND_AUTHORIZATION_FILE=.*empty/);
    assert.doesNotMatch(output, /SECRET/);
  });
});

Deno.test("INBOUND_PORT=0: takes a free port and logs it; two relays don't meet", async () => {
  const env = { INBOUND_PORT: "0" };
  await withRelay({ env }, async (one) => {
    await withRelay({ env }, async (two) => {
      assert.notEqual(one.url, two.url);
      assert.equal((await one.post("1")).status, 202);
      assert.equal((await two.post("1")).status, 202);
    });
  });
});

Deno.test("INBOUND_PORT is in use: says which and what to do, exit 1, without a stack", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const { status, output } = await runToEnd({ env: { INBOUND_PORT: String(port) } });
  listener.close();
  assert.equal(status, 1);
  assert.match(output, new RegExp(`127\\.0\\.0\\.1 port ${port}.*in use.*INBOUND_PORT`));
  assert.doesNotMatch(output, /\n\s+at /);
});

Deno.test("DATA_DIR can't be written: says which and what to do, exit 1, and takes no task", async () => {
  await withFiles({ file: "" }, async (folder) => {
    const { status, output } = await runToEnd({ env: { DATA_DIR: `${folder}/file/data` } });
    assert.equal(status, 1);
    assert.match(output, /DATA_DIR/);
    assert.ok(output.includes(`${folder}/file/data`), output);
    assert.doesNotMatch(output, /\n\s+at /);
  });
});

Deno.test("DATA_DIR doesn't exist yet: it is made, with the folders above it", async () => {
  await withFiles({}, async (folder) => {
    const env = { DATA_DIR: `${folder}/some/where` };
    await withStage({ env }, async ({ relay, backend }) => {
      await relay.accept("1");
      await backend.waitFor(1);
    });
    assert.ok((await Deno.stat(`${folder}/some/where`)).isDirectory);
  });
});

Deno.test("LOG_FORMAT=pretty: lines for people, none of them JSON, with each attempt", async () => {
  const relay = { env: { LOG_FORMAT: "pretty", INBOUND_PORT: String(freePort()) } };
  await withStage({ ...relay, ready: false }, async ({ relay, backend, amqp, queues }) => {
    await waitForOutput(() => relay.output, /ready/);
    await amqp.publishRaw(queues.main, "1", { messageId: "foreign" });
    await backend.waitFor(1);
    await waitForOutput(() => relay.output, /attempt.*task_id=foreign.*disposition=delivered/);
    assert.deepEqual(relay.logs, []);
    assert.equal(await relay.stop(), 0);
  });
});

/** Waits until what the program has written matches. */
async function waitForOutput(output: () => string, wanted: RegExp): Promise<void> {
  await eventually(() => assert.match(output(), wanted));
}
