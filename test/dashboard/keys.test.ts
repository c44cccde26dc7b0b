// Tests of the dashboard by keys alone, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible } from "./watched-page.ts";

const skip = missing(CHROMIUM_NEED) ?? false;

describe("dashboard, keys", { skip }, () => {
  const living = new LivingDashboard("dashboard");
  const { open } = living;

  it("navigates by keys, and changes nothing by a key", async () => {
    const page = await open("#/");
    for (const [keys, title] of [
      ["gt", "Tubes"],
      ["gc", "Connections"],
      ["gl", "Log"],
      ["gs", "Server"],
      ["ga", "Audit"],
      ["go", "Overview"],
    ] as const) {
      await page.keyboard.type(keys);
      await page.locator('nav a[aria-current="page"]', { hasText: title }).waitFor();
      assert.ok((await page.title()).startsWith(title));
    }
    await page.keyboard.type("gt");
    // The overview has such a link, too.
    await page.getByRole("region", { name: "All tubes" }).getByRole("link", { name: "mail-us" }).waitFor();
    const focused = (): Promise<unknown> => page.evaluate("document.activeElement.textContent");
    await page.keyboard.press(".");
    const names = await page.locator("tbody th").allTextContents();
    const at: unknown[] = [];
    for (const key of ["j", "j", "k", "k"]) {
      await page.keyboard.press(key);
      at.push(await focused());
    }
    assert.deepEqual(at, [names[0], names[1], names[0], names[0]]);
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/tubes\/.+/);
    // Frozen, and shown all the same.
    await page.locator("#pause").waitFor();
    await page.locator("tbody th a").first().waitFor();
    await page.getByRole("status").getByText("frozen").waitFor();
    await page.keyboard.press(".");
    await page.keyboard.press("p");
    await page.getByRole("dialog").getByLabel("Seconds").waitFor();
    // A key right behind the one that closes a dialog counts: the focus is still in its field.
    await page.evaluate(`{
      const field = document.querySelector("dialog input");
      field.closest("dialog").close();
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "?", bubbles: true }));
    }`);
    await page.getByLabel("Keys are on").waitFor();
    await assertAccessible(page, "keys");
    await page.getByLabel("Keys are on").uncheck();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.type("go.");
    assert.match(page.url(), /#\/tubes\//);
    await page.getByRole("button", { name: "Keys" }).click();
    await page.getByLabel("Keys are on").check();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press(".");
    await page.getByRole("status").getByText("frozen").waitFor();
    await page.keyboard.press(".");
    await page.getByRole("status").getByText("ready").waitFor();
    await page.close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
