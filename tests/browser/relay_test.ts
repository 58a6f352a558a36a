/**
 * The dashboard of a real relay, from a task that failed to its delivery; and what a page of another
 * origin gets from that relay.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { type Stage, withStage } from "../integration/stage.ts";
import { withPage } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/ports.ts";

/** 27 attempts, as on the default ladder, in a second. */
const LADDER_OF_27 = "1x0s,26x0.01s";

/** Lets a task fail and runs `fn` with its id. */
async function withFailed(
  env: Readonly<Record<string, string>>,
  fn: (stage: Stage, id: string, heal: () => void) => Promise<void>,
): Promise<void> {
  let status = 500;
  const answer = (): { status: number; body: string } => ({ status, body: "no seats left" });
  await withStage({ answer, env: { OPS_PORT: "0", ...env } }, async (stage) => {
    const id = await stage.relay.accept('{"seats":2}');
    const { amqp, queues } = stage;
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), 1));
    await fn(stage, id, () => status = 200);
  });
}

Deno.test("a task fails 27 times → on the dashboard its row tells why; a click redrives it, and it is delivered", async () => {
  await withFailed(
    { RETRY_LADDER: LADDER_OF_27 },
    async ({ relay, backend, amqp, queues }, id, heal) => {
      assert.equal(backend.requests.length, 27);
      await withPage(async ({ page }) => {
        await page.goto(relay.opsUrl);
        await showsText(page, "#connection", /^live$/);
        await showsText(page, "#stage-failed", /1/);
        const row = page.locator(`#rows tr[data-id="${id}"]`);
        await row.waitFor();
        const why = await row.innerText();
        assert.match(why, /all attempts failed; the backend answered 500\s+no seats left/);
        assert.match(why, /27 attempts/);

        heal();
        await row.getByRole("button", { name: "Redrive" }).click();
        await eventually(() => assert.equal(backend.requests.length, 28));
        await row.waitFor({ state: "detached" });
        await showsText(page, "#stage-done", /1 delivered/);
        await showsText(page, ".statuses", /500\s+27/);
      });
      assert.equal(backend.requests[27]?.headers["task-id"], id);
      await eventually(async () => {
        assert.equal((await relay.get(`/queue/tasks/${id}`)).json["status"], "delivered");
      });
      assert.equal(await amqp.depth(queues.failed), 0);
    },
  );
});

/** Waits until an element of the page has such a text. */
async function showsText(page: Page, selector: string, pattern: RegExp): Promise<void> {
  await eventually(async () => {
    assert.match(await page.locator(selector).innerText(), pattern);
  });
}

/** What scripts of `page` can read of `url`, by every way that a page has. */
async function attack(page: Page, url: string): Promise<unknown> {
  return await page.evaluate(`(async (url) => {
    const read = async (path, init) => {
      try {
        const { type, status } = await fetch(url + path, init);
        return type === "opaque" ? "sent blindly" : "read " + status;
      } catch {
        return "refused";
      }
    };
    const blind = { method: "POST", mode: "no-cors" };
    const post = (path, body) => read(path, { ...blind, body });
    const listen = new Promise((resolve) => {
      const source = new EventSource(url + "/events");
      source.onopen = () => resolve("read");
      source.onerror = () => (source.close(), resolve("refused"));
    });
    const frame = document.createElement("iframe");
    frame.name = "frame";
    document.body.append(frame);
    const submit = (path) => new Promise((resolve) => {
      const form = document.createElement("form");
      Object.assign(form, { method: "post", action: url + path, target: "frame", enctype: "text/plain" });
      const input = document.createElement("input");
      Object.assign(input, { name: '{"all":true,"x":"', value: '"}' });
      form.append(input);
      document.body.append(form);
      frame.onload = resolve;
      form.submit();
    });
    await post("/failed/redrive", '{"all":true}');
    await post("/pause", "");
    await submit("/failed/redrive");
    await submit("/pause");
    return [await read("/failed"), await read("/stats"), await read("/"), await listen,
      await read("/failed?all=true", { method: "DELETE" })];
  })(${JSON.stringify(url)})`);
}

/** Runs `fn` with the URL of a page of another origin. */
async function withForeignOrigin(fn: (url: string) => Promise<void>): Promise<void> {
  const html = { headers: { "content-type": "text/html" } };
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => new Response("<!doctype html><title>foreign</title><body>", html),
  );
  try {
    await fn(`http://127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

Deno.test("a page of another origin can't pause, redrive or read", async () => {
  await withFailed({}, async ({ relay, backend, amqp, queues }, _id, heal) => {
    heal();
    const before = backend.requests.length;
    await withForeignOrigin((foreign) =>
      withPage(async ({ page }) => {
        const statuses: number[] = [];
        page.on("response", (response) => {
          if (response.url().startsWith(relay.opsUrl)) statuses.push(response.status());
        });
        await page.goto(foreign);
        assert.deepEqual(await attack(page, relay.opsUrl), Array(5).fill("refused"));
        assert.ok(statuses.length >= 4, `only ${statuses.length} requests were answered`);
        assert.deepEqual(statuses.filter((status) => status !== 403), []);
      })
    );
    await eventually(async () => assert.equal(await amqp.depth(queues.failed), 1));
    assert.equal(backend.requests.length, before);
    assert.equal((await relay.get("/readyz")).json["consumer"], "consuming", "it was paused");
  });
});

Deno.test("paused and resumed by clicks; the relay is killed (-9) and started again → live again by itself", async () => {
  const env = { OPS_PORT: String(freePort()) };
  await withStage({ env }, async ({ relay, backend }) => {
    await withPage(async ({ page, requests }) => {
      await page.goto(relay.opsUrl);
      await showsText(page, "#connection", /^live$/);
      await page.getByRole("button", { name: "Pause delivering" }).click();
      await page.locator("#question-yes").click();
      await showsText(page, "#paused", /Delivering is paused/);
      await relay.accept("1");
      await showsText(page, "#stage-main", /1\s+wait/);
      const { opsUrl } = relay;
      await relay.kill();
      await showsText(page, "#connection", /^connection lost, trying again$/);
      await relay.start();
      await showsText(page, "#connection", /live/);
      await showsText(page, "#paused", /Delivering is paused/);
      assert.deepEqual(backend.requests, []);
      await page.locator("#resume").click();
      await backend.waitFor(1);
      await showsText(page, "#stage-done", /1 delivered/);
      const foreign = requests.filter((url) => !url.startsWith(`${opsUrl}/`) && url !== "data:,");
      assert.deepEqual(foreign, [], "asked beyond its origin");
    });
  });
});

Deno.test("a name that was made to resolve to this machine reads nothing", async () => {
  await withFailed({}, async ({ relay }) => {
    const { port } = new URL(relay.opsUrl);
    await withPage(
      async ({ page }) => {
        const response = await page.goto(`http://evil.example:${port}/failed`);
        assert.equal(response?.status(), 403);
        assert.equal((await page.goto(`http://evil.example:${port}/`))?.status(), 403);
      },
      {},
      ["--host-resolver-rules=MAP evil.example 127.0.0.1"],
    );
  });
});

Deno.test("with OPS_TOKEN the page comes without it, everything else does not", async () => {
  await withFailed({ OPS_TOKEN: "0perat0r" }, async ({ relay }, id) => {
    await withPage(async ({ page }) => {
      const response = await page.goto(relay.opsUrl);
      assert.match(
        (await response?.allHeaders())?.["content-security-policy"] ?? "",
        /^default-src 'none';/,
      );
      await page.getByLabel("Token").fill("0perat0r");
      await page.keyboard.press("Enter");
      await page.locator(`#rows tr[data-id="${id}"]`).waitFor();
    });
  });
});
