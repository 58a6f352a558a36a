/**
 * Tables of the commands: laid out for the terminal, and nothing in them that could move it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { layOutTable, printable } from "../../src/cli/table.ts";

Deno.test("layOutTable: columns as wide as what is in them, two spaces between, no trailing ones", () => {
  const table = layOutTable(["ID", "WHY"], [["a", "one"], ["long id", "x"]], 80);
  assert.deepEqual(table.split("\n"), ["ID       WHY", "a        one", "long id  x"]);
});

Deno.test("layOutTable: too wide for the terminal → the last column is cut, the others are not", () => {
  const table = layOutTable(
    ["ID", "ERROR"],
    [["0197-id", "connection refused by the backend"]],
    24,
  );
  assert.deepEqual(table.split("\n"), ["ID       ERROR", "0197-id  connection ref…"]);
  assert.ok(table.split("\n").every((line) => [...line].length <= 24));
});

Deno.test("printable: escape sequences, line breaks and text that turns itself around are shown", () => {
  const hostile = "\u001b[31mred\r\nnext\u0007\u202egpj.exe\u2028";
  const shown = printable(hostile);
  assert.equal(shown, "\\u001b[31mred\\u000d\\u000anext\\u0007\\u202egpj.exe\\u2028");
  assert.equal(printable("größer 日本 🚀"), "größer 日本 🚀");
});
