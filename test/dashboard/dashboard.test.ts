// Tests of the dashboard in a real Chromium, on a real server with changing jobs.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED, serve } from "./browser.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible, rowOf, SEEN_MS } from "./watched-page.ts";

const FIRST_LOAD_BYTES_MAX = 70_000;
const FIRST_LOAD_REQUESTS_MAX = 13;
const skip = missing(CHROMIUM_NEED) ?? false;

describe("dashboard", { skip }, () => {
  const living = new LivingDashboard("dashboard");
  const { goOn, open } = living;

  it("says that an address is no page, also where every object has such a name", async () => {
    const page = await open("#/server");
    for (const name of ["foo", "__proto__", "constructor"]) {
      await goOn(page, `#/${name}`);
      await page.getByText(`There is nothing at #/${name}.`).waitFor();
      assert.equal(await page.title(), "No such page – runnerbean");
      await goOn(page, "#/server");
    }
    await page.close();
  });

  it("shows a job within moments of its put, and that it is gone", async () => {
    const page = await open("#/tubes?match=seen-*");
    const client = await WireClient.connect({ port: living.served.port, host: "127.0.0.1" });
    await client.ask("use seen-1");
    const { line } = await client.put("hello");
    const row = page.locator("tbody tr", { hasText: "seen-1" });
    await row.waitFor();
    // The tube comes with its user, an instant before the job.
    const ready = row.locator("td:not(.choose)").first();
    await eventually("the job is counted", async () => (await ready.textContent())?.trim() === "1");
    await row.getByRole("link").click();
    await page.getByPlaceholder("text in the body").fill("ell");
    await page.waitForURL(/text=ell/);
    await page.getByRole("link", { name: line.split(" ")[1]!, exact: true }).click();
    await page.getByText("hello", { exact: true }).waitFor();
    await client.ask(`delete ${line.split(" ")[1]}`);
    await page.getByText("There is no such job").waitFor();
    client.close();
    await page.close();
  });

  it("asks for workers where jobs wait, but not in a dead-letter tube or a paused one", async () => {
    const page = await open("#/tubes");
    await rowOf(page, "reports").getByText("▲ 0").waitFor();
    for (const name of ["sync-dead", "newsletter"]) {
      await rowOf(page, name).waitFor();
      assert.equal(await rowOf(page, name).getByText("▲").count(), 0, name);
    }
    await page.close();
  });

  it("drops what was typed into a filter when its page is left at once", async () => {
    const client = await WireClient.connect({ port: living.served.port, host: "127.0.0.1" });
    await client.ask("use typed");
    await client.put("hello");
    const page = await open("#/tubes?match=typed");
    const typed = page.getByPlaceholder("text in the body");
    // A busy browser changes the address some time before the dashboard learns of it. A click there
    // makes it use at once what was typed.
    for (const isBusy of [false, true]) {
      await page.getByRole("link", { name: "typed" }).click();
      await typed.pressSequentially("ell");
      await page.evaluate(`
        document.activeElement.dispatchEvent(new InputEvent("input", { bubbles: true }));
        if (${isBusy}) addEventListener("popstate", () => document.body.click(), { once: true });
        history.back();
      `);
      await page.getByPlaceholder("filter, as mail-*").waitFor();
      assert.equal(await page.getByPlaceholder("filter, as mail-*").inputValue(), "typed");
      await page.getByRole("link", { name: "typed" }).click();
      await page.getByText("hello").waitFor();
      assert.equal(await typed.inputValue(), "");
      assert.doesNotMatch(page.url(), /text=/);
      await page.goBack();
    }
    client.close();
    await page.close();
  });

  it("loads few bytes in few requests", async () => {
    const page = await living.browser.newPage();
    const sizes: number[] = [];
    const done: Promise<void>[] = [];
    page.on("requestfinished", (request) => {
      if (/\/(?:$|assets\/)/.test(new URL(request.url()).pathname))
        done.push(
          request.sizes().then(({ responseBodySize, responseHeadersSize }) => {
            sizes.push(responseBodySize + responseHeadersSize);
          }),
        );
    });
    await page.goto(living.served.url);
    await page.locator("#chart canvas").waitFor();
    await Promise.all(done);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    assert.ok(bytes <= FIRST_LOAD_BYTES_MAX, `${bytes} bytes`);
    assert.ok(sizes.length <= FIRST_LOAD_REQUESTS_MAX + 2, `${sizes.length} requests, with the chart's two`);
    await page.close();
  });

  it("keeps the order of rows under the pointer, and shows its age", async () => {
    const client = await WireClient.connect({ port: living.served.port, host: "127.0.0.1" });
    for (const tube of ["order-a", "order-b"]) {
      await client.ask(`use ${tube}`);
      await client.put("x");
    }
    await client.put("x");
    const page = await open("#/tubes?match=order-*&sort=ready");
    // A tube's page has a table of settings, too.
    const rows = page.locator("tbody th:has(a)");
    const names = (): Promise<string[]> => rows.allTextContents();
    // What loads late moves the rows away from the pointer, and then their order may change.
    const untilHeld = async (label: RegExp, change: (attempt: number) => Promise<void>): Promise<void> => {
      for (let attempt = 0; ; attempt++) {
        await rows.last().hover();
        const [before] = await names();
        await change(attempt);
        const isHeld = await eventually("the list is held, or changes", async () => {
          if ((await page.getByText(label).count()) > 0) return "held";
          return (await names())[0] !== before && "changed";
        });
        if (isHeld === "changed" && attempt < 10) continue;
        assert.equal(isHeld, "held");
        assert.equal((await names())[0], before);
        return;
      }
    };
    await eventually("order-b is first", async () => `${await names()}` === "order-b,order-a");
    let last = "";
    await untilHeld(/order is \d+ s old/, async (attempt) => {
      [, last] = (await names()) as [string, string];
      await client.ask(`use ${last}`);
      for (let n = 0; n < 3 * 2 ** attempt; n++) await client.put("x");
    });
    await page.mouse.move(0, 0);
    await page.getByText(/order is \d+ s old/).waitFor({ state: "detached" });
    await eventually("the order is new", async () => (await names())[0] === last);
    // Jobs that are done stay in the list, too, while the pointer is over it.
    await page.getByRole("link", { name: last }).click();
    await eventually("the jobs are shown", async () => (await rows.count()) >= 4);
    let first = "";
    await untilHeld(/the list is \d+ s old/, async () => {
      [first] = (await names()) as [string];
      await client.ask(`delete ${first}`);
    });
    await page.mouse.move(0, 0);
    await page.getByRole("link", { name: first, exact: true }).waitFor({ state: "detached" });
    client.close();
    await page.close();
  });

  it("reports a lost server, greys old data, and continues when the server is back", async () => {
    const other = await serve();
    const page = await living.browser.newPage();
    page.setDefaultTimeout(SEEN_MS);
    await page.goto(`${other.url}/#/log`);
    await page.getByText("There is no log").waitFor();
    await assertAccessible(page, "no log");
    await page.goto(`${other.url}/#/`);
    await page.getByRole("status").getByText("ready").waitFor();
    await page.getByText("Nothing needs attention.").first().waitFor();
    const httpPort = new URL(other.url).port;
    await other.server.kill();
    await page.getByRole("status").getByText("disconnected").waitFor();
    assert.ok(await page.locator("main.stale").count());
    await page
      .getByRole("alert")
      .getByText(/has not answered since \d\d:\d\d:\d\d.*The next attempt is within 2 s/)
      .waitFor();
    const back = await startServer({ kind: "ours", flags: ["--http", `127.0.0.1:${httpPort}`] });
    await page.getByRole("status").getByText("ready").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.close();
    await back.kill();
  });

  it("serves seven tabs: a tab without a stream polls", async () => {
    const pages = await Promise.all(Array.from({ length: 7 }, () => open("#/tubes")));
    for (const page of pages) await page.getByRole("link", { name: "mail-eu" }).waitFor();
    await Promise.all(pages.map((page) => page.close()));
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
