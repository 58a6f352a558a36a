/**
 * `--help`: complete, and readable in a terminal.
 *
 * @module
 */

import assert from "node:assert/strict";
import { VARIABLE_LIST } from "../../src/config.ts";
import { helpText, readmeTable } from "../../src/help.ts";

Deno.test("--help fits into 100 columns and has no trailing spaces", () => {
  for (const line of helpText().split("\n")) {
    assert.ok(line.length <= 100, `${line.length} columns: ${line}`);
    assert.equal(line, line.trimEnd());
  }
});

Deno.test("--help names each variable with its default, each flag and each exit status", () => {
  const text = helpText();
  for (const [name, { fallback, unset }] of VARIABLE_LIST) {
    const shown = (fallback ?? unset ?? "").split(",")[0]!;
    const line = text.split("\n").find((each) => each.trim().startsWith(`${name} `));
    assert.ok(line?.includes(` ${shown}`), `${name} with default ${shown}: ${line}`);
  }
  for (const flag of ["--help", "--version", "--check"]) {
    assert.match(text, RegExp(`^ +${flag} `, "m"));
  }
  for (const status of [0, 1, 2]) assert.match(text, RegExp(`^ +${status} +\\w`, "m"));
});

Deno.test("--help shows the whole default of the ladder and says which variables are secrets", () => {
  const words = helpText().replaceAll(/\s+/g, " ");
  assert.match(words, /2x0s,5x3s,5x15s, .*5x60s,5x120s,5x240s/);
  const secrets = helpText().split("\n").filter((line) => line.includes("(secret) "))
    .flatMap((line) => /^ {2}([A-Z]\w+)/.exec(line)?.[1] ?? []);
  assert.deepEqual(secrets, [
    "INGEST_TOKEN",
    "RABBIT_PASSWORD",
    "BACKEND_AUTHORIZATION",
    "SIGNING_SECRET",
    "REDIS_URL",
    "OPS_TOKEN",
  ]);
});

Deno.test("the README's table has a row of four cells for each variable", () => {
  const [head, rule, ...rows] = readmeTable().split("\n");
  assert.match(head!, /^\| variable +\| default +\| meaning +\| allowed +\|$/);
  assert.match(rule!, /^(\| -+ ){4}\|$/);
  const names = rows.map((row) => /^\| `(\w+)`/.exec(row)?.[1]);
  assert.deepEqual(names, VARIABLE_LIST.map(([name]) => name));
  for (const row of rows) assert.equal(row.split(/(?<!\\)\|/).length, 6, row);
});
