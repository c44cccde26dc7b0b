// Tests of the pages of one batch and of one schedule, of the filters of their lists, and of what
// the overview says of them, in Chromium.

import assert from "node:assert/strict";
import { before, beforeEach, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertLaidOut } from "./layout.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, pages of flows", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, told } = actions;

  beforeEach(() => actions.closeDialogs());

  const ask = async (line: string): Promise<string> => (await actions.client.ask(line)).line;
  const put = async (tube: string, options: string): Promise<string> =>
    (await ask(`put-in-tube ${tube} 0 0 600 2 ${options}\r\n{}`)).split(" ")[1]!;
  const open = (hash: string) => actions.page.goto(`${actions.base}/${hash}`);
  const rowsOf = async (page: Page): Promise<string[]> =>
    (await page.locator("tbody th").allInnerTexts()).map((text) => text.split(/\s/)[0]!);
  const showsRows = (names: readonly string[]): Promise<unknown> =>
    eventually(`${names}`, async () => `${await rowsOf(actions.page)}` === `${names}`);

  /** Sizes and themes are the matter of another test. */
  async function assertFits(what: string): Promise<void> {
    await assertAccessible(actions.page, what);
    await actions.page.setViewportSize({ width: 375, height: 3000 });
    await assertLaidOut(actions.page, `${what}, 375 px`);
    await actions.page.setViewportSize({ width: 1280, height: 900 });
  }

  /** Ids of a buried member, of one with a worker, and of a dead one. */
  let [buried, held, dead] = ["", "", ""];

  before(async () => {
    await ask("set-tube calls max-attempts=1 dead-letter=calls-dead");
    await ask("open-batch import-7");
    await put("follow-ups", "after=import-7");
    await put("clean-up", "after-any=import-7");
    await put("rows", "batch=import-7");
    [buried, held] = [await put("rows", "batch=import-7"), await put("rows", "batch=import-7")];
    dead = await put("calls", "batch=import-7");
    await ask(`reserve-job ${buried}`);
    await ask(`bury ${buried} 0 reason=no%20such%20customer`);
    await ask(`reserve-job ${held}`);
    await ask(`reserve-job ${dead}`);
    await ask(`release ${dead} 0 0 reason=no%20answer`);
    await ask(`delete ${await put("rows", "batch=import-7")}`);
    for (const name of ["export-1", "export-2"]) await ask(`open-batch ${name}`);
    await ask("commit-batch export-2");
    for (const [name, tube] of [
      ["hourly", "reports"],
      ["nightly", "reports"],
      ["beat", "monitoring"],
    ])
      await ask(`set-schedule ${name} ${tube} 5 0 60 2 every=3600 missed=none meta=tenant:acme\r\n{}`);
    await ask("pause-schedule nightly");
  });

  it("says on the overview which batch waits for a person, and which schedule is paused", async () => {
    await open("#/");
    const found = (text: string) => actions.page.getByRole("listitem").filter({ hasText: text });
    await found("batch import-7: 1 member is buried, so the batch doesn't end").waitFor();
    await found("schedule nightly: paused").waitFor();
    await actions.page.getByRole("link", { name: "schedule nightly" }).click();
    await actions.page.getByRole("heading", { name: "nightly" }).waitFor();
    await actions.page.goBack();
    await actions.page.getByRole("link", { name: "batch import-7" }).click();
    await actions.page.getByRole("heading", { name: "import-7" }).waitFor();
  });

  it("filters both lists by a text and by a state", async () => {
    await open("#/batches");
    await showsRows(["export-2", "export-1", "import-7"]);
    const text = actions.page.getByRole("searchbox", { name: "Text in name" });
    await actions.page.keyboard.press("/");
    await actions.page.keyboard.type("port-2");
    await showsRows(["export-2"]);
    await text.fill("export-*");
    const state = actions.page.getByLabel("state");
    await state.selectOption("complete: success");
    await showsRows(["export-2"]);
    await state.selectOption("not complete");
    await showsRows(["export-1"]);
    await actions.page.waitForURL(/match=export-\*&state=unfinished/);
    await assertFits("filtered batches");
    await text.fill("unknown");
    await actions.page.getByText("None matches.").waitFor();
    await open("#/schedules?state=paused");
    await showsRows(["nightly"]);
    assert.equal(await state.inputValue(), "paused");
    await state.selectOption("any");
    await actions.page.getByRole("searchbox", { name: "Text in name or tube" }).fill("report");
    await showsRows(["hourly", "nightly"]);
  });

  it("goes on with a filtered list where nothing was found yet", async () => {
    const { page } = actions;
    await page.route(/v1\/schedules\?/, async (route) => {
      const isLater = route.request().url().includes("cursor=next");
      if (isLater) await route.continue({ url: `${actions.base}/v1/schedules?match=beat` });
      else await route.fulfill({ json: { items: [], cursor: "next" } });
    });
    try {
      await open("#/schedules?match=beat");
      await page.getByText("None of those examined so far matches.").waitFor();
      await button("Look further").click();
      await showsRows(["beat"]);
    } finally {
      await page.unroute(/v1\/schedules\?/);
    }
  });

  it("shows the members of a batch by tube and state, failed ones, and jobs that wait", async () => {
    await open("#/batches/import-7");
    const { page } = actions;
    const table = (name: string) => page.getByRole("region", { name });
    await table("Members by tube and state").getByRole("row", { name: "rows 1 1 0 1 0" }).waitFor();
    await table("Members by tube and state").getByRole("row", { name: "calls-dead 1 0 0 0 1" }).waitFor();
    const troubled = table("Failed and buried members, as a table");
    await troubled.getByRole("row", { name: `${buried} rows buried: no such customer` }).waitFor();
    await troubled.getByRole("row", { name: `${dead} calls-dead attempts used up: no answer` }).waitFor();
    await page.getByText("1 failed member is gone").waitFor();
    const waiting = table("Jobs that wait for it, as a table");
    await waiting.getByRole("row", { name: "follow-ups if no member fails" }).waitFor();
    await waiting.getByRole("row", { name: "clean-up when the batch is complete" }).waitFor();
    // The list of the tube shows these jobs only, and so do its actions.
    await table("Members by tube and state")
      .getByRole("row", { name: "rows" })
      .getByRole("link", { name: "1" })
      .last()
      .click();
    await page.getByText("All buried jobs of the batch import-7, 1:").waitFor();
    await assertFits("a tube's jobs of a batch");
    await button("Clear…").click();
    await dialog().getByText(`Delete 2 jobs of rows of the batch import-7?`).waitFor();
    await inDialog("Cancel").click();
    await button("Remove this filter").click();
    await page.getByRole("link", { name: buried }).click();
    await page.getByText("member of").waitFor();
    await page.getByRole("link", { name: "import-7" }).click();
    await page.getByRole("heading", { name: "import-7" }).waitFor();
  });

  it("commits a batch and cancels it with keys alone, and says beforehand what will happen", async () => {
    const { page } = actions;
    const focus = async (name: string): Promise<void> => {
      for (let presses = 0; presses < 50; presses++) {
        await page.keyboard.press("Tab");
        if (await page.evaluate(`document.activeElement.textContent.trim() === ${JSON.stringify(name)}`))
          return;
      }
      assert.fail(`no way to ${name}`);
    };
    await open("#/");
    await page.keyboard.type("gb");
    await showsRows(["export-2", "export-1", "import-7"]);
    await page.keyboard.type("jjj");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "import-7" }).waitFor();
    await focus("Commit…");
    await page.keyboard.press("Enter");
    await dialog()
      .getByText(
        /It has 5 members and will take no more. It will be complete when no member is open; 3 are now\./,
      )
      .waitFor();
    await dialog()
      .getByText(
        /1 job that waits for its success will be buried\. 1 job that waits for its end will be ready\./,
      )
      .waitFor();
    await focus("Commit the batch");
    await page.keyboard.press("Enter");
    await told("The batch import-7 is committed.");
    await focus("Cancel…");
    await page.keyboard.press("Enter");
    await dialog()
      .getByText(
        "2 members will be deleted; you can't undo this. 1 member is with a worker, and ends when it is done.",
      )
      .waitFor();
    await focus("Cancel the batch");
    await page.keyboard.press("Enter");
    await told("The batch import-7 is cancelled. Workers still hold 1 job of it.");
    await ask(`delete ${held}`);
    await page.getByText("complete: cancelled").waitFor();
    assert.equal(await button("Cancel…").count(), 0);
    await page.getByText("forgotten in").waitFor();
  });

  it("says that there is no such batch or schedule, and shows the one that comes next", async () => {
    const { page } = actions;
    await open("#/batches/unknown");
    await page.getByText("There is no such batch").waitFor();
    await assertFits("no such batch");
    await open("#/batches/export-1");
    await page
      .getByText("It has")
      .or(page.getByText("opened", { exact: true }))
      .first()
      .waitFor();
    await open("#/schedules/unknown");
    await page.getByText("There is no such schedule").waitFor();
    await page.getByRole("link", { name: "All schedules" }).click();
    await showsRows(["beat", "hourly", "nightly"]);
  });

  it("shows a schedule, its next runs and what became of the last, and runs, pauses and resumes it", async () => {
    const { page } = actions;
    await ask("set-schedule ticking ticks 0 0 60 2 every=1\r\n{}");
    await open("#/schedules/ticking");
    await page
      .getByText(/^Job \d+ is$/)
      .or(page.getByRole("link", { name: /^Job \d+$/ }))
      .first()
      .waitFor();
    await ask("delete-schedule ticking");
    await page.getByText("There is no such schedule").waitFor();

    await open("#/schedules/hourly");
    await page.getByText("every 1 h").waitFor();
    assert.equal(await page.getByRole("region", { name: "Next runs" }).getByRole("listitem").count(), 5);
    await page.getByText("It has put no job yet.").waitFor();
    await page.getByText("tenant: acme").waitFor();
    await page.getByText("no job", { exact: true }).waitFor();
    await page.getByLabel("Body", { exact: true }).last().getByText("{}").waitFor();
    await button("Run now…").click();
    await inDialog("Run now").click();
    await told(/has put job \d+ into reports/);
    await button("Pause…").click();
    await inDialog("Pause").click();
    await page.getByText("Paused: it puts no jobs until somebody resumes it.").waitFor();
    await assertFits("a paused schedule");
    await button("Resume…").click();
    await inDialog("Resume").click();
    await button("Pause…").waitFor();
  });

  it("says why a schedule is late, and what helps, on its page and on the overview", async () => {
    const { page } = actions;
    await ask("set-tube full max-jobs=1");
    await put("full", "");
    await ask("set-schedule refused full 0 0 60 2 cron=*_*_*_*_*_* missed=all\r\n{}");
    await open("#/schedules/refused");
    await page.getByText(/^Late by \d+ s: its tube is full\. Start its workers/).waitFor();
    await assertFits("a late schedule");
    await open("#/");
    await page
      .getByRole("listitem")
      .filter({ hasText: /schedule refused: late by \d+ s: its tube is full/ })
      .waitFor();
    await ask("delete-schedule refused");
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
