// Tests that each page and each dialog of the dashboard passes axe on screens of all sizes, in
// light and in dark, that nothing scrolls sideways, and that each control and each text can be
// seen.

import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { IS_NIGHT, skipVariant } from "../support/whole.ts";
import { CHROMIUM_NEED, serve } from "./browser.ts";
import { crowd, LONG_DEAD } from "./crowded-data.ts";
import { assertLaidOut, layoutFaults } from "./layout.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible, COLOUR_RULES, openPage } from "./watched-page.ts";

const PHONE = 375;
const DESKTOP = 1280;
const WIDTHS = [PHONE, 768, DESKTOP, 1440, 1920] as const;
/** A page with 50 jobs as cards fits on a phone, even if each has two lines more than usual. */
const TALL = 16_000;
const LONG = "a-name-as-long-as-it-may-be/".repeat(8).slice(0, 200);
const PAGES = [
  "#/",
  "#/tubes",
  "#/tubes/mail-eu",
  "#/tubes/sync-dead",
  "#/jobs/1",
  "#/find?text=welcome",
  "#/connections",
  "#/schedules",
  "#/schedules/nightly-sales",
  "#/batches",
  "#/batches/import-stuck",
  "#/log",
  "#/group",
  "#/server",
  "#/audit",
  `#/tubes/${LONG}`,
  `#/tubes/${LONG_DEAD}`,
  "#/find?text=long",
  `#/schedules/${encodeURIComponent(LONG.slice(0, 128))}`,
  `#/batches/${encodeURIComponent(LONG)}`,
] as const;
/** By the page and the button that opens it. */
const DIALOGS = [
  ["#/tubes/mail-eu", ["Put a job…", "Pause…", "Kick…", "Move…", "Clear…", "Change…"]],
  ["#/tubes/sync-dead", ["Redrive…"]],
  [`#/tubes/${LONG}`, ["Pause…", "Clear…"]],
  ["#/jobs/1", ["Put again…", "Update…", "Delete…"]],
  [`#/connections?tube=${encodeURIComponent(LONG)}`, ["Close the connection"]],
  ["#/schedules", ["Pause… the schedule a-name", "Run now… the schedule a-name"]],
  ["#/batches", ["Cancel… the batch a-name"]],
  [`#/batches/${LONG}`, ["Commit…", "Cancel…"]],
  ["#/server", ["Reload…", "Drain…"]],
] as const;
/** A page with each kind of fault, and what a user can see all the same. */
const BAD_PAGE = `<style>* { margin: 0; font: 16px monospace } .cut { width: 5em; overflow: hidden; white-space: nowrap }
    .at { position: absolute; left: 0; width: 90px; height: 30px }</style>
  <button class="at" style="top: 0">one</button><button class="at" style="top: 20px">two</button>
  <button class="at" style="top: 100px">hid</button><div class="at" style="top: 90px; height: 50px">veil</div>
  <button class="at" style="top: 200px; left: -50px">out</button>
  <div style="margin-top: 300px"><p class="cut">words that are cut</p><p class="cut" title="all">words that may be cut</p>
  <div class="card" style="width: 5em"><p style="white-space: nowrap">words that leave the card</p></div>
  <input placeholder="much too long" style="width: 50px"><input placeholder="short" style="width: 200px"></div>`;
const BAD_PAGE_FAULTS = [
  "covered by div veil: button hid",
  "outside of the window: button out",
  "overlap: button one, button two",
  "cut off without a title: words that are cut",
  "runs out of its card: words that leave the card",
  "cut off: much too long",
];
/** Width of a list that is hidden when its ages have as many characters as in two hours. */
const HIDDEN_WITH_LONG_AGES = `(() => {
  const list = document.querySelector("main .scroll");
  const texts = document.createTreeWalker(list, NodeFilter.SHOW_TEXT);
  const ages = [];
  while (texts.nextNode() !== null) {
    const { data, parentElement } = texts.currentNode;
    const isAge = /^\\s*(?:< )?\\d+ (?:s|min|h)\\s*$/.test(data) && !parentElement.textContent.endsWith(" left");
    if (isAge) ages.push([texts.currentNode, data, "119 min"]);
    else if (data === "never") ages.push([texts.currentNode, data, "119 min ago"]);
  }
  for (const [text, , long] of ages) text.data = long;
  const hidden = list.scrollWidth - list.clientWidth;
  for (const [text, before] of ages) text.data = before;
  return hidden;
})()`;
/** Those that depend on the size, besides all rules on a phone and on a desktop. */
const SIZE_RULES = ["target-size", "scrollable-region-focusable"];

describe("dashboard, sizes", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const living = new LivingDashboard("dashboard-sizes");

  /** What is as long as it may be. */
  const fillWithLongNames = async (): Promise<void> => {
    const client = await WireClient.connect({ port: living.served.port, host: "127.0.0.1" });
    assert.equal((await client.ask(`name ${LONG.slice(0, 63)}`)).line, "NAMED");
    await client.ask(`use ${LONG}`);
    await client.ask(`watch ${LONG}`);
    const { line } = await client.put("x".repeat(200));
    const id = line.split(" ")[1];
    for (const reason of [LONG, "words%20".repeat(20)]) {
      await client.ask(`reserve-job ${id}`);
      await client.ask(`release ${id} 0 0 reason=${reason}`);
    }
    await client.put("{}");
    await client.ask(`set-schedule ${LONG.slice(0, 128)} ${LONG} 0 0 60 1 every=86399\r\nx`);
    await client.ask(`open-batch ${LONG}`);
    // They stay until the server ends.
    await crowd(living.served.port, { tubes: 20, clients: 4 });
  };

  /**
   * Uses the controls of small screens: buttons behind a menu, and sorting without column heads.
   */
  async function useSmallPage(page: Page, hash: string): Promise<void> {
    if (hash === "#/tubes") {
      await page.getByLabel("sort by").selectOption("name");
      await page.waitForURL(/sort=name/);
      await page.getByRole("button", { name: "Ascending" }).click();
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

  /** In whole runs all rules on a phone and on a desktop, and one of them in dark. */
  async function assertSeen(page: Page, where: string, width: number): Promise<void> {
    if (width === DESKTOP || width === PHONE) await assertAccessible(page, where);
    else if (IS_NIGHT) await assertAccessible(page, where, SIZE_RULES);
    if (width !== DESKTOP && !(IS_NIGHT && width === PHONE)) return;
    await page.emulateMedia({ colorScheme: "dark" });
    await assertAccessible(page, `${where}, dark`, COLOUR_RULES);
    await page.emulateMedia({ colorScheme: "light" });
  }

  /** Tables of cards side by side that are wider than their card. */
  const cutTables = (page: Page): Promise<unknown> =>
    page.evaluate(`[...document.querySelectorAll("main .two .scroll")]
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
      .map((each) => each.ariaLabel)`);

  it("finds what is wrong with a page", async () => {
    const page = await living.browser.newPage();
    await page.setContent(BAD_PAGE);
    assert.deepEqual(await layoutFaults(page), BAD_PAGE_FAULTS);
    await page.setContent(
      `<dialog open style="width: 200px; overflow: auto"><p>${"w".repeat(500)}</p></dialog>`,
    );
    assert.deepEqual(await layoutFaults(page), ["scrolls sideways: dialog"]);
    await page.close();
  });

  it("shows usual lists as a whole, and charts side by side at the same height", async () => {
    const page = await living.open("#/");
    await page.locator("#chart canvas").waitFor();
    await page.locator("#failures-chart canvas").waitFor();
    for (const width of WIDTHS.filter((each) => each >= DESKTOP)) {
      await page.setViewportSize({ width, height: TALL });
      // Its rates may have a digit more each.
      const tops = await page.evaluate(`(() => {
        const more = document.querySelector("#rates small").appendChild(document.createElement("span"));
        more.textContent = " 888";
        const tops = ["chart", "failures-chart"].map((id) => document.getElementById(id).getBoundingClientRect().top);
        more.remove();
        return tops;
      })()`);
      assert.equal((tops as number[])[0], (tops as number[])[1], `${width} px`);
    }
    for (const hash of ["#/tubes", "#/connections", "#/schedules", "#/batches"]) {
      await page.goto(`${living.served.url}/${hash}`);
      await page.locator("main .scroll tbody").waitFor();
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: TALL });
        const hidden = await page.evaluate(HIDDEN_WITH_LONG_AGES);
        // Widths are rounded.
        assert.ok((hidden as number) <= 1, `${hash}, ${width} px: ${hidden} px are hidden`);
      }
    }
    await page.close();
  });

  it("leaves no room for a chart that has no values", async (t) => {
    const { url } = await serve(["-b", temporaryFolder(t, "empty-log")], t);
    const page = await openPage(living.browser, `${url}/#/log`, living.wrongs);
    await page.getByText("There are no points yet.").waitFor();
    assert.equal(await page.getByText("None so far.").count(), 2);
    assert.ok((await page.locator("#syncs-chart").boundingBox())!.height < 10);
    await assertAccessible(page, "an empty log");
    await assertLaidOut(page, "an empty log");
    await page.close();
  });

  describe("with long names", () => {
    before(fillWithLongNames);

    for (const [index, hash] of PAGES.entries())
      it(`passes axe, and scrolls sideways nowhere: ${hash}`, { skip: skipVariant(index, 2) }, async () => {
        const page = await living.open(hash);
        await page.waitForSelector("main .card");
        for (const width of WIDTHS) {
          // As high as the page, so that the bar at the bottom of a phone covers nothing: axe does
          // not scroll.
          await page.setViewportSize({ width, height: TALL });
          if (width >= DESKTOP) assert.deepEqual(await cutTables(page), [], `${hash}, ${width} px`);
          await assertLaidOut(page, `${hash}, ${width} px`);
          await assertSeen(page, `${hash}, ${width} px`, width);
          if (width === PHONE) await useSmallPage(page, hash);
        }
        await page.close();
      });

    for (const [index, [hash, buttons]] of DIALOGS.entries())
      it(`shows each dialog on a phone and on a large screen: ${hash}`, {
        skip: skipVariant(index, 2),
      }, async () => {
        const page = await living.open(hash);
        for (const button of buttons) {
          // As wide as the page that has the button without a menu.
          await page.setViewportSize({ width: DESKTOP, height: TALL });
          await page.getByRole("button", { name: button }).first().click();
          const dialog = page.getByRole("dialog");
          await dialog.waitFor();
          await dialog.getByRole("button", { name: "Counting…" }).waitFor({ state: "detached" });
          for (const width of [PHONE, WIDTHS.at(-1)!]) {
            await page.setViewportSize({ width, height: 3000 });
            await assertLaidOut(page, `${hash}, ${button}, ${width} px`);
          }
          await assertAccessible(page, `${hash}, ${button}`);
          await page.emulateMedia({ colorScheme: "dark" });
          await assertAccessible(page, `${hash}, ${button}, dark`, COLOUR_RULES);
          await page.emulateMedia({ colorScheme: "light" });
          await page.keyboard.press("Escape");
          await dialog.waitFor({ state: "detached" });
        }
        await page.close();
      });
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
