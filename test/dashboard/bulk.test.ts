// Tests of actions on many jobs or tubes at once, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Locator } from "playwright-core";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, bulk", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, callOff, told, statsTube, fill } = actions;

  it("clears chosen states of a tube; from 100 jobs on the user types its name", async () => {
    await fill("cleared", 120);
    await fill("cleared", 2, { delay: 3600 });
    await actions.page.goto(`${actions.base}/#/tubes/cleared`);
    await callOff("Clear…");
    await button("Clear…").click();
    await dialog().getByText("Delete 122 jobs of cleared?").waitFor();
    assert.ok(await inDialog("Delete 122 jobs").isDisabled());
    await dialog().getByLabel("delayed").uncheck();
    await dialog().getByText("Delete 120 jobs of cleared?").waitFor();
    await dialog()
      .getByLabel(/type cleared/)
      .fill("clear");
    assert.ok(await inDialog("Delete 120 jobs").isDisabled());
    await dialog()
      .getByLabel(/type cleared/)
      .fill("cleared");
    await inDialog("Delete 120 jobs").click();
    await told("120 jobs of cleared are deleted.");
    assert.equal(await statsTube("cleared", "current-jobs-ready"), 0);
    assert.equal(await statsTube("cleared", "current-jobs-delayed"), 2);
    await button("Clear…").click();
    await inDialog("Delete 2 jobs").click();
    await told("2 jobs of cleared are deleted.");
  });

  it("moves and copies jobs to another tube", async () => {
    await fill("from-here", 3);
    await actions.page.goto(`${actions.base}/#/tubes/from-here`);
    await callOff("Move…");
    await button("Move…").click();
    await dialog().getByText("Move 3 jobs of from-here?").waitFor();
    await dialog()
      .getByLabel(/Copy them/)
      .check();
    await dialog().getByLabel("To the tube").fill("copied-there");
    await inDialog("Copy 3 jobs").click();
    await told("3 jobs of from-here are copied.");
    assert.equal(await statsTube("from-here", "current-jobs-ready"), 3);
    assert.equal(await statsTube("copied-there", "current-jobs-ready"), 3);
    await button("Move…").click();
    await dialog().getByLabel("To the tube").fill("moved-there");
    await inDialog("Move 3 jobs").click();
    await told("3 jobs of from-here are moved.");
    assert.equal(await statsTube("moved-there", "current-jobs-ready"), 3);
  });

  it("applies filters that the user types one after the other, and clears only what matches", async () => {
    await fill("filtered", 3);
    for (const pri of [7, 8, 9]) await actions.client.put("x", { pri });
    await actions.page.goto(`${actions.base}/#/tubes/filtered?state=ready`);
    const field = (label: string | RegExp): Locator => actions.page.locator("main").getByLabel(label);
    // Faster than the pause after which a filter counts.
    await field("pri from").pressSequentially("7");
    await actions.page.keyboard.press("Tab");
    await actions.page.keyboard.type("8");
    await actions.page.getByText("All ready jobs with a priority from 7 and a priority up to 8").waitFor();
    await button("Clear…").first().click();
    await dialog()
      .getByText("Delete 2 jobs of filtered with a priority from 7 and a priority up to 8?")
      .waitFor();
    await inDialog("Delete 2 jobs").click();
    await told("2 jobs of filtered are deleted.");
    assert.equal(await statsTube("filtered", "current-jobs-ready"), 4);
    await actions.page.goto(`${actions.base}/#/tubes/filtered?state=ready`);
    await actions.page.getByPlaceholder("text in the body").pressSequentially("job 1");
    await button("Clear…").first().click();
    await dialog().getByText("Delete 1 job of filtered with “job 1” in the body?").waitFor();
    await inDialog("Cancel").click();
  });

  it("changes only the selected jobs", async () => {
    const last = await fill("chosen", 6);
    await actions.page.goto(`${actions.base}/#/tubes/chosen`);
    const chosen = actions.page.getByRole("group", { name: "Actions on jobs" });
    await actions.page.getByLabel(`Job ${last - 1}`).check();
    await actions.page.getByLabel(`Job ${last - 3}`).check();
    await chosen.getByText("2 selected").waitFor();
    await assertAccessible(actions.page, "selected jobs");
    await chosen.getByRole("button", { name: "Delete…" }).click();
    await dialog().getByText("Delete 2 jobs of chosen?").waitFor();
    await inDialog("Delete 2 jobs").click();
    await told("2 jobs of chosen are deleted.");
    await chosen.waitFor({ state: "detached" });
    await actions.page.getByLabel(`Job ${last - 1}`).waitFor({ state: "detached" });
    for (const [id, line] of [
      [last - 1, "NOT_FOUND"],
      [last - 3, "NOT_FOUND"],
      [last - 2, /^FOUND/],
      [last, /^FOUND/],
    ] as const)
      assert.match((await actions.client.ask(`peek ${id}`)).line, new RegExp(line));
    // Without a selection it is all that the filters leave.
    await actions.page.getByPlaceholder("text in the body").fill("job 5");
    await chosen.getByText("All ready jobs with “job 5” in the body").waitFor();
    // So do the actions of the tube.
    await button("Clear…").click();
    await dialog().getByText("Delete 1 job of chosen with “job 5” in the body?").waitFor();
    await inDialog("Cancel").click();
    await chosen.getByRole("button", { name: "Delete…" }).click();
    await inDialog("Delete 1 job").click();
    await told("1 job of chosen is deleted.");
    assert.equal(await statsTube("chosen", "current-jobs-ready"), 3);
  });

  it("changes only the selected tubes, also by keys", async () => {
    for (const tube of ["several-a", "several-b", "several-c"]) await fill(tube, 2);
    await actions.page.goto(`${actions.base}/#/tubes?match=several-*&sort=name`);
    await actions.page.getByRole("link", { name: "several-a" }).waitFor();
    await actions.page.keyboard.type("jx");
    await actions.page.getByText("1 selected").waitFor();
    await actions.page.keyboard.type("jx");
    await actions.page.getByText("2 selected").waitFor();
    await assertAccessible(actions.page, "selected tubes");
    await callOff("Clear…");
    await actions.page.getByText("2 selected").waitFor();
    await button("Clear…").click();
    await dialog().getByText("Delete 4 jobs of 2 tubes?").waitFor();
    await inDialog("Delete 4 jobs").click();
    await told("4 jobs of 2 tubes are deleted.");
    assert.equal(await statsTube("several-a", "current-jobs-ready"), -1);
    assert.equal(await statsTube("several-c", "current-jobs-ready"), 2);
    await actions.page.getByRole("link", { name: "several-b" }).waitFor({ state: "detached" });
    await actions.page.getByLabel("All shown").check();
    await button("Pause…").click();
    await dialog().getByLabel("Seconds").fill("60");
    await inDialog("Pause").click();
    await told("several-c is paused for 60 s.");
    assert.equal(await statsTube("several-c", "pause"), 60);
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
