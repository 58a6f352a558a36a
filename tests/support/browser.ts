/**
 * Debian's Chromium for tests, driven by playwright-core, and a page that holds what went wrong in it.
 *
 * @module
 */

import assert from "node:assert/strict";
import { type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** Where Debian's package puts it. */
const CHROMIUM = "/usr/bin/chromium";

/** A page, and what it did that it should not. */
export interface Visit {
  readonly page: Page;
  /** Errors of scripts, of the console and of the Content-Security-Policy. */
  readonly errors: string[];
  /** Every URL that was asked for. */
  readonly requests: string[];
}

/** Runs `fn` with a page of a browser of its own; `args` are Chromium's flags. */
export async function withPage(
  fn: (visit: Visit) => Promise<void>,
  options: BrowserContextOptions = {},
  args: readonly string[] = [],
): Promise<void> {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: [...args],
    // As root Chromium does not start with its sandbox.
    chromiumSandbox: Deno.uid() !== 0,
  });
  try {
    const context = await browser.newContext({ timezoneId: "UTC", locale: "en", ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const visit: Visit = { page, errors: [], requests: [] };
    page.on("pageerror", ({ message }) => visit.errors.push(message));
    page.on("console", (message) => {
      if (message.type() === "error") visit.errors.push(message.text());
    });
    page.on("request", (request) => visit.requests.push(request.url()));
    await fn(visit);
  } finally {
    await browser.close();
  }
}

/** Holds that the page is not wider than its window. */
export async function assertNoOverflow(page: Page): Promise<void> {
  const [wide, window] = await page.evaluate(
    "[document.documentElement.scrollWidth, innerWidth]",
  ) as [
    number,
    number,
  ];
  assert.ok(wide <= window, `the page is ${wide} px wide in a window of ${window} px`);
}
