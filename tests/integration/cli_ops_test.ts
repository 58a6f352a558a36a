/**
 * The commands for operators, run as a person runs them, against a relay that runs.
 *
 * @module
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { eventually } from "../support/eventually.ts";
import { type Stage, withStage } from "./stage.ts";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));
const FLAGS = ["--no-prompt", "--allow-env", "--allow-net", "--allow-read", "--allow-write"];

interface Said {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the program to its end in a directory of its own, with nothing of the test's environment. */
async function run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Said> {
  const cwd = await Deno.makeTempDir({ prefix: "queue-relay-test-" });
  const { PATH = "", HOME = "" } = Deno.env.toObject();
  try {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", ...FLAGS, MAIN, ...args],
      env: { PATH, HOME, NO_COLOR: "1", ...env },
      clearEnv: true,
      cwd,
      stdin: "null",
    }).output();
    const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
    return { status: code, out: text(stdout), err: text(stderr) };
  } finally {
    await Deno.remove(cwd, { recursive: true }); // throws when the command left nothing to stand on
  }
}

/** Where the listener of a relay is, as the environment says it. */
function opsEnv({ relay }: Stage): Record<string, string> {
  const { hostname, port } = new URL(relay.opsUrl);
  return { OPS_HOST: hostname, OPS_PORT: port };
}

/** Lets so many tasks fail for good. */
async function fail(
  { relay, amqp, queues }: Stage,
  payloads: readonly string[],
): Promise<string[]> {
  const ids = await Promise.all(payloads.map((payload) => relay.accept(payload)));
  await eventually(async () => assert.equal(await amqp.depth(queues.failed), ids.length));
  return ids;
}

Deno.test("failed list, show, redrive and delete: tables for people, JSON for programs, exit statuses", async () => {
  let status = 422;
  const answer = (): { status: number; body: string } => ({ status, body: "no seats left" });
  const env = { OPS_PORT: "0", PERMANENT_STATUSES: "422" };
  await withStage({ answer, env }, async (stage) => {
    const payloads = ['{"a": 1.0,\n"b":12345678901234567890}', "2", "3"];
    const ids = await fail(stage, payloads);
    const [first = "", second = ""] = ids;
    const broken = { ...opsEnv(stage), BACKEND_BASE_URL: "nonsense" }; // none of their business
    const cli = (...args: string[]): Promise<Said> => run(args, broken);

    const [list, json, page, shown, payload] = await Promise.all([
      cli("failed", "list", "--status", "422"),
      cli("failed", "list", "--json"),
      cli("failed", "list", "--limit", "2"),
      cli("failed", "show", first),
      cli("failed", "show", first, "--payload"),
    ]);
    assert.equal(list.status, 0, list.err);
    for (const id of ids) assert.match(list.out, RegExp(`^${id} .*permanent_status +422 `, "m"));
    assert.match(list.out, /^3 shown, 3 in the failed queue$/m);
    assert.deepEqual(
      JSON.parse(json.out).tasks.map(({ id }: { id: string }) => id).sort(),
      ids.sort(),
    );
    assert.match(page.out, /^2 shown, 3 in the failed queue\nmore: --after /m);
    assert.match(shown.out, /^last status +422$/m);
    assert.equal(payload.out, payloads[0], "its bytes, and nothing else");

    const [gone, none, noYes, dry] = await Promise.all([
      cli("failed", "show", "no-such-id"),
      cli("failed", "list", "--reason", "delivery_limit"),
      cli("failed", "redrive", "--all"),
      cli("failed", "redrive", "--all", "--status", "422", "--dry-run"),
    ]);
    assert.equal(gone.status, 3);
    assert.match(gone.err, /No failed task has this id/);
    assert.match(none.out, /^0 shown, 3 in the failed queue$/m);
    assert.equal(noYes.status, 2);
    assert.match(noYes.err, /--yes/);
    assert.match(dry.out, /^3 matched, 0 sent again$/m);

    status = 200;
    const one = await cli("failed", "redrive", second, "no-such-id", "--json");
    assert.deepEqual([one.status, JSON.parse(one.out)], [3, { matched: 1, redriven: 1 }]);
    const deleted = await cli("failed", "delete", first);
    assert.deepEqual([deleted.status, deleted.out], [0, "1 deleted\n"]);
    const rest = await cli("failed", "redrive", "--all", "--yes");
    assert.match(rest.out, /^1 matched, 1 sent again$/m);
    await eventually(() => assert.equal(stage.backend.requests.length, 3 + 2));
    const { amqp, queues } = stage;
    assert.equal(await amqp.depth(queues.failed), 0);

    await amqp.publishRaw(queues.failed, "1", {
      messageId: "id\u001b[2J",
      headers: { "relay-last-error": "\u001b]0;a title\u0007\r\n" },
    });
    const hostile = await cli("failed", "list");
    assert.match(hostile.out, /^id\\u001b\[2J .* \\u001b\]0;a title\\u0007\\u000d\\u000a$/m);
    assert.ok(!hostile.out.includes("\u001b"), "what others bring moves no terminal");
    const deletedToo = await cli("failed", "delete", "id\u001b[2J");
    assert.equal(deletedToo.status, 0, deletedToo.err);
  });
});

Deno.test("pause, stats, resume; a token, and none; nobody there; a wrong address", async () => {
  const env = { OPS_PORT: "0", OPS_TOKEN: "0perat0r" };
  await withStage({ env }, async (stage) => {
    const { relay } = stage;
    const known = { ...opsEnv(stage), OPS_TOKEN: "0perat0r" };
    const paused = await run(["pause"], known);
    assert.equal(paused.status, 0, paused.err);
    const { id } = (await relay.post("1")).json;
    assert.ok(id);
    const [stats, json, noToken, nobody, noAddress, badUrl] = await Promise.all([
      run(["stats"], known),
      run(["stats", "--json"], known),
      run(["stats"], opsEnv(stage)),
      run(["stats"], { OPS_PORT: "1" }),
      run(["stats"], { OPS_PORT: "off" }),
      run(["stats", "--url", "localhost:8081"], known),
    ]);
    assert.match(stats.out, /^delivering +paused$/m);
    assert.match(stats.out, RegExp(`^${relay.prefix}\\.failed +0$`, "m"));
    assert.equal(JSON.parse(json.out).paused, true);
    assert.equal(noToken.status, 1);
    assert.match(noToken.err, /OPS_TOKEN/);
    assert.equal(nobody.status, 1);
    assert.match(nobody.err, /http:\/\/127\.0\.0\.1:1 can't be reached/);
    assert.equal(noAddress.status, 2);
    assert.equal(badUrl.status, 2);
    assert.deepEqual(stage.backend.requests, []);

    const resumed = await run(["resume", "--url", relay.opsUrl], { OPS_TOKEN: "0perat0r" });
    assert.deepEqual([resumed.status, resumed.out], [0, "resumed\n"]);
    await stage.backend.waitFor(1);
  });
});

Deno.test("a pipe that closes early → no stack trace, exit 0", async () => {
  const answer = (): { status: number } => ({ status: 422 });
  const env = { OPS_PORT: "0", PERMANENT_STATUSES: "422" };
  await withStage({ answer, env }, async (stage) => {
    await fail(stage, ["1", "2"]);
    const command = `"$0" run ${FLAGS.join(" ")} "$1" failed list 2>&1 1>/dev/full | cat`;
    const closed = `("$0" run ${FLAGS.join(" ")} "$1" failed list; echo "exit $?" >&2) | true`;
    const { PATH = "", HOME = "" } = Deno.env.toObject();
    const shell = async (script: string): Promise<string> => {
      const { stderr, stdout } = await new Deno.Command("sh", {
        args: ["-c", script, Deno.execPath(), MAIN],
        env: { PATH, HOME, NO_COLOR: "1", ...opsEnv(stage) },
        clearEnv: true,
      }).output();
      return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    };
    assert.equal(await shell(closed), "exit 0\n");
    assert.match(await shell(command), /No space left/, "other trouble is told");
  });
});
