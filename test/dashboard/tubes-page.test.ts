// Tests of the list of tubes, its filter, order and columns, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible } from "./watched-page.ts";

const skip = missing(CHROMIUM_NEED) ?? false;

describe("dashboard, tubes", { skip }, () => {
  const living = new LivingDashboard("dashboard");
  const { goOn, open } = living;

  it("marks a paused tube in every list, and names the port that it listens on", async () => {
    const client = await WireClient.connect({ port: living.served.port, host: "127.0.0.1" });
    await client.ask("use halted");
    const { line } = await client.put("hello");
    await client.ask("pause-tube halted 3600");
    const page = await open("#/tubes?match=halted");
    await page.locator("tbody th", { hasText: "paused" }).waitFor();
    await goOn(page, "#/");
    await page.locator("main", { hasText: "paused, with 1 ready" }).waitFor();
    await client.ask("pause-tube halted 0");
    await client.ask(`delete ${line.split(" ")[1]}`);
    client.close();
    await page.close();
  });

  it("keeps filter, sorting and page in its address", async () => {
    const page = await open("#/tubes");
    const said = (text: RegExp): Promise<void> =>
      page.locator("#said", { hasText: text }).waitFor({ state: "attached" });
    await said(/^\d+ tubes\.$/);
    // No time goes by: what the user asked for is said at once.
    await page.clock.setFixedTime(Date.now());
    await page.keyboard.press("/");
    await page.keyboard.type("mail");
    await page.getByText("2 match").waitFor();
    await said(/^2 of \d+ tubes match\.$/);
    await page.getByRole("button", { name: "tube", exact: true }).click();
    await page.locator('th[aria-sort="ascending"]', { hasText: "tube" }).waitFor();
    const url = page.url();
    assert.match(url, /match=mail.*sort=name|sort=name.*match=mail/);
    const again = await open(url.slice(url.indexOf("#")));
    await again.getByText("2 match").waitFor();
    assert.deepEqual(await again.locator("tbody th").allInnerTexts(), ["mail-eu", "mail-us"]);
    await page.close();
    await again.close();
  });

  it("keeps chosen columns over a reload, and resets them", async () => {
    const page = await open("#/tubes");
    const head = (name: string) => page.getByRole("columnheader", { name, exact: true });
    await head("pause").waitFor();
    assert.equal(await head("bodies").count(), 0);
    await page.getByText("Columns", { exact: true }).click();
    await assertAccessible(page, "columns");
    await page.getByLabel("bodies").check();
    await page.getByLabel("pause").uncheck();
    await head("bodies").waitFor();
    await page.keyboard.press("Escape");
    await page.getByLabel("bodies").waitFor({ state: "hidden" });
    await page.reload();
    await head("bodies").waitFor();
    assert.equal(await head("pause").count(), 0);
    await head("bodies").getByRole("button").click();
    await page.waitForURL(/sort=bodyBytes/);
    await page.getByText("Columns", { exact: true }).click();
    await page.getByRole("button", { name: "Reset" }).click();
    await head("pause").waitFor();
    assert.equal(await head("bodies").count(), 0);
    await page.close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
