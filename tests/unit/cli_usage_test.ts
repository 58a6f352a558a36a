/**
 * Command lines for operators: what is understood, what is refused with which words, and whom they ask.
 *
 * @module
 */
import assert from "node:assert/strict";
import { opsAddress } from "../../src/cli/ops_client.ts";
import { CommandError, COMMANDS_HELP, isCommand, readCommandLine } from "../../src/cli/usage.ts";

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof CommandError);
    assert.equal(error.status, 2);
    return error.message;
  }
  throw new Error("it was understood");
}

Deno.test("command lines: the command, its ids and its options, in any order", () => {
  const line = readCommandLine(["failed", "redrive", "--json", "a", "--url", "http://x", "b"]);
  assert.deepEqual([line.command, line.ids], ["failed redrive", ["a", "b"]]);
  assert.deepEqual({ ...line.options }, { json: true, url: "http://x" });
  assert.equal(readCommandLine(["stats"]).command, "stats");
  assert.equal(readCommandLine(["failed", "show", "--", "--all"]).ids[0], "--all");
  assert.equal(readCommandLine(["failed", "--help"]).command, undefined);
});

Deno.test("command lines that can't be meant → told what is wrong, and where the help is", () => {
  const cases: readonly (readonly [args: string, problem: RegExp])[] = [
    ["failed", /unknown command failed/],
    ["failed lst", /unknown command failed lst/],
    ["failed show", /takes one id/],
    ["failed show a b", /takes one id/],
    ["failed redrive", /either ids or --all/],
    ["failed redrive a --all", /either ids or --all/],
    ["failed delete", /either ids or --all/],
    ["failed delete --all --reason x", /takes no --reason/],
    ["failed redrive a --reason x", /--reason goes with --all/],
    ["failed redrive a --limit 3", /--limit goes with --all/],
    ["failed list a", /takes no a/],
    ["stats --yes", /takes no --yes/],
    ["pause --colour", /--colour/],
  ];
  for (const [args, problem] of cases) {
    const told = refusal(() => readCommandLine(args.split(" ")));
    assert.match(told, problem);
    assert.match(told, /--help/);
  }
});

Deno.test("a first argument is a command, or the relay's own business", () => {
  for (const first of ["failed", "pause", "resume", "stats"]) assert.ok(isCommand(first));
  for (const first of [undefined, "--check", "list", ""]) assert.ok(!isCommand(first));
});

Deno.test("the help names each command and each exit status in 100 columns", () => {
  for (const name of ["list", "show", "redrive", "delete"]) {
    assert.match(COMMANDS_HELP, RegExp(`^  failed ${name} `, "m"));
  }
  for (const status of [0, 1, 2, 3]) assert.match(COMMANDS_HELP, RegExp(`^  ${status}  `, "m"));
  assert.ok(COMMANDS_HELP.split("\n").every((line) => line.length <= 100));
});

Deno.test("the listener is where the configuration says, all addresses being the loopback; --url wins", () => {
  const at = (host: string, port = 8081): string =>
    opsAddress({ host, port }, undefined).url.origin;
  assert.equal(at("127.0.0.1"), "http://127.0.0.1:8081");
  assert.equal(at("0.0.0.0"), "http://127.0.0.1:8081");
  assert.equal(at("::"), "http://[::1]:8081");
  assert.equal(at("::1", 9), "http://[::1]:9");
  const ops = { host: "relay.internal", port: 8081, token: "t" };
  assert.equal(at("relay.internal"), "http://relay.internal:8081");
  const address = opsAddress(ops, "http://other:1");
  assert.deepEqual([address.url.origin, address.token], ["http://other:1", "t"]);
  assert.equal(opsAddress({ ...ops, port: "off" }, "http://other:1").token, "t");
});

Deno.test("nowhere to ask → told, and what to do", () => {
  assert.match(
    refusal(() => opsAddress({ host: "::1", port: "off" }, undefined)),
    /OPS_PORT=off .*--url/,
  );
  assert.match(
    refusal(() => opsAddress({ host: "::1", port: 0 }, undefined)),
    /OPS_PORT=0 .*--url/,
  );
  for (const url of ["8081", "localhost:8081", "http://", "ftp://x"]) {
    assert.match(refusal(() => opsAddress({ host: "::1", port: 1 }, url)), /--url .*http:\/\/127/);
  }
});
