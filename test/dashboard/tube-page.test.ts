// Tests of what an on-call person needs from the dashboard, in Chromium: what holds jobs up is
// visible at once, jobs are found over all tubes, and a change says beforehand what it will do.

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, on call", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, told, statsTube, fill } = actions;

  // A test that has failed may have left a dialog, which would make all others fail.
  beforeEach(() => actions.closeDialogs());

  /** Puts jobs that die at their first failure and go to a tube of their own. */
  async function die(tube: string, bodies: readonly string[]): Promise<void> {
    await actions.client.ask(`set-tube ${tube} max-attempts=1 dead-letter=${tube}-dead`);
    await actions.client.ask(`use ${tube}`);
    for (const body of bodies) {
      const id = (await actions.client.put(body)).line.split(" ")[1];
      await actions.client.ask(`reserve-job ${id}`);
      await actions.client.ask(`release ${id} 0 0 reason=SMTP%20550:%20no%20such%20user`);
    }
  }

  it("acts on a filter as typed when a key presses a button before it counts", async () => {
    await fill("by-key", 3);
    await actions.page.goto(`${actions.base}/#/tubes/by-key`);
    await actions.page.getByPlaceholder("text in the body").waitFor();
    // In the page and in one go, so that no way there and back lies in the pause. Keys press a
    // button by a click that no pointer precedes.
    await actions.page.evaluate(`{
      const filter = document.querySelector('main input[type="search"]');
      filter.value = "job 1";
      filter.dispatchEvent(new Event("input", { bubbles: true }));
      const clear = [...document.querySelectorAll("button")].find((each) => each.textContent.trim() === "Clear…");
      clear.focus();
      clear.click();
    }`);
    await dialog().getByText("Delete 1 job of by-key with “job 1” in the body?").waitFor();
    await inDialog("Cancel").click();
  });

  it("shows a paused tube at once: on the overview, in lists and on its page", async () => {
    await actions.client.ask("watch halted-long");
    await actions.client.ask("pause-tube halted-long 3600");
    await actions.page.goto(`${actions.base}/#/`);
    await actions.page.getByRole("listitem").filter({ hasText: "halted-long: paused" }).waitFor();
    await actions.page.getByRole("link", { name: "halted-long" }).first().click();
    const notice = actions.page.getByText(
      /Paused: workers get no jobs of halted-long for another 59 min\. None is ready\./,
    );
    await notice.waitFor();
    await assertAccessible(actions.page, "a paused tube");
    await button("Resume…").click();
    await inDialog("Resume").click();
    await told(/no longer paused/);
    await notice.waitFor({ state: "detached" });
  });

  it("redrives dead jobs that match a filter, and says beforehand how many", async () => {
    await actions.client.ask("name mailer-3");
    await die("mails", ["to acme", "to acme", "to globex"]);
    await actions.page.goto(`${actions.base}/#/`);
    const found = actions.page.getByRole("listitem").filter({ hasText: "3 ready in a dead-letter tube" });
    await found.getByText("Redrive on the page of the tube returns them").waitFor();
    await found.getByRole("link", { name: "mails-dead" }).click();
    await actions.page.getByText("A dead-letter tube: its jobs died elsewhere.").waitFor();
    const why = actions.page.getByRole("region", { name: "Why jobs failed" }).last();
    await why.getByRole("row", { name: /^SMTP 550: no such user 3 ready .* ago mailer-3$/ }).waitFor();
    await assertAccessible(actions.page, "failures of a tube");
    const list = actions.page.getByRole("region", { name: "List of jobs" });
    await list.getByText("SMTP 550: no such user").first().waitFor();
    await actions.page.getByPlaceholder("text in the body").fill("acme");
    await actions.page.waitForURL(/text=acme/);
    await button("Redrive…").click();
    await dialog().getByText("Redrive 2 jobs of mails-dead with “acme” in the body?").waitFor();
    const reasons = dialog().getByRole("region", { name: "Where they died, and why" });
    await reasons.getByRole("row", { name: /^mails attempts used up: SMTP 550: no such user 2 / }).waitFor();
    await assertAccessible(actions.page, "redrive");
    await inDialog("Redrive 2 jobs").click();
    await told("2 jobs of mails-dead are redriven.");
    assert.equal(await statsTube("mails", "current-jobs-ready"), 2);
    assert.equal(await statsTube("mails-dead", "current-jobs-ready"), 1);
    await actions.page.goto(`${actions.base}/#/tubes/mails-dead`);
    await list.getByRole("link").first().click();
    const last = actions.page.getByRole("region", { name: "Last failures, as a table" });
    await last
      .getByRole("row", { name: /^SMTP 550: no such user released by its worker 1 .* ago mailer-3$/ })
      .waitFor();
    await actions.page.getByText("mails: attempts used up").waitFor();
    await assertAccessible(actions.page, "failures of a job");
    await actions.page.goBack();
    await button("Redrive…").click();
    await inDialog("Redrive 1 job").click();
    await told("1 job of mails-dead is redriven.");
    assert.equal(await statsTube("mails", "current-jobs-ready"), 3);
  });

  it("shows why jobs died even if that comes late, and says so if it does not come", async () => {
    await die("late", ["to acme"]);
    const { page } = actions;
    await page.goto(`${actions.base}/#/tubes/late-dead`);
    const reasons = dialog().getByRole("region", { name: "Where they died, and why" });
    const row = reasons.getByRole("row", { name: /^late attempts used up: SMTP 550: no such user 1 / });
    const sample = /late-dead\/jobs\?dead=true/;
    let questions = 0;
    await page.route(sample, async (route) => {
      if (++questions === 1) await route.fulfill({ status: 409, json: { detail: "busy" } });
      else {
        // The dialog has drawn its count by then.
        await inDialog("Redrive 1 job").waitFor();
        await route.continue();
      }
    });
    try {
      await button("Redrive…").click();
      await dialog().getByText("The reasons why they died could not be loaded.").waitFor();
      await assertAccessible(page, "a redrive without its reasons");
      await inDialog("Try again").click();
      await row.waitFor();
      await inDialog("Cancel").click();
      // Anew, with nothing known yet.
      await page.reload();
      await button("Redrive…").click();
      await row.waitFor();
      await inDialog("Cancel").click();
    } finally {
      await page.unroute(sample);
    }
    assert.equal(questions, 3);
  });

  it("selects all jobs that match, and counts them", async () => {
    await fill("many-match", 120);
    await actions.page.goto(`${actions.base}/#/tubes/many-match`);
    await actions.page.getByLabel("All shown").check();
    const chosen = actions.page.getByRole("group", { name: "Actions on jobs" });
    await chosen.getByText("50 selected").waitFor();
    await chosen.getByRole("button", { name: "Select all 120" }).click();
    await chosen.getByText("All ready jobs, 120").waitFor();
    await actions.page.getByPlaceholder("text in the body").fill("job 1");
    await actions.page.waitForURL(/text=job\+1/);
    // job 1, 10 to 19, 100 to 119: known without a request, since they are all shown.
    await chosen.getByText("All ready jobs with “job 1” in the body, 31").waitFor();
    await actions.page.getByPlaceholder("text in the body").fill("job");
    await chosen.getByText("All ready jobs with “job” in the body, 120").waitFor();
    await chosen.getByRole("button", { name: "Delete…" }).click();
    await dialog().getByText("Delete 120 jobs of many-match with “job” in the body?").waitFor();
    await inDialog("Cancel").click();
  });

  it("draws charts on a logarithmic scale, and says so", async () => {
    const page = actions.page;
    await fill("charted", 2);
    for (const [hash, words] of [
      ["#/", "#failures-chart-words"],
      ["#/tubes/charted", "#states-chart-words"],
    ] as const) {
      await page.goto(`${actions.base}/${hash}`);
      await page.locator(words, { hasText: /^The last / }).waitFor();
      assert.doesNotMatch((await page.locator(words).textContent())!, /logarithmic/);
      await page.getByRole("button", { name: "Log scale" }).first().click();
      await page.waitForURL(/scale=log/);
      await page.locator(words, { hasText: "The scale is logarithmic above 1." }).waitFor();
      assert.equal(
        await page.getByRole("button", { name: "Log scale", pressed: true }).count(),
        hash === "#/" ? 1 : 2,
      );
    }
  });

  it("says in what time a tube will be empty", async () => {
    await fill("emptied", 3);
    await actions.page.goto(`${actions.base}/#/tubes/emptied`);
    const tile = actions.page.locator(".tile", { hasText: "empty in" });
    await tile.getByText(/∞|\d+ (?:s|min|h|days)/).waitFor();
    await actions.page.goto(`${actions.base}/#/tubes/charted`);
    await tile.getByText("it isn't shrinking").waitFor();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
