/**
 * What the consumer's Worker can do: asked from inside, in a Worker with exactly its permissions.
 *
 * @module
 */

import assert from "node:assert/strict";
import { workerPermissions } from "../../src/consumer/permissions.ts";
import { withBackend } from "../support/backend.ts";
import { aConsumerConfig } from "../support/consumer_config.ts";
import type { Attempt } from "../support/denials_worker.ts";
import { freePort } from "../support/ports.ts";

const DENIED = "NotCapable";

/** A Worker that is confined as the consumer's is, with what surrounds it. */
interface Cell {
  readonly dataDir: string;
  /** A directory beside it, with a file `secret`. */
  readonly outside: string;
  readonly brokerPort: number;
  readonly backendUrl: string;
  readonly backendPort: number;
  /** What came of it: `allowed`, or the name of the error. */
  attempt(attempt: Attempt): Promise<string>;
}

async function inCell(use: (cell: Cell) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  const [dataDir, outside] = [`${root}/data`, `${root}/outside`];
  for (const folder of [dataDir, outside]) await Deno.mkdir(folder);
  await Deno.writeTextFile(`${dataDir}/own`, "own");
  await Deno.writeTextFile(`${outside}/secret`, "secret");
  await Deno.writeTextFile(`${outside}/module.ts`, "export {};");
  // A broker does not speak first; a listener is enough of one.
  const broker = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await withBackend(async (backend) => {
    const config = aConsumerConfig({
      RABBIT_HOST: "127.0.0.1",
      RABBIT_PORT: String(broker.addr.port),
      BACKEND_BASE_URL: backend.url,
      DATA_DIR: dataDir,
    });
    const worker = new Worker(new URL("../support/denials_worker.ts", import.meta.url), {
      type: "module",
      deno: { permissions: workerPermissions(config) },
    });
    await use({
      dataDir,
      outside,
      brokerPort: broker.addr.port,
      backendUrl: backend.url,
      backendPort: backend.port,
      attempt: (attempt) => ask(worker, attempt),
    }).finally(() => worker.terminate());
  }).finally(() => broker.close());
  await Deno.remove(root, { recursive: true });
}

function ask(worker: Worker, attempt: Attempt): Promise<string> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<string>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    };
    worker.postMessage(attempt);
  });
}

async function assertEach(
  cell: Cell,
  expected: string,
  attempts: readonly Attempt[],
): Promise<void> {
  for (const attempt of attempts) {
    assert.equal(await cell.attempt(attempt), expected, JSON.stringify(attempt));
  }
}

Deno.test("the Worker: broker, backend and its own files → allowed", async () => {
  await inCell((cell) => {
    const { dataDir, brokerPort, backendPort, backendUrl } = cell;
    return assertEach(cell, "allowed", [
      { kind: "connect", hostname: "127.0.0.1", port: brokerPort },
      { kind: "connect", hostname: "127.0.0.1", port: backendPort },
      { kind: "post", url: backendUrl },
      { kind: "read", path: `${dataDir}/own` },
      { kind: "write", path: `${dataDir}/new` },
      { kind: "remove", path: `${dataDir}/new` },
    ]);
  });
});

Deno.test("the Worker: any other port, address or name → denied", async () => {
  await inCell((cell) => {
    const { brokerPort, backendPort } = cell;
    return assertEach(cell, DENIED, [
      { kind: "connect", hostname: "127.0.0.1", port: freePort() },
      { kind: "connect", hostname: "127.0.0.1", port: 22 },
      { kind: "connect", hostname: "127.0.0.2", port: backendPort },
      { kind: "connect", hostname: "::1", port: backendPort },
      { kind: "connect", hostname: "localhost", port: brokerPort },
      { kind: "connect", hostname: "example.com", port: 443 },
      { kind: "listen", port: 0 },
      { kind: "listen", port: freePort() },
    ]);
  });
});

Deno.test("the Worker: files outside of the data directory → denied", async () => {
  await inCell(async (cell) => {
    const { dataDir, outside } = cell;
    await assertEach(cell, DENIED, [
      { kind: "read", path: `${outside}/secret` },
      { kind: "read", path: `${dataDir}/../outside/secret` },
      { kind: "read", path: `${dataDir}-not` },
      { kind: "read", path: "deno.json" },
      { kind: "read", path: "/etc/passwd" },
      { kind: "read", path: "/proc/self/environ" },
      { kind: "write", path: `${outside}/secret` },
      { kind: "write", path: `${dataDir}/../own` },
      { kind: "remove", path: `${outside}/secret` },
      // Deno follows a link that lies in the directory; so it must not be able to lay one.
      { kind: "symlink", path: `${dataDir}/link`, target: `${outside}/secret` },
    ]);
    assert.equal(await Deno.readTextFile(`${outside}/secret`), "secret");
  });
});

Deno.test("the Worker: environment, programs, libraries, system, imports → denied", async () => {
  await inCell((cell) =>
    assertEach(cell, DENIED, [
      { kind: "env", name: "PATH" },
      { kind: "env", name: "RABBIT_PASSWORD" },
      { kind: "envAll" },
      { kind: "run" },
      { kind: "ffi" },
      { kind: "sys" },
      { kind: "import", specifier: `http://127.0.0.1:${cell.backendPort}/module.ts` },
      { kind: "import", specifier: `file://${cell.outside}/module.ts` },
    ])
  );
});

Deno.test("the Worker: the variables that undici reads → allowed, and nothing more is", async () => {
  const { env } = workerPermissions(aConsumerConfig());
  assert.ok(Array.isArray(env));
  await inCell((cell) =>
    assertEach(cell, "allowed", env.map((name) => ({ kind: "env" as const, name })))
  );
  assert.ok(env.every((name) => /^(UNDICI_|JEST_)/.test(name)), env.join());
});

const HOSTS: readonly [rabbit: string, backend: string, net: readonly string[]][] = [
  ["rabbit", "http://backend/path", ["rabbit:5672", "backend:80"]],
  ["rabbit", "https://backend", ["rabbit:5672", "backend:443"]],
  ["rabbit", "https://backend:8443/x", ["rabbit:5672", "backend:8443"]],
  ["::1", "http://[2001:db8::1]:8090", ["[::1]:5672", "[2001:db8::1]:8090"]],
  ["10.0.0.7", "http://[::1]", ["10.0.0.7:5672", "[::1]:80"]],
];

for (const [rabbit, backend, net] of HOSTS) {
  Deno.test(`permissions: RabbitMQ at ${rabbit}, backend ${backend} → net ${net.join(", ")}`, () => {
    const config = aConsumerConfig({ RABBIT_HOST: rabbit, BACKEND_BASE_URL: backend });
    assert.deepEqual(workerPermissions(config).net, net);
  });
}

Deno.test("permissions: REDIS_URL, with the ledger or without → its host and port as well", () => {
  for (const LEDGER of ["on", "off"]) {
    const config = aConsumerConfig({ LEDGER, REDIS_URL: "redis://:secret@cache/1" });
    const { net } = workerPermissions(config);
    assert.ok(Array.isArray(net) && net.includes("cache:6379"), LEDGER);
  }
});

Deno.test("permissions: nothing but net, read, write and env is granted", () => {
  const { net, read, write, env, ...rest } = workerPermissions(aConsumerConfig());
  for (const granted of [net, read, write, env]) assert.ok(Array.isArray(granted));
  assert.deepEqual(rest, { ffi: false, import: false, run: false, sys: false });
});
