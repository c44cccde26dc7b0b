// Tests of the page of `npm run simulate:page` in Chromium: a seed is the same run there as in
// Node, with a fault by hand too, and a planted bug is found.

import assert from "node:assert/strict";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { CHROMIUM_NEED, openBrowser } from "../../dashboard/browser.ts";
import { assertAccessible, openPage } from "../../dashboard/watched-page.ts";
import { missing } from "../../support/machine/need.ts";
import { pageAssets } from "./bundle.ts";
import type { WatchedResult } from "./control.ts";
import { readAddress } from "./page/address.ts";
import { bugOf } from "./planted-list.ts";
import { servePage } from "./serve.ts";
import { watchRun } from "./watched-run.ts";

const STEPS = 120;
/** A seed with several shards, a log and restarts. */
const SEED = 57;
const BUG = "a restart forgets the priority";
/** As many steps a second as possible: the last place of the slider. */
const FASTEST = "11";
const END_MS = 120_000;

const skip = missing(CHROMIUM_NEED) ?? false;

describe("the page of the simulator", { skip }, () => {
  let browser: Browser;
  let server: Server;
  let url: string;
  /** Errors of pages, and requests to other hosts. */
  const wrongs: string[] = [];

  before(async () => {
    browser = await openBrowser();
    server = await servePage(await pageAssets(), 0);
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  after(async () => {
    await browser?.close();
    server?.close();
    assert.deepEqual(wrongs, []);
  });

  async function open(hash: string, width = 1280, theme: "light" | "dark" = "light"): Promise<Page> {
    return await openPage(browser, `${url}${hash}`, wrongs, { width, theme });
  }

  /** Lets a run go to its end as fast as it can; returns what the page says of it. */
  async function finish(page: Page): Promise<Record<string, string | undefined>> {
    await page.locator("#speed").fill(FASTEST);
    const outcome = page.locator("#outcome:not([data-state=running])");
    await outcome.waitFor({ timeout: END_MS });
    return await outcome.evaluate((element) => ({ ...element.dataset }));
  }

  function assertSame(shown: Record<string, string | undefined>, expected: WatchedResult): void {
    assert.equal(shown["state"], "well");
    assert.equal(expected.found, undefined);
    assert.equal(shown["steps"], `${expected.schedulerSteps}`);
    assert.equal(shown["digest"], expected.digest);
  }

  it("plays a seed as Node does, to the last byte of a reply", async () => {
    const page = await open(`#seed=${SEED}&steps=${STEPS}`);
    const expected = await watchRun({ seed: SEED, steps: STEPS });
    assert.ok(expected.schedulerSteps > 500 && expected.processes > 1, "the run is worth a comparison");
    assertSame(await finish(page), expected);
    const other = await watchRun({ seed: SEED + 1, steps: STEPS });
    assert.notEqual(other.digest, expected.digest);
    await page.close();
  });

  it("injects a fault where a person asks for it, and its address plays that again", async () => {
    const page = await open(`#seed=${SEED}&steps=${STEPS}`);
    const kill = page.locator("[data-fault=kill]:enabled");
    await kill.click();
    await page.waitForURL(/faults=kill/);
    const { faults } = readAddress(new URL(page.url()).hash);
    assert.equal(faults.length, 1);
    const byHand = new Map(faults);
    const faultAt = (step: number) => byHand.get(step);
    const expected = await watchRun({ seed: SEED, steps: STEPS, faultAt });
    assertSame(await finish(page), expected);
    const usual = await watchRun({ seed: SEED, steps: STEPS });
    assert.notEqual(usual.digest, expected.digest);
    await page.reload();
    assertSame(await finish(page), expected);
    await page.close();
  });

  it("finds a planted bug, and shows the step at which the model disagrees", async () => {
    const page = await open(`#bug=${encodeURIComponent(BUG)}`);
    await page.locator("#search").click();
    const shown = await finish(page);
    assert.equal(shown["state"], "found");
    const { seed, steps } = readAddress(new URL(page.url()).hash);
    const expected = await watchRun({ seed, steps, planted: bugOf(BUG)?.options });
    assert.equal(shown["what"], expected.found?.split("\n")[0]);
    assert.equal(shown["digest"], expected.digest);
    for (let each = 1; each < seed; each++) {
      const { found } = await watchRun({ seed: each, steps, planted: bugOf(BUG)?.options });
      assert.equal(found, undefined, `the search passes seed ${each} over`);
    }
    await page.close();
  });

  it("fits on small and large screens, and is accessible", async () => {
    for (const [width, theme] of [
      [375, "dark"],
      [1280, "light"],
      [1920, "dark"],
    ] as const) {
      const page = await open(`#seed=${SEED}&steps=${STEPS}`, width, theme);
      await page.locator("svg .box").first().waitFor();
      await assertAccessible(page, `the page at ${width} pixels`);
      await page.close();
    }
  });
});
