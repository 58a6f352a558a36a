/**
 * The Dockerfile, as far as it can be proved without a Docker engine: its health check is run
 * against a relay as it stands there, and the image's main lines are read.
 *
 * @module
 */

import assert from "node:assert/strict";
import { withRelay } from "../support/relay.ts";

const dockerfile = await Deno.readTextFile(new URL("../../Dockerfile", import.meta.url));
const lastStage = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));

/** The words of an instruction in exec form. */
function execForm(pattern: RegExp): string[] {
  const words = pattern.exec(lastStage)?.[1];
  assert.ok(words, `the last stage of the Dockerfile has nothing like ${pattern}`);
  return JSON.parse(words);
}

async function isHealthy(port: string): Promise<boolean> {
  const [program = "", ...args] = execForm(/^HEALTHCHECK .*\\\n {2}CMD (\[.*\])$/m);
  const { success } = await new Deno.Command(program, {
    args,
    env: { INBOUND_PORT: port },
    stdin: "null",
    stderr: "null",
  }).output();
  return success;
}

Deno.test("the image's health check → healthy while the relay runs, not when it has ended", async () => {
  let port = "";
  await withRelay({}, async (relay) => {
    port = new URL(relay.url).port;
    assert.equal(await isHealthy(port), true);
  });
  assert.equal(await isHealthy(port), false);
});

Deno.test("the image runs the binary as process 1 and not as root", () => {
  assert.deepEqual(execForm(/^ENTRYPOINT (.*)$/m), ["/usr/local/bin/queue-relay"]);
  const user = /^USER (\d+):\d+$/m.exec(lastStage)?.[1];
  assert.ok(Number(user) > 0, `USER is ${user}`);
  assert.match(dockerfile, /^RUN deno task compile$/m);
});
