/** The ports that tests give to servers: what one process was given, no other one takes. */
import assert from "node:assert/strict";
import { freePort } from "../support/ports.ts";

/** So many that, drawn at random, a thousandth of all draws would be without a repetition. */
const PORTS = 200;

/** Two test processes' worth of ports: one's own, and those of a process that still holds them. */
Deno.test("a port that was given out is given to nobody else while its process lives", async () => {
  const ports = new URL("../support/ports.ts", import.meta.url).href;
  const other = new Deno.Command(Deno.execPath(), {
    args: [
      "eval",
      `
      const { freePort } = await import(${JSON.stringify(ports)});
      console.log(JSON.stringify(Array.from({ length: ${PORTS} }, freePort)));
      await Deno.stdin.read(new Uint8Array(1));
    `,
    ],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const lines = other.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let line = "";
  while (!line.endsWith("\n")) line += (await lines.read()).value ?? "";
  const theirs = JSON.parse(line) as number[];
  const ours = Array.from({ length: PORTS }, freePort);
  await other.stdin.close();
  await lines.cancel();
  await other.status;

  assert.equal(new Set([...theirs, ...ours]).size, 2 * PORTS);
});
