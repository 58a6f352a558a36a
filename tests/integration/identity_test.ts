/**
 * The identity of a relay: kept from one process to the next, and never of two at once.
 *
 * @module
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { type Identity, takeIdentity } from "../../src/ledger/identity.ts";

const HOLDER = fileURLToPath(new URL("../support/identity_holder.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));

/** Runs `fn` with an empty data directory in a folder of its own. */
async function withFolder(fn: (folder: string) => void | Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "queue-relay-identity-" });
  try {
    await Deno.mkdir(`${root}/data`);
    await fn(`${root}/data`);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** Takes an identity and releases it. */
function seen(folder: string, prefix = "tasks"): string {
  const { relay, release } = takeIdentity(folder, prefix);
  release();
  return relay;
}

function releaseAll(identities: readonly Identity[]): void {
  for (const { release } of identities) release();
}

/** A process that takes an identity and keeps it until it is killed. */
async function holder(folder: string): Promise<{ relay: string; kill(): Promise<void> }> {
  const permissions = ["--no-prompt", `--allow-read=${folder}`, `--allow-write=${folder}`];
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--config", CONFIG, ...permissions, HOLDER, folder],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const relay = ((await lines.read()).value ?? "").trim();
  return {
    relay,
    async kill(): Promise<void> {
      child.kill("SIGKILL");
      await lines.cancel();
      await child.status;
    },
  };
}

Deno.test("identity: the same for one after the other, another for each that holds one at once", async () => {
  await withFolder((folder) => {
    const held = Array.from({ length: 4 }, () => takeIdentity(folder, "tasks"));
    const relays = held.map(({ relay }) => relay);
    assert.equal(new Set(relays).size, 4);
    held[1]?.release();
    assert.equal(seen(folder), relays[1]);
    releaseAll([...held.slice(0, 1), ...held.slice(2)]);
    assert.equal(seen(folder), relays[0]);
  });
});

Deno.test("identity: of a process that lives → not to be had; killed (-9) → at once", async () => {
  await withFolder(async (folder) => {
    const first = await holder(folder);
    const second = takeIdentity(folder, "tasks");
    await first.kill();
    const third = takeIdentity(folder, "tasks");
    releaseAll([second, third]);
    assert.notEqual(second.relay, first.relay);
    assert.equal(third.relay, first.relay);
  });
});

Deno.test("identity: of another QUEUE_PREFIX → another", async () => {
  await withFolder((folder) => assert.notEqual(seen(folder, "orders"), seen(folder, "tasks")));
});

Deno.test("identity: in a copy of the directory → another, and the original keeps its own", async () => {
  await withFolder(async (folder) => {
    const original = seen(folder);
    const copy = `${folder}/copy`;
    await Deno.mkdir(copy);
    await Deno.copyFile(`${folder}/tasks.relay`, `${copy}/tasks.relay`);
    const anew = seen(copy);
    assert.notEqual(anew, original);
    assert.deepEqual([seen(folder), seen(copy)], [original, anew]);
  });
});

for (const content of ["", "half a u", "x".repeat(1_000)]) {
  Deno.test(`identity: ${content.length} characters that are none in the file → a new one, kept from then on`, async () => {
    await withFolder(async (folder) => {
      const before = seen(folder);
      await Deno.writeTextFile(`${folder}/tasks.relay`, content);
      const after = seen(folder);
      assert.notEqual(after, before);
      assert.equal(seen(folder), after);
    });
  });
}

Deno.test("identity: can't be kept → a new one each time", async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/tasks.relay`);
    assert.notEqual(seen(folder), seen(folder));
  });
});
