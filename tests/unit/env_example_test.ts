/**
 * `.env.example` shows the variables as the program reads them, and changes nothing when copied.
 *
 * @module
 */

import assert from "node:assert/strict";
import { parseEnv } from "node:util";
import { VARIABLE_LIST } from "../../src/config.ts";

const example = await Deno.readTextFile(new URL("../../.env.example", import.meta.url));

Deno.test(".env.example lists every variable once, in order, with its default", () => {
  const shown = [...example.matchAll(/^#([A-Z_]+)=(.*)$/gm)].map((
    [, name, value],
  ) => [name, value]);
  const expected = VARIABLE_LIST.map(([name, { fallback = "" }]) => [name, fallback]);
  assert.deepEqual(shown, expected);
});

Deno.test(".env.example copied to .env as it is → sets nothing", () => {
  assert.deepEqual({ ...parseEnv(example) }, {});
});
