/**
 * The first command of the README, as a newcomer runs it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

Deno.test("deno task demo --once ends with 0 and shows what became of the tasks", async () => {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "demo", "--once"],
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    stdin: "null",
  }).output();
  const shown = new TextDecoder().decode(stdout);
  assert.equal(code, 0, `${shown}\n${new TextDecoder().decode(stderr)}`);
  assert.match(shown, /welcome mail \d+ +attempt 1 of 6 +200 +delivered/);
  assert.match(shown, /flaky invoice \d+ +attempt 2 of 6 +503 +again in 1 s/);
  assert.match(shown, /broken report \d+ +attempt 6 of 6 +500 +failed: that was the last attempt/);
  assert.match(shown, /invalid order \d+ +attempt 1 of 6 +422 +failed: no attempt will/);
  assert.match(shown, /nowhere to be found +0 +0/);
});
