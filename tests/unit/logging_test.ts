/**
 * Log lines as a collector reads them: one JSON object a line, nothing nested.
 *
 * @module
 */

import assert from "node:assert/strict";
import { getLogger, reset } from "@logtape/logtape";
import type { Config } from "../../src/config.ts";
import { setUpLogging } from "../../src/logging.ts";

/** What `use` logs, line by line, as it would be on standard output. */
async function linesOf(log: Config["log"], use: () => void): Promise<string[]> {
  const { log: print } = console;
  let output = "";
  console.log = (text: string): void => void (output += `${text}\n`);
  try {
    await setUpLogging(log);
    use();
  } finally {
    console.log = print;
    await reset();
  }
  return output.split("\n").slice(0, -1);
}

const relay = getLogger(["relay", "consumer"]);

Deno.test("json: time, level, message and logger, the properties beside them", async () => {
  const lines = await linesOf({ level: "info", format: "json" }, () => {
    relay.info("attempt", { task_id: "t1", attempt: 2, duration_ms: 1.5, settled: true });
  });
  assert.equal(lines.length, 1);
  const line = JSON.parse(String(lines[0]));
  assert.ok(!Number.isNaN(Date.parse(line["@timestamp"])), line["@timestamp"]);
  const { message, level, logger, task_id, attempt, duration_ms, settled } = line;
  assert.deepEqual([message, level, logger], ["attempt", "INFO", "relay.consumer"]);
  assert.deepEqual([task_id, attempt, duration_ms, settled], ["t1", 2, 1.5, true]);
});

Deno.test("json: line ends, braces and quotes in messages and values → still one line, nothing lost", async () => {
  const nasty = 'a\r\nb\u2028c"d\\e{f}\u0000';
  const lines = await linesOf({ level: "info", format: "json" }, () => {
    relay.warning("attempt", { error: nasty });
  });
  assert.equal(lines.length, 1);
  assert.equal(JSON.parse(String(lines[0])).error, nasty);
});

Deno.test("json: a property that is undefined → left out", async () => {
  const [line] = await linesOf({ level: "info", format: "json" }, () => {
    relay.info("attempt", { status: undefined, outcome: "refused" });
  });
  const parsed = JSON.parse(String(line));
  assert.ok(!("status" in parsed));
  assert.equal(parsed.outcome, "refused");
});

Deno.test("LOG_LEVEL: what is below it is not written", async () => {
  const all = (): void => {
    relay.debug("debug");
    relay.info("info");
    relay.warning("warning");
    relay.error("error");
  };
  const levels = ["debug", "info", "warning", "error"] as const;
  for (const [index, level] of levels.entries()) {
    const lines = await linesOf({ level, format: "json" }, all);
    const messages = lines.map((line) => JSON.parse(line).message);
    assert.deepEqual(messages, levels.slice(index));
  }
});

Deno.test("pretty: message and properties on one line, values with spaces or line ends quoted", async () => {
  const lines = await linesOf({ level: "info", format: "pretty" }, () => {
    relay.info("attempt", { task_id: "t1", error: "a\nb c", status: undefined, ms: 3 });
  });
  assert.equal(lines.length, 1);
  assert.match(String(lines[0]), /attempt.* task_id=t1 error="a\\nb c" ms=3$/);
});
