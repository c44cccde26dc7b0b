// Opens dashboard pages and records errors, blocked content and foreign requests, none of which may
// occur.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContext, Locator, Page } from "playwright-core";

/** Time limit for anything to appear on a busy machine, ms. */
export const SEEN_MS = 60_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Look {
  readonly width?: number;
  readonly theme?: "light" | "dark";
  /** With a session of its own. */
  readonly context?: BrowserContext;
}

/** The row with the link `name`. Other rows may have the same text in another cell. */
export const rowOf = (page: Page, name: string): Locator =>
  page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });

/** `wrongs` gets what went wrong; `permits` are messages that do not count. */
export async function openPage(
  browser: Browser,
  url: string,
  wrongs: string[],
  { width = 1280, theme = "light", context }: Look = {},
  permits: RegExp = /^$/,
): Promise<Page> {
  const page = await (context === undefined
    ? browser.newPage({ viewport: { width, height: 900 }, colorScheme: theme })
    : context.newPage());
  page.setDefaultTimeout(SEEN_MS);
  page.on("console", (message) => {
    const said = `${message.text()} ${message.location().url}`;
    // What is gone is asked for until the page is left.
    const isGone = said.includes("404") && /\/v1\/(?:jobs|batches|schedules)\//.test(said);
    if (message.type() === "error" && !isGone && !permits.test(said)) wrongs.push(`${url}: ${said}`);
  });
  page.on("pageerror", (error) => wrongs.push(`${url}: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(?:http:\/\/127\.0\.0\.1:|data:)/.test(request.url()))
      wrongs.push(`${url}: asks ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("main h1", { state: "attached" });
  return page;
}

/** The rules of axe that look at colours; no other depends on the theme. */
export const COLOUR_RULES = ["color-contrast", "link-in-text-block"] as const;

/**
 * Asserts that axe complains of nothing, by all of its rules or these, and that nothing scrolls
 * sideways.
 */
export async function assertAccessible(page: Page, what: string, rules?: readonly string[]): Promise<void> {
  // A policy that permits no inline script permits none of a test either: it is evaluated.
  if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(AXE);
  // Off by itself: targets of 24 px, or as far apart.
  const also = { "target-size": { enabled: true } };
  const options = {
    resultTypes: ["violations"],
    ...(rules === undefined ? { rules: also } : { runOnly: rules }),
  };
  const { violations } = (await page.evaluate(`axe.run(${JSON.stringify(options)})`)) as {
    violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
  };
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
  assert.deepEqual(told, [], what);
  const wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  assert.ok((wide as number) <= 0, `${what}: ${wide} px wider than the screen`);
}
