/**
 * The relay as process 1, as in a container, without a container: the kernel does not give process 1
 * the default action of a signal, so one that it does not handle itself has no effect.
 *
 * @module
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import denoJson from "../../deno.json" with { type: "json" };
import { withAmqp } from "../support/amqp.ts";
import { rabbitAddress, uniquePrefix } from "../support/environment.ts";
import { readLogLine } from "../support/relay_log.ts";
import { startFlags } from "../support/relay_spawn.ts";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));

/** Makes the program after it process 1; without root by way of a user namespace. */
const AS_PROCESS_1 = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

/** Each line of the relay's output as it comes. */
async function* lines(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
}

/** The process ids of the children of `pid`. */
async function childrenOf(pid: number): Promise<string[]> {
  const path = `/proc/${pid}/task/${pid}/children`;
  const { stdout } = await new Deno.Command("cat", { args: [path] }).output();
  return new TextDecoder().decode(stdout).trim().split(" ");
}

Deno.test("as process 1, as in a container: SIGTERM ends the relay in order, with 0", async () => {
  const rabbit = rabbitAddress();
  const prefix = uniquePrefix();
  const home = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  const child = new Deno.Command("unshare", {
    args: [...AS_PROCESS_1, Deno.execPath(), "run", ...startFlags(denoJson.tasks.start), MAIN],
    cwd: home,
    env: {
      INBOUND_HOST: "127.0.0.1",
      INBOUND_PORT: "0",
      OPS_PORT: "off",
      RABBIT_HOST: rabbit.host,
      RABBIT_PORT: String(rabbit.port),
      RABBIT_USER: rabbit.user,
      RABBIT_PASSWORD: rabbit.password,
      QUEUE_PREFIX: prefix,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const seen: string[] = [];
  try {
    for await (const line of lines(child.stdout)) {
      const entry = readLogLine(line);
      if (entry?.message === "starting") assert.equal(entry["pid"], 1);
      seen.push(entry?.message ?? line);
      if (entry?.message !== "ready") continue;
      const [relay = ""] = await childrenOf(child.pid);
      await new Deno.Command("kill", { args: ["-TERM", relay] }).output();
    }
    assert.equal((await child.status).code, 0);
    assert.equal(seen.at(-1), "stopped", seen.join("\n"));
  } finally {
    await Deno.remove(home, { recursive: true });
    await withAmqp(rabbit, (amqp) => amqp.deletePrefix(prefix));
  }
});
