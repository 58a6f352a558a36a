/**
 * The commands against a listener that a test plays: how often they ask, for what, and when they stop.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type Client, runCommand, type Terminal } from "../../src/cli/commands.ts";
import { CommandError, EXIT, readCommandLine } from "../../src/cli/usage.ts";

/** Runs a command; what it said, and what the listener was asked. */
async function run(
  args: string,
  answer: (asked: string, body: Record<string, unknown>) => unknown,
): Promise<{ readonly said: string[]; readonly asked: string[]; readonly error?: CommandError }> {
  const said: string[] = [];
  const asked: string[] = [];
  const client: Client = {
    ask: <T>(method: string, path: string, body?: unknown): Promise<T> => {
      asked.push([method, path, ...body === undefined ? [] : [JSON.stringify(body)]].join(" "));
      const given = (body ?? {}) as Record<string, unknown>;
      return Promise.resolve().then(() => answer(`${method} ${path}`, given) as T);
    },
  };
  const terminal: Terminal = {
    width: 80,
    say: (text) => said.push(text),
    write: () => {},
    confirm: () => undefined,
  };
  try {
    await runCommand(readCommandLine(args.split(" ")), client, terminal);
    return { said, asked };
  } catch (error) {
    assert.ok(error instanceof CommandError, String(error));
    return { said, asked, error };
  }
}

/** A failed queue, of which some stay whatever is asked. */
function queueOf(
  total: number,
  staying: number,
): (asked: string, body: Record<string, unknown>) => unknown {
  return (asked, { limit }) => {
    if (asked.startsWith("GET")) return { total, tasks: [], next: null };
    const matched = Math.min(total, Number(limit));
    const redriven = Math.max(0, matched - staying);
    total -= redriven;
    return { matched, redriven };
  };
}

Deno.test("redrive --all: repeated until all are sent, although some stay", async () => {
  const { said, asked } = await run("failed redrive --all --yes", queueOf(25_000, 1));
  assert.deepEqual(said, ["25000 matched, 24999 sent again"]);
  assert.equal(asked.length, 1 + 4, "the last one finds only what stays");
});

Deno.test("redrive --all: nothing can be sent → one request, and an end", async () => {
  const { said, asked } = await run(
    "failed redrive --all --yes --status 500",
    queueOf(30_000, 30_000),
  );
  assert.deepEqual(said, ["10000 matched, 0 sent again"]);
  assert.equal(asked.length, 2);
  assert.match(asked[1] ?? "", /"status":500/);
});

Deno.test("redrive --all: what fails anew meanwhile is not sent over and over", async () => {
  const endless = (asked: string, { limit }: Record<string, unknown>): unknown =>
    asked.startsWith("GET") ? { total: 12_000 } : { matched: limit, redriven: limit };
  const { said } = await run("failed redrive --all --yes", endless);
  assert.deepEqual(said, ["12000 matched, 12000 sent again"]);
});

Deno.test("redrive --all --limit: so many and no more; --dry-run sends none and asks nobody", async () => {
  const { said } = await run("failed redrive --all --yes --limit 10500", queueOf(25_000, 0));
  assert.deepEqual(said, ["10500 matched, 10500 sent again"]);
  const dry = await run("failed redrive --all --dry-run", (asked, { dryRun }) => {
    if (asked.startsWith("GET")) return { total: 7 };
    assert.equal(dryRun, true);
    return { matched: 7, redriven: 0 };
  });
  assert.deepEqual(dry.said, ["7 matched, 0 sent again"]);
});

Deno.test("redrive of ids: each once, a thousand a request; those that are not there are told, exit 3", async () => {
  const ids = Array.from({ length: 1_500 }, (_, n) => `t${n}`);
  const args = ["failed redrive", ...ids, "t0"].join(" ");
  const bodies: number[] = [];
  const { said, error } = await run(args, (_asked, body) => {
    const given = body["ids"] as string[];
    bodies.push(given.length);
    const here = given.filter((id) => id !== "t7").length;
    return { matched: here, redriven: here };
  });
  assert.deepEqual(bodies, [1_000, 500]);
  assert.deepEqual(said, ["1499 matched, 1499 sent again"]);
  assert.equal(error?.status, EXIT.notFound);
});

Deno.test("delete of ids: one that is not there does not keep the others, and is told", async () => {
  const { said, error } = await run("failed delete a gone b", (asked) => {
    if (asked.endsWith("gone")) throw new CommandError("No failed task", EXIT.notFound);
    return { deleted: 1 };
  });
  assert.deepEqual(said, ["2 deleted"]);
  assert.deepEqual([error?.status, error?.message], [3, "no failed task now: gone"]);
});

Deno.test("--json: one document, and no character in it that a terminal acts on", async () => {
  const page = { total: 1, tasks: [{ id: "\u009b2J\u202e" }], next: null };
  const { said } = await run("failed list --json", () => page);
  assert.equal(said.length, 1);
  assert.deepEqual(JSON.parse(said[0] ?? ""), page);
  assert.ok(!/[\u009b\u202e]/.test(said[0] ?? ""));
});
