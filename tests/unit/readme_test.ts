/**
 * The README's table of variables is the program's own.
 *
 * @module
 */

import assert from "node:assert/strict";
import { readmeTable } from "../../src/help.ts";

const BEGIN = "<!-- configuration -->";
const END = "<!-- /configuration -->";

Deno.test("README.md shows the variables as the program reads them", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  const begin = readme.indexOf(BEGIN);
  const end = readme.indexOf(END);
  assert.ok(begin >= 0 && end > begin, `README.md has no section between ${BEGIN} and ${END}`);
  const section = readme.slice(begin + BEGIN.length, end).trim();
  assert.equal(
    section,
    readmeTable(),
    `between ${BEGIN} and ${END} belongs:\n\n${readmeTable()}\n`,
  );
});
