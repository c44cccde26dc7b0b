// Tests that each page of the dashboard passes axe, and scrolls sideways nowhere, on screens of all
// sizes, in light and in dark.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { outOfTurn } from "../support/whole.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible, COLOUR_RULES } from "./watched-page.ts";

const PHONE = 375;
const DESKTOP = 1280;
const WIDTHS = [PHONE, 768, DESKTOP, 1440, 1920] as const;
const PAGES = [
  "#/",
  "#/tubes",
  "#/tubes/mail-eu",
  "#/tubes/sync-dead",
  "#/jobs/1",
  "#/find?text=welcome",
  "#/connections",
  "#/schedules",
  "#/batches",
  "#/log",
  "#/group",
  "#/server",
  "#/audit",
] as const;
/** Those that depend on the size. Phone and desktop have all rules, in `npm test` in turn. */
const SIZE_RULES = ["target-size", "scrollable-region-focusable"];

describe("dashboard, sizes", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const living = new LivingDashboard("dashboard-sizes");

  /**
   * Uses the controls of small screens: buttons behind a menu, and sorting without column heads.
   */
  async function useSmallPage(page: Page, hash: string): Promise<void> {
    if (hash === "#/tubes") {
      await page.getByLabel("sort by").selectOption("name");
      await page.waitForURL(/sort=name/);
      await page.getByRole("button", { name: "Rising" }).click();
      await page.waitForURL(/order=desc/);
      // The address changes before the rows come.
      await eventually("names go down", async () => {
        const names = await page.locator("tbody th").allInnerTexts();
        return names.length > 1 && `${names}` === `${names.toSorted().reverse()}`;
      });
    }
    if (hash !== "#/tubes/mail-eu") return;
    const kick = page.getByRole("button", { name: "Kick…" });
    assert.equal(await kick.isVisible(), false);
    const actions = page.getByRole("button", { name: "Actions" });
    await actions.click();
    await kick.waitFor();
    await assertAccessible(page, "actions");
    await kick.focus();
    await page.keyboard.press("Escape");
    await kick.waitFor({ state: "hidden" });
    assert.ok(await actions.evaluate((button) => button.matches(":focus")));
  }

  /** Tables of cards side by side that are wider than their card. */
  const cutTables = (page: Page): Promise<unknown> =>
    page.evaluate(`[...document.querySelectorAll("main .two .scroll")]
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
      .map((each) => each.ariaLabel)`);

  for (const [row, hash] of PAGES.entries())
    it(`passes axe, and scrolls sideways nowhere: ${hash}`, async () => {
      const page = await living.open(hash);
      await page.waitForSelector("main .card");
      for (const width of WIDTHS) {
        // As high as the page, so that the bar at the bottom of a phone covers nothing: axe does
        // not scroll.
        await page.setViewportSize({ width, height: 6000 });
        if (width >= DESKTOP) assert.deepEqual(await cutTables(page), [], `${hash}, ${width} px`);
        const side = ([PHONE, DESKTOP] as readonly number[]).indexOf(width);
        const isWhole = side >= 0 && outOfTurn(row + side, 2) === false;
        await assertAccessible(page, `${hash}, ${width} px`, isWhole ? undefined : SIZE_RULES);
        if (isWhole) {
          await page.emulateMedia({ colorScheme: "dark" });
          await assertAccessible(page, `${hash}, ${width} px, dark`, COLOUR_RULES);
          await page.emulateMedia({ colorScheme: "light" });
        }
        if (width === PHONE) await useSmallPage(page, hash);
      }
      await page.close();
    });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
