/**
 * The borders between the rooms of `src/`, read from the import statements themselves.
 *
 * A border that only a document holds is crossed by the first import that an editor adds by itself.
 *
 * @module
 */

import assert from "node:assert/strict";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

interface Import {
  /** The file that imports, from the root of the project, such as `src/task.ts`. */
  readonly from: string;
  /** A file from the root of the project, or the name of a package or of a part of Node. */
  readonly to: string;
  readonly typeOnly: boolean;
}

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Every source file, without comments. */
const SOURCES: ReadonlyMap<string, string> = new Map(
  ["main.ts", ...filesIn("src")].map((path) => [path, withoutComments(read(path))]),
);
const IMPORTS: readonly Import[] = [...SOURCES].flatMap(([path, text]) => importsOf(path, text));

function read(path: string): string {
  return Deno.readTextFileSync(join(ROOT, path));
}

function filesIn(folder: string): string[] {
  return [...Deno.readDirSync(join(ROOT, folder))].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    if (isDirectory) return filesIn(path);
    return /\.[cm]?[jt]sx?$/.test(name) ? [path] : [];
  });
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[^]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}

/** Static and dynamic imports, exports from elsewhere, and the URLs of Workers. */
function importsOf(from: string, text: string): Import[] {
  const statements = /\b(import|export)\s+(type\s)?(?:[\w*{}\s,$]*?\sfrom\s+)?["']([^"']+)["']/g;
  const calls =
    /\b(?:import\s*\(|new URL\()\s*["'](\.[^"']+|[^"'.][^"']*)["']\s*(?:\)|,\s*import)/g;
  const found = [
    ...[...text.matchAll(statements)].map(([, , type, to]) => ({ to, typeOnly: Boolean(type) })),
    ...[...text.matchAll(calls)].map(([, to]) => ({ to, typeOnly: false })),
  ];
  return found.map(({ to = "", typeOnly }) => ({ from, to: resolve(from, to), typeOnly }));
}

function resolve(from: string, to: string): string {
  return to.startsWith(".") ? relative(ROOT, join(ROOT, dirname(from), to)) : to;
}

/** The imports that `forbidden` says are over a border, in words. */
function crossings(forbidden: (candidate: Import) => boolean): string[] {
  return IMPORTS.filter(forbidden).map(({ from, to }) => `${from} imports ${to}`);
}

function isPackage(to: string, ...names: readonly string[]): boolean {
  return names.some((name) => to === name || to.startsWith(`${name}/`) || to === `npm:${name}`);
}

function within(path: string, ...rooms: readonly string[]): boolean {
  return rooms.some((room) => path.startsWith(`src/${room}/`));
}

/** Everything that runs when `entry` is loaded. */
function loadedBy(entry: string): ReadonlySet<string> {
  const loaded = new Set([entry]);
  for (const path of loaded) {
    for (const { from, to, typeOnly } of IMPORTS) if (from === path && !typeOnly) loaded.add(to);
  }
  return loaded;
}

Deno.test("boundaries: the reader of imports sees them", () => {
  const text = [
    'import a, { b as c } from "a";',
    'import type { D } from "../d.ts";',
    'import {\n  e,\n  type F,\n} from "./e.ts";',
    'import "./side_effect.ts";',
    'export { g } from "./g.ts";',
    'export * from "./h.ts";',
    'await import("./i.ts");',
    'new Worker(new URL("./j.ts", import.meta.url));',
    'import k from "./k.json" with { type: "json" };',
    '// import l from "./l.ts";',
    '/* import m from "./m.ts"; */ const url = "https://n"; export const o = "./o.ts";',
  ].join("\n");
  const found = importsOf("src/x/y.ts", withoutComments(text)).map(({ to }) => to);
  const files = ["e", "side_effect", "g", "h"].map((name) => `src/x/${name}.ts`);
  const calls = ["i", "j"].map((name) => `src/x/${name}.ts`);
  assert.deepEqual(found, ["a", "src/d.ts", ...files, "src/x/k.json", ...calls]);
  assert.ok(IMPORTS.length > 100, "the project has more imports than that");
});

Deno.test("boundaries: every file that is imported is there", () => {
  const files = new Set([...SOURCES.keys(), "deno.json"]);
  const missing = crossings(({ to }) => /\.(ts|json)$/.test(to) && !files.has(to));
  assert.deepEqual(missing, []);
});

Deno.test("boundaries: only src/broker imports amqplib", () => {
  assert.deepEqual(
    crossings(({ from, to }) => isPackage(to, "amqplib") && !within(from, "broker")),
    [],
  );
});

Deno.test("boundaries: only src/redis imports redis", () => {
  assert.deepEqual(
    crossings(({ from, to }) => isPackage(to, "redis") && !within(from, "redis")),
    [],
  );
});

Deno.test("boundaries: only src/consumer imports undici, only src/ingest and src/ops import hono", () => {
  const allowed = { undici: ["consumer"], hono: ["ingest", "ops"] };
  for (const [name, rooms] of Object.entries(allowed)) {
    const foreign = crossings(({ from, to }) => isPackage(to, name) && !within(from, ...rooms));
    assert.deepEqual(foreign, []);
  }
});

Deno.test("boundaries: only who counts and who tells of it import prom-client", () => {
  const foreign = crossings(({ from, to, typeOnly }) =>
    isPackage(to, "prom-client") && !typeOnly && !within(from, "consumer", "ops")
  );
  assert.deepEqual(foreign, []);
});

Deno.test("boundaries: ingest knows neither consumer nor broker", () => {
  assert.deepEqual(
    crossings(({ from, to }) => within(from, "ingest") && within(to, "consumer", "broker")),
    [],
  );
});

Deno.test("boundaries: the consumer does not import ingest, nor load any of it", () => {
  assert.deepEqual(
    crossings(({ from, to }) => within(from, "consumer") && within(to, "ingest")),
    [],
  );
  const loaded = [...loadedBy("src/consumer/worker.ts")];
  assert.deepEqual(loaded.filter((path) => within(path, "ingest") || isPackage(path, "hono")), []);
});

Deno.test("boundaries: the broker imports of the others nothing but their ports", () => {
  const foreign = crossings(({ from, to, typeOnly }) => {
    if (!within(from, "broker") || !within(to, "ingest", "consumer")) return false;
    return !typeOnly || !/\/ports\.ts$/.test(to);
  });
  assert.deepEqual(foreign, []);
});

Deno.test("boundaries: the paths of a task don't import operators' HTTP", () => {
  const rooms = ["ingest", "broker", "consumer", "ledger"];
  assert.deepEqual(crossings(({ from, to }) => within(from, ...rooms) && within(to, "ops")), []);
});

Deno.test("boundaries: operators' HTTP knows neither ingest, nor the consumer, nor AMQP", () => {
  const rooms = ["ingest", "broker", "consumer"];
  assert.deepEqual(crossings(({ from, to }) => within(from, "ops") && within(to, ...rooms)), []);
});

Deno.test("boundaries: what is shared imports no room, but for what puts the relay together", () => {
  const composition = ["main.ts", "src/relay.ts", "src/check.ts"];
  const rooms = ["ingest", "broker", "consumer", "ledger", "ops", "cli"];
  const shared = (path: string): boolean => !within(path, ...rooms) && !composition.includes(path);
  assert.deepEqual(crossings(({ from, to }) => shared(from) && within(to, ...rooms)), []);
});

Deno.test("boundaries: the commands know of the relay only types, and the environment", () => {
  const known = ["src/config.ts", "src/environment.ts", "src/errors.ts"];
  const foreign = crossings(({ from, to, typeOnly }) =>
    within(from, "cli") && to.startsWith("src/") && !within(to, "cli") && !typeOnly &&
    !known.includes(to)
  );
  assert.deepEqual(foreign, []);
});

Deno.test("boundaries: nothing of the product imports tests, or main.ts", () => {
  assert.deepEqual(crossings(({ to }) => to.startsWith("tests/") || to === "main.ts"), []);
});

Deno.test("boundaries: only main.ts reads the environment and the arguments, sees signals and exits", () => {
  const globals = /\bDeno\.(env|args|exit|addSignalListener)\b|\bprocess\.(env|argv|exit|on)\b/;
  const found = [...SOURCES].filter(([path, text]) => path !== "main.ts" && globals.test(text));
  assert.deepEqual(found.map(([path]) => path), []);
});

Deno.test("boundaries: every file says in its header why it is there", () => {
  const silent = [...SOURCES.keys()].filter((path) => {
    return !/^\/\*\*\n \* \S[^]*?\n \* @module\n \*\/\n/.test(read(path));
  });
  assert.deepEqual(silent, []);
});
