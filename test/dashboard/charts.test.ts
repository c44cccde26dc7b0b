// Tests of the charts, their sentences and tables, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible } from "./watched-page.ts";

const skip = missing(CHROMIUM_NEED) ?? false;

describe("dashboard, charts", { skip }, () => {
  const living = new LivingDashboard("dashboard");
  const { goOn, open } = living;

  it("charts a tube, and describes the charts in a sentence", async () => {
    const page = await open("#/tubes/mail-eu");
    await page.locator("#states-chart canvas").waitFor();
    await page.locator("#flow-chart canvas").waitFor();
    await page.locator("#states-chart-words", { hasText: /Now \d+ ready, \d+ reserved/ }).waitFor();
    await page.locator("#flow-chart-words", { hasText: /On average [\d.]+\sin\s\/s/ }).waitFor();
    await page.goto(`${living.served.url}/#/?span=1h`);
    await page.locator("#chart-words", { hasText: "The last hour" }).waitFor();
    await page.close();
  });

  it("tells how long a tube's jobs wait and are held, on its page and in the table", async () => {
    const page = await open("#/tubes/mail-eu");
    // The first look begins to measure, and the workers go on.
    const fact = page.locator(".facts div", { hasText: "wait, p50 and p99" });
    await fact.getByText(/^[\d.]+ m?s, [\d.]+ m?s$/).waitFor();
    await page
      .locator(".facts div", { hasText: "hold, p50 and p99" })
      .getByText(/m?s, [\d.]+ m?s$/)
      .waitFor();
    await goOn(page, "#/tubes?sort=holdP99");
    await page.getByText("Columns", { exact: true }).click();
    await page.getByLabel("hold p99").check();
    await page.keyboard.press("Escape");
    await page.locator('th[aria-sort="descending"]', { hasText: "hold p99" }).waitFor();
    const times = page.locator('td[data-label="hold p99"]');
    assert.match((await times.first().textContent())!.trim(), /^[\d.]+ m?s$/);
    assert.equal((await times.last().textContent())!.trim(), "–");
    await page.close();
  });

  it("has a table for each chart, also of syncs, and shows how full the rings are", async () => {
    const page = await open("#/");
    for (const [hash, chart, title, row] of [
      ["#/", "chart", "Jobs a second", /^\d\d:\d\d:\d\d \d[\d.]* \d[\d.]* \d[\d.]*$/],
      ["#/tubes/mail-eu", "states-chart", "Jobs by state", /^\d\d:\d\d:\d\d \d+ \d+ \d+ 2$/],
      ["#/log", "syncs-chart", "Syncs over time", /^\d\d:\d\d:\d\d [\d.]+ m?s [\d.]+ m?s$/],
    ] as const) {
      if (hash !== "#/") await goOn(page, hash);
      // Not the first on the page: the answer for the second chart may come before it.
      await page.locator(`#${chart}-table`).getByText("As a table").click();
      const table = page.getByRole("region", { name: `${title}, as a table` });
      await table.getByRole("row", { name: row }).first().waitFor();
      await assertAccessible(page, `${hash}, as a table`);
    }
    await page.locator("#syncs-chart-words", { hasText: /half of them took up to [\d.]+ m?s/ }).waitFor();
    await goOn(page, "#/server");
    const rings = page.getByRole("table", { name: "Messages that threads take from their rings" });
    await rings.getByRole("row", { name: /^shard 0 \d.* (?:< 1|\d+) % (?:< 1|\d+) %$/ }).waitFor();
    await page.close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
