/**
 * The pictures of the dashboard in the README, made from figures that are always the same.
 *
 * What this file keeps true: the README shows what the dashboard looks like, as the pictures are made
 * anew with `UPDATE_SCREENSHOTS=1`; without it they are only made, as fonts differ between machines.
 *
 * @module
 */

import assert from "node:assert/strict";
import { assertNoOverflow, withPage } from "../support/browser.ts";
import { withFakeOps } from "../support/fake_ops.ts";

const FOLDER = new URL("../../screenshots/", import.meta.url);
const LARGEST_BYTES = 150_000;

const PICTURES = [
  {
    name: "dashboard-light.png",
    colorScheme: "light",
    viewport: { width: 1000, height: 820 },
    end: false,
  },
  {
    name: "dashboard-dark.png",
    colorScheme: "dark",
    viewport: { width: 1000, height: 820 },
    end: true,
  },
  {
    name: "dashboard-narrow.png",
    colorScheme: "light",
    viewport: { width: 390, height: 844 },
    end: false,
  },
] as const;

for (const { name, end, ...look } of PICTURES) {
  Deno.test(`screenshots: ${name} can be made, and is in the README`, async () => {
    await withFakeOps((ops) =>
      withPage(async ({ page, errors }) => {
        await page.goto(ops.url);
        await page.locator("#connection[data-state=live]").waitFor();
        await page.locator("#rows tr").nth(2).waitFor();
        await assertNoOverflow(page);
        if (end) await page.evaluate("scrollTo(0, document.body.scrollHeight)");
        const png = await page.screenshot({ animations: "disabled" });
        assert.ok(png.length < LARGEST_BYTES, `${png.length} bytes`);
        assert.deepEqual(errors, []);
        if (Deno.env.get("UPDATE_SCREENSHOTS")) await Deno.writeFile(new URL(name, FOLDER), png);
      }, look)
    );
    assert.ok((await Deno.stat(new URL(name, FOLDER))).size < LARGEST_BYTES);
    assert.ok((await Deno.readTextFile("README.md")).includes(`screenshots/${name}`));
  });
}
