// Tests of a dashboard whose server hangs, answers late or answers in another order: every request
// has a limit, the page says what did not come, and an old answer never counts as a new one.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page, Route } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED, openBrowser, type Served, serve } from "./browser.ts";
import { assertAccessible, openPage } from "./watched-page.ts";

/** The page's own limit. */
const ANSWER_MS = 15_000;
const UNANSWERED = `The server has not answered within ${ANSWER_MS / 1000} s.`;

describe("dashboard, silence", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  let browser: Browser;
  let served: Served;
  let client: WireClient;
  const wrongs: string[] = [];

  before(async () => {
    browser = await openBrowser();
    served = await serve();
    client = await WireClient.connect({ port: served.port, host: "127.0.0.1" });
    for (const tube of ["order-a", "order-b"]) {
      await client.ask(`use ${tube}`);
      await client.put("x");
    }
    await client.put("y");
    await client.ask("open-batch import");
    await client.ask("put-in-tube rows 0 0 60 1 batch=import\r\nx");
  });
  after(async () => {
    client?.close();
    await browser?.close();
    await served?.server.kill();
  });

  const open = (hash: string): Promise<Page> => openPage(browser, `${served.url}/${hash}`, wrongs);

  it("names a mistyped link as such, although the server refuses it, and goes on from there", async () => {
    // The browser reports each refusal on its console.
    const page = await openPage(browser, `${served.url}/#/`, wrongs, {}, /status of 400/);
    const links = [
      "#/tubes?sort=nope",
      "#/connections?state=nope",
      "#/jobs/1a",
      "#/tubes/a%20b",
      "#/tubes/-x",
    ];
    for (const link of links) {
      await page.goto(`${served.url}/${link}`);
      await page.getByText("The link may be mistyped or cut off.").waitFor();
      await page.getByText("wrong link", { exact: true }).waitFor();
      const text = await page.locator("body").textContent();
      assert.doesNotMatch(text ?? "", /has not answered|disconnected/, link);
      await page.getByRole("link", { name: "Go to the overview" }).click();
      await page.getByText("ready", { exact: true }).first().waitFor();
      await page.getByText("wrong link", { exact: true }).waitFor({ state: "detached" });
    }
    await page.close();
  });

  /** A page whose clock the test can put forward. */
  async function openTimed(hash: string): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.clock.install();
    page.on("pageerror", (error) => wrongs.push(error.message));
    await page.goto(`${served.url}/${hash}`);
    return page;
  }

  /** Puts the page's clock forward until the text is shown, as often as something waits. */
  async function letTimePass(page: Page, text: string | RegExp, place = page.locator("body")): Promise<void> {
    await eventually(`shown: ${text}`, async () => {
      if ((await place.getByText(text).count()) > 0) return true;
      await page.clock.fastForward(ANSWER_MS);
      return false;
    });
  }

  it("says that a server hangs, on each page, and goes on when it answers", async () => {
    const page = await openTimed("#/batches");
    const row = page.getByRole("row", { name: "import" });
    await row.getByText("1 open").waitFor();
    served.server.child.kill("SIGSTOP");
    try {
      await letTimePass(page, /The server has not answered since \d\d:\d\d:\d\d/);
      await row.waitFor();
      await page.getByRole("link", { name: "Tubes" }).click();
      await page.getByRole("status").getByText("disconnected").waitFor();
    } finally {
      served.server.child.kill("SIGCONT");
    }
    await letTimePass(page, "order-a");
    await page.getByRole("status").getByText("ready").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.close();
  });

  it("says that a view is too long to be sent, and goes on with the next one that isn't", async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on("pageerror", (error) => wrongs.push(error.message));
    // Each view comes as the event that the server sends in its place.
    await page.addInitScript(() => {
      const state = { isTooLong: true };
      Object.assign(globalThis, {
        state,
        EventSource: class extends EventSource {
          override addEventListener(type: string, listener: EventListener): void {
            super.addEventListener(type, (event) => {
              const { data } = event as MessageEvent;
              if (type !== "answer" || !state.isTooLong || !data.includes("/v1/tubes"))
                return listener(event);
              const answer = {
                ...JSON.parse(data),
                status: 413,
                content: { detail: "This view is too long." },
              };
              listener(new MessageEvent(type, { data: JSON.stringify(answer) }));
            });
          }
        },
      });
    });
    await page.goto(`${served.url}/#/tubes`);
    await page.getByRole("alert").getByText("This view is too long.").waitFor();
    await page.getByRole("status").getByText("too much to show").waitFor();
    await assertAccessible(page, "a view that is too long");
    await page.evaluate("state.isTooLong = false");
    await page.getByRole("link", { name: "order-a" }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.close();
  });

  it("says that a list, a chart or a setting does not come, and shows it once it does", async () => {
    const page = await openTimed("#/tubes/order-a");
    await page.getByRole("button", { name: "Change…" }).waitFor();
    for (const [hash, what, unanswered, shown] of [
      ["#/batches", "**/v1/batches*", `can't be refreshed: ${UNANSWERED}`, "1 open"],
      ["#/tubes/order-b", "**/v1/tubes/order-b/jobs*", `can't be refreshed: ${UNANSWERED}`, "looked at"],
      ["#/", "**/v1/history*", UNANSWERED, /On average/],
    ] as const) {
      await page.route(what, () => {});
      await page.goto(`${served.url}/${hash}`);
      await letTimePass(page, unanswered);
      // So much time at once seems to the page as if its stream were silent, too.
      await page.getByRole("status").getByText("ready").waitFor();
      await assertAccessible(page, `${hash}, unanswered`);
      await page.unroute(what);
      await letTimePass(page, shown);
      await eventually("all has come", async () => (await page.getByText(UNANSWERED).count()) === 0);
    }
    await page.goto(`${served.url}/#/tubes/order-a`);
    await page.route("**/v1/settings/*", () => {});
    await page.getByRole("button", { name: "Change…" }).click();
    // Lists behind the dialog may seem unanswered, too.
    await letTimePass(page, UNANSWERED, page.getByRole("dialog"));
    await page.getByRole("status").getByText("ready").waitFor();
    await assertAccessible(page, "settings, unanswered");
    await page.unroute("**/v1/settings/*");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("Applies to 1 tube now.").waitFor();
    await page.close();
  });

  it("says that a server does not answer before its first view, and that a proxy does", async () => {
    const page = await openTimed("");
    await page.getByRole("status").getByText("ready").waitFor();
    await page.route("**/v1/session", () => {});
    await page.reload();
    await letTimePass(page, `${UNANSWERED} The next attempt is within 2 s.`);
    await page.unroute("**/v1/session");
    await page.route("**/v1/session", (route) => route.fulfill({ status: 502, body: "<h1>Bad gateway" }));
    await letTimePass(page, /with status 502, is not from this server/);
    await page.unroute("**/v1/session");
    await letTimePass(page, "order-a");
    await page.close();
  });

  it("keeps a dialog and what was typed while the server is restarted", async (t) => {
    const other = await serve([], t);
    const page = await browser.newPage();
    await page.goto(`${other.url}/#/tubes/default`);
    await page.getByRole("button", { name: "Put a job…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Body").fill("typed before");
    await other.server.kill();
    await dialog.getByRole("button", { name: "Put" }).click();
    await dialog
      .getByRole("alert")
      .getByText("The server did not answer. The request may or may not have been carried out.")
      .waitFor();
    const back = await startServer({ kind: "ours", flags: ["--http", new URL(other.url).host] });
    t.after(() => back.kill());
    assert.equal(await dialog.getByLabel("Body").inputValue(), "typed before");
    await dialog.getByRole("button", { name: "Put" }).click();
    await page.getByText("Put as job 1 into default.").waitFor();
    await page.close();
  });

  it("sorts anew at once, even under the pointer", async () => {
    const page = await open("#/tubes?match=order-*&sort=name");
    const names = async (): Promise<string> => `${await page.locator("tbody th").allTextContents()}`;
    await eventually("by name", async () => (await names()) === "order-a,order-b");
    await page.locator("tbody th").last().hover();
    await page.getByRole("columnheader", { name: "tube" }).getByRole("button").press("Enter");
    await eventually("the other way round", async () => (await names()) === "order-b,order-a");
    await page.close();
  });

  it("shows another list even if the page is frozen", async () => {
    const page = await open("#/tubes/order-b");
    await page.locator("tbody th a").first().waitFor();
    await page.keyboard.press(".");
    await page.getByRole("status").getByText("frozen").waitFor();
    await page.getByRole("button", { name: "buried" }).click();
    await page.getByText("No buried job here.").waitFor();
    await page.close();
  });

  it("asks again for a body that a starting server does not have yet", async () => {
    const page = await browser.newPage();
    await page.route("**/v1/jobs/1?*", (route) => route.fulfill({ status: 503, json: { status: 503 } }), {
      times: 1,
    });
    await page.goto(`${served.url}/#/jobs/1`);
    await page.getByText("x", { exact: true }).waitFor();
    await page.close();
  });

  it("shows a change even if an answer from before it comes late", async () => {
    const page = await open("#/batches");
    const row = page.getByRole("row", { name: "import" });
    await row.getByText("1 open").waitFor();
    /** What the server said before the change, and what it says behind it: both wait. */
    const early: (() => Promise<void>)[] = [];
    const late: (() => Promise<void>)[] = [];
    let isChanged = false;
    await page.route("**/v1/batches?*", async (route: Route) => {
      const response = await route.fetch();
      // An answer that nobody waits for can't be given.
      const give = (): Promise<void> => route.fulfill({ response }).catch(() => {});
      (isChanged ? late : early).push(give);
    });
    await eventually("an answer waits", () => early.length > 0);
    isChanged = true;
    await row.getByRole("button", { name: "Cancel" }).press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the batch" }).press("Enter");
    await page.getByText("The batch import is cancelled.").waitFor();
    await eventually("the next answer waits", () => late.length > 0);
    // The focus is in the row again, so a list that is shown stays.
    await eventually("the focus is back", () => row.evaluate((it) => it.matches(":focus-within")));
    for (const give of [...early, ...late]) await give();
    await row.getByText("complete: cancelled").waitFor();
    await page.close();
  });

  it("causes no error", () => {
    assert.deepEqual(wrongs, []);
  });
});
