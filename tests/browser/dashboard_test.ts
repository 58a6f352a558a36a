/**
 * The dashboard in a real browser, with figures that the tests set.
 *
 * @module
 */

import assert from "node:assert/strict";
import { assertNoOverflow, type Visit, withPage } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeOps, withFakeOps } from "../support/fake_ops.ts";
import { sampleAt, sampleStats, sampleTask } from "../support/sample_stats.ts";

type Options = Parameters<typeof withPage>[1];

/** Runs `fn` on the open dashboard; whatever it does, it asks for nothing beyond its origin. */
async function withDashboard(
  fn: (visit: Visit, ops: FakeOps) => Promise<void>,
  setUp: (ops: FakeOps) => void = () => {},
  options: Options = {},
): Promise<void> {
  await withFakeOps(async (ops) => {
    setUp(ops);
    await withPage(async (visit) => {
      await visit.page.goto(ops.url);
      await fn(visit, ops);
      assert.deepEqual(visit.requests.filter((url) => !isOf(ops, url)), []);
    }, options);
  });
}

function isOf(ops: FakeOps, url: string): boolean {
  return url.startsWith(`${ops.url}/`) || url === "data:,";
}

async function textOf({ page }: Visit, selector: string): Promise<string> {
  return await page.locator(selector).innerText();
}

async function hasText(visit: Visit, selector: string, pattern: RegExp): Promise<void> {
  await eventually(async () => assert.match(await textOf(visit, selector), pattern));
}

Deno.test("dashboard: every part shows its figure", async () => {
  await withDashboard(async (visit) => {
    await hasText(visit, "#connection", /^live$/);
    await hasText(visit, "#stage-clients", /1\.8\/s\s+48,210 accepted, 12 refused/);
    await hasText(visit, "#stage-main", /1,284/);
    await hasText(visit, "#stage-limiter", /97 of 120\s+per 1 min, sliding window/);
    await hasText(visit, "#stage-backend", /3 of 8/);
    await hasText(visit, "#stage-done", /2\/s/);
    await hasText(visit, "#stage-failed", /3/);
    await hasText(visit, "#rungs", /in 10 s: 14\s+in 30 s: 0\s+in 1 min: 6/);
    await hasText(visit, "#gate", /^open$/);
    await hasText(visit, "#oldest", /^1 min 14 s$/);
    await hasText(visit, "#drain", /^10 min 53 s$/);
    await hasText(visit, "#replica", /^active, up 3 d 4 h; broker ok/);
    await hasText(visit, ".statuses", /200\s+1,560\s+503\s+96\s+500/);
    const label = await visit.page.getByRole("img", { name: /^Duration of attempts/ })
      .getAttribute("aria-label");
    assert.match(label ?? "", /median: now 119 ms, lowest \d+ ms, highest \d+ ms; 95th/);
    assert.deepEqual(visit.errors, []);
  });
});

Deno.test("dashboard: figures change as the relay tells; a closed gate says how long", async () => {
  await withDashboard(async (visit, ops) => {
    await hasText(visit, "#gate", /^open$/);
    ops.stats = sampleStats({
      gate: { state: "closed", reason: "breaker", until: "2026-05-01T12:00:45.000Z" },
      replica: { ...ops.stats.replica, active: false },
      inFlight: 0,
    });
    ops.tell({ ...sampleAt(181), accepted: 500 });
    await hasText(visit, "#gate", /^closed, breaker: too many failures, 45 s left$/);
    await hasText(visit, "#stage-backend", /0 of 8/);
    await hasText(visit, "#stage-clients", /100\/s/);
    await hasText(visit, "#connection", /standing by/);
    assert.deepEqual(visit.errors, []);
  });
});

Deno.test("dashboard: the relay goes away → says so; it comes back → live again by itself", async () => {
  await withDashboard(async (visit, ops) => {
    await hasText(visit, "#connection", /^live$/);
    await ops.stop();
    await hasText(visit, "#connection", /^connection lost, trying again$/);
    ops.stats = sampleStats({ inFlight: 7 });
    ops.start();
    await hasText(visit, "#connection", /^live$/);
    await hasText(visit, "#stage-backend", /7 of 8/);
  });
});

Deno.test("dashboard: what tasks bring is text, never markup, and can't hide or turn itself", async () => {
  const markup = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
  const hostile = [
    sampleTask(1, { id: markup, lastError: markup, payload: markup, contentType: markup }),
    sampleTask(2, { id: "\u202egpj.exe\u0007", lastError: "x".repeat(5_000) }),
  ];
  await withDashboard(
    async (visit) => {
      const { page } = visit;
      await page.locator("#rows tr").nth(1).waitFor();
      await hasText(visit, "#rows", /\\u202egpj\.exe\\u0007/);
      await page.getByRole("button", { name: "Details" }).first().click();
      await hasText(visit, "#details-payload", /<img src=x onerror=/);
      assert.equal(await page.locator("#rows img, #rows script, #details img").count(), 0);
      assert.equal(await page.title(), "queue-relay");
      await assertNoOverflow(page);
      assert.deepEqual(visit.errors, []);
    },
    (ops) => ops.tasks = hostile,
    { viewport: { width: 390, height: 844 } },
  );
});

Deno.test("dashboard: filter, details, redrive of all that match, delete, each after a question", async () => {
  await withDashboard(async (visit, ops) => {
    const { page } = visit;
    await page.locator("#rows tr").nth(2).waitFor();
    await page.getByRole("button", { name: "Details" }).first().click();
    await hasText(
      visit,
      "#details-history",
      /timeout after 30\.0 s no answer within 30 s\s.*status 500/,
    );
    await hasText(visit, "#details-payload", /"order": 4101,\n/);
    await page.getByLabel("as it came").check();
    await hasText(visit, "#details-payload", /^\{"order":4101,/);
    await page.getByRole("button", { name: "Close" }).click();

    await page.getByLabel("Last status").fill("422");
    await page.getByRole("button", { name: "Filter" }).click();
    await eventually(async () => assert.equal(await page.locator("#rows tr").count(), 1));
    await page.getByRole("button", { name: "Redrive all that match" }).click();
    await hasText(visit, "#question", /Redrive 1 task\?/);
    await page.locator("#question-yes").click();
    await eventually(() => assert.equal(ops.tasks.length, 2));
    assert.deepEqual(ops.deeds, [
      'POST /failed/redrive {"all":true,"status":422,"dryRun":true}',
      'POST /failed/redrive {"all":true,"status":422}',
    ]);

    await page.getByLabel("Last status").fill("");
    await page.getByRole("button", { name: "Filter" }).click();
    const remove = page.getByRole("button", { name: /^Delete 0197/ }).first();
    await remove.click();
    await page.keyboard.press("Escape");
    await remove.click();
    await page.locator("#question-yes").click();
    await eventually(async () => assert.equal(await page.locator("#rows tr").count(), 1));
    assert.equal(ops.deeds.filter((deed) => deed.startsWith("DELETE")).length, 1);
    assert.deepEqual(visit.errors, []);
  });
});

Deno.test("dashboard: pages are turned, and what is selected is redriven", async () => {
  const tasks = Array.from({ length: 60 }, (_, n) => sampleTask(n + 10));
  await withDashboard(async ({ page }, ops) => {
    await page.getByRole("button", { name: "Next page" }).click();
    await eventually(async () => assert.equal(await page.locator("#rows tr").count(), 10));
    await page.getByLabel("Select all of this page").check();
    await page.getByRole("button", { name: "Redrive selected (10)" }).click();
    await page.locator("#question-yes").click();
    await eventually(() => assert.deepEqual(ops.tasks, tasks.slice(0, 50)));
  }, (ops) => ops.tasks = tasks);
});

Deno.test("dashboard: pause asks, a banner says it and resumes; with the keyboard alone", async () => {
  await withDashboard(async (visit, ops) => {
    const { page } = visit;
    await hasText(visit, "#connection", /^live$/);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate("document.activeElement.className"), "skip");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await hasText(visit, "#question", /Pause delivering\?/);
    assert.equal(await page.evaluate("document.activeElement.id"), "question-no");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await hasText(visit, "#paused", /Delivering is paused/);
    await page.locator("#resume").focus();
    await page.keyboard.press("Enter");
    await eventually(() => assert.deepEqual(ops.deeds, ["POST /pause", "POST /resume"]));
    await eventually(async () => assert.equal(await page.locator("#paused").isHidden(), true));
  });
});

Deno.test("dashboard: with a token it asks; a wrong one is told, the right one opens it", async () => {
  await withDashboard(async (visit) => {
    const { page } = visit;
    await page.getByLabel("Token").fill("wrong");
    await page.keyboard.press("Enter");
    await hasText(visit, "#login-trouble", /Not this one/);
    await page.getByLabel("Token").fill("0perat0r");
    await page.keyboard.press("Enter");
    await hasText(visit, "#connection", /^live$/);
    await page.reload();
    await hasText(visit, "#connection", /^live$/);
    assert.equal(await page.locator("#login").isHidden(), true);
  }, (ops) => ops.token = "0perat0r");
});

Deno.test("dashboard: dark when the machine is; the policy runs no script that gets into the page", async () => {
  await withDashboard(
    async (visit) => {
      const { page } = visit;
      await hasText(visit, "#connection", /^live$/);
      const ground = "getComputedStyle(document.body).backgroundColor";
      assert.equal(await page.evaluate(ground), "rgb(20, 23, 28)");
      await page.evaluate(`{
      const script = document.createElement("script");
      script.textContent = "document.title = 'run'";
      document.body.append(script);
    }`);
      await eventually(() => assert.match(visit.errors.join(), /Content Security Policy/));
      assert.equal(await page.title(), "queue-relay");
    },
    undefined,
    { colorScheme: "dark" },
  );
});
