/**
 * The self-contained program, as far as it can be proved where the runtime archive of
 * `deno compile` cannot be downloaded.
 *
 * Two halves: the compile task, run with another ELF file in the place of that runtime, embeds the
 * whole module graph with the Worker and the permissions; and the program runs from a bundle of the
 * same graph where there is no node_modules, no cache of npm packages, no deno.json, and no network
 * but the broker and loopback. What neither shows is the two put together, the binary itself.
 *
 * @module
 */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import denoJson from "../../deno.json" with { type: "json" };
import { withAmqp } from "../support/amqp.ts";
import { type Backend, withBackend } from "../support/backend.ts";
import { readCompiled } from "../support/compiled_binary.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/ports.ts";

const PROJECT = fileURLToPath(new URL("../../", import.meta.url));
const WORKER = "src/consumer/worker.ts";
const DASHBOARD = "src/ops/dashboard/page.html";
const LADDER = "1x0s";

/** Runs Deno in the project and gives what it printed. @throws with its errors when it fails */
async function deno(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const output = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: PROJECT,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  assert.ok(output.success, `deno ${args.join(" ")}:\n${text.decode(output.stderr)}`);
  return text.decode(output.stdout);
}

interface ModuleGraph {
  readonly roots: readonly string[];
  readonly modules: readonly {
    readonly specifier: string;
    /** A dependency without `code` is imported for its types alone. */
    readonly dependencies?: readonly { readonly code?: { readonly specifier: string } }[];
  }[];
}

/** Paths, within the project, of the modules that the program or its Worker loads. */
async function localModules(): Promise<string[]> {
  const found = new Set<string>();
  for (const entry of ["main.ts", WORKER]) {
    const graph = JSON.parse(await deno(["info", "--json", entry])) as ModuleGraph;
    const visit = (specifier: string): void => {
      const path = specifier.startsWith("file:") ? fileURLToPath(specifier) : "";
      if (!path.startsWith(PROJECT) || found.has(path.slice(PROJECT.length))) return;
      found.add(path.slice(PROJECT.length));
      const module = graph.modules.find((candidate) => candidate.specifier === specifier);
      for (const { code } of module?.dependencies ?? []) if (code) visit(code.specifier);
    };
    graph.roots.forEach(visit);
  }
  return [...found].sort();
}

async function withTempDir(fn: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "queue-relay-compile-" });
  try {
    await fn(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("the compile task embeds the module graph, the Worker and the permissions", async () => {
  await withTempDir(async (dir) => {
    const [program, ...args] = denoJson.tasks.compile.replace("dist/", `${dir}/`).split(" ");
    assert.equal(program, "deno");
    await deno(args, { DENORT_BIN: Deno.execPath() });
    const { metadata, files, content } = readCompiled(await Deno.readFile(`${dir}/queue-relay`));

    assert.equal(metadata.entrypoint_key, "main.ts");
    assert.deepEqual(metadata.unstable_config.features, denoJson.unstable);
    assert.deepEqual(metadata.env_vars_from_env_file, {}, "an .env of the builder got in");
    const { permissions } = metadata;
    const granted = Object.keys(permissions).filter((name) => permissions[name] !== null).sort();
    assert.deepEqual(granted, [
      "allow_env",
      "allow_import",
      "allow_net",
      "allow_read",
      "allow_write",
      "prompt",
    ]);
    assert.equal(permissions["prompt"], false);

    const expected = await localModules();
    assert.ok(expected.includes(WORKER));
    assert.ok(expected.includes(DASHBOARD));
    const own = files.filter((path) => !path.startsWith(".deno_compile_node_modules/")).sort();
    assert.deepEqual(own, [...expected, "package.json"].sort());
    for (const path of expected) {
      const source = new TextDecoder("latin1").decode(await Deno.readFile(`${PROJECT}${path}`));
      assert.ok(content.includes(source), `the source of ${path} is not embedded as it is`);
    }
    for (
      const name of ["amqplib", "undici", "hono", "prom-client", "redis", "zod", "@logtape/logtape"]
    ) {
      assert.ok(files.some((path) => path.includes(`/${name}/`)), `${name} is not embedded`);
    }
    assert.ok(!files.some((path) => path.includes("/fast-check/")), "a test library is embedded");
    assert.ok(!files.some((path) => path.includes("/bintrees/")), "see package.json");
  });
});

/** Bundles the program and, where it looks for it, its Worker. */
async function bundle(dir: string): Promise<void> {
  await deno(["bundle", "--quiet", "--output", `${dir}/main.js`, "main.ts"]);
  // The bundle is one module, so that `./worker.ts` is a neighbour of it, not of host.ts.
  await deno(["bundle", "--quiet", "--output", `${dir}/worker.ts`, WORKER]);
}

/** Runs the bundle in `cwd` with nothing but what it brings along. */
function runBundle(program: string, cwd: string, denoDir: string): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--no-config",
      "--no-lock",
      "--no-npm",
      "--no-remote",
      "--unstable-worker-options",
      `--allow-net=127.0.0.1,${rabbitAddress().host}`,
      "--allow-env",
      `--allow-read=${cwd},${program}`,
      `--allow-write=${cwd}`,
      `${program}/main.js`,
    ],
    cwd,
    clearEnv: true,
    env: { DENO_DIR: denoDir, NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function postThroughBundle(dir: string, backend: Backend): Promise<void> {
  const [program, cwd, denoDir] = [`${dir}/program`, `${dir}/empty`, `${dir}/deno`] as const;
  for (const path of [program, cwd, denoDir]) await Deno.mkdir(path);
  await bundle(program);

  const rabbit = rabbitAddress();
  const port = freePort();
  const opsPort = freePort();
  const prefix = uniquePrefix();
  const settings = {
    INBOUND_HOST: "127.0.0.1",
    INBOUND_PORT: port,
    OPS_PORT: opsPort,
    RABBIT_HOST: rabbit.host,
    RABBIT_PORT: rabbit.port,
    RABBIT_USER: rabbit.user,
    RABBIT_PASSWORD: rabbit.password,
    QUEUE_PREFIX: prefix,
    RETRY_LADDER: LADDER,
    BACKEND_BASE_URL: backend.url,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}='${value}'\n`);
  await Deno.writeTextFile(`${cwd}/.env`, lines.join(""));

  const relay = runBundle(program, cwd, denoDir);
  const output = relay.output();
  try {
    const url = `http://127.0.0.1:${port}/queue/tasks`;
    await eventually(async () => assert.equal(await post(url, '{"n": 1}'), 202));
    await eventually(() => assert.equal(backend.requests.length, 1));
    assert.equal(new TextDecoder().decode(backend.requests[0]?.body), '{"n": 1}');
    await assertDashboard(`http://127.0.0.1:${opsPort}`);
  } catch (error) {
    relay.kill("SIGKILL");
    const { stdout, stderr } = await output;
    const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    throw new Error(`the bundle printed:\n${printed}`, { cause: error });
  } finally {
    await withAmqp(rabbit, (amqp) => amqp.deletePrefix(prefix, LADDER));
  }
  relay.kill("SIGTERM");
  assert.equal((await output).code, 0);
  assert.deepEqual(await filesBelow(`${denoDir}/npm`), [], "npm packages were fetched");
}

/** The files in a folder and the folders in it; none when it is not there. */
async function filesBelow(path: string): Promise<string[]> {
  const found: string[] = [];
  try {
    for await (const entry of Deno.readDir(path)) {
      const below = `${path}/${entry.name}`;
      if (entry.isDirectory) found.push(...await filesBelow(below));
      else found.push(below);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return found;
}

async function post(url: string, body: string): Promise<number> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  await response.body?.cancel();
  return response.status;
}

/** Holds that the page and its script come, the types of which are gone. */
async function assertDashboard(url: string): Promise<void> {
  assert.match(await (await fetch(`${url}/`)).text(), /<title>queue-relay<\/title>/);
  const script = await fetch(`${url}/dashboard/page.ts`);
  assert.match(script.headers.get("content-type") ?? "", /^text\/javascript/);
  assert.doesNotMatch(await script.text(), /: void|import type/);
}

Deno.test("the bundle in an empty directory, settings in its .env → a task is delivered", async () => {
  await withTempDir(async (dir) => {
    await withBackend((backend) => postThroughBundle(dir, backend));
  });
});
