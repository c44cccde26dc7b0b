// Tests of the dashboard's actions, each confirmed and cancelled, on a real server; and of which
// users don't see them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, actions", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, callOff, told, statsTube, fill } = actions;

  it("changes priority, delay and ttr of jobs", async () => {
    const id = await fill("changed", 2);
    await actions.page.goto(`${actions.base}/#/jobs/${id}`);
    await callOff("Update…");
    await button("Update…").click();
    await dialog().getByText("Update 1 job of changed?").waitFor();
    await inDialog("Update 1 job").click();
    await dialog().getByText("Give at least one of them.").waitFor();
    await dialog().getByLabel("Priority").fill("5");
    await dialog().getByLabel("Time to run").fill("77");
    await inDialog("Update 1 job").click();
    await told("1 job of changed is updated.");
    assert.match(`${(await actions.client.ask(`stats-job ${id}`)).body}`, /pri: 5\n.*ttr: 77\n/s);
    assert.match(`${(await actions.client.ask(`stats-job ${id - 1}`)).body}`, /pri: 0\n.*ttr: 60\n/s);
  });

  it("shows a refusal in the dialog, and keeps what was typed", async () => {
    await actions.page.goto(`${actions.base}/#/tubes/put-here`);
    await button("Put a job…").click();
    await dialog().getByLabel("Tube").fill("-bad");
    await dialog().getByLabel("Body").fill("kept");
    await inDialog("Put").click();
    await dialog().getByRole("alert").getByText("not a valid tube name").waitFor();
    assert.equal(await dialog().getByLabel("Body").inputValue(), "kept");
    await actions.page.keyboard.press("Escape");
  });

  it("pauses and resumes a tube", async () => {
    await fill("paused", 1);
    await actions.page.goto(`${actions.base}/#/tubes/paused`);
    await callOff("Pause…", true);
    assert.equal(await statsTube("paused", "pause"), 0);
    await button("Pause…").click();
    await dialog().getByLabel("Seconds").fill("3600");
    await inDialog("Pause").click();
    await told(/paused is paused for 60 min/);
    assert.equal(await statsTube("paused", "pause"), 3600);
    await callOff("Resume…");
    assert.equal(await statsTube("paused", "pause"), 3600);
    await button("Resume…").click();
    await inDialog("Resume").click();
    await told(/no longer paused/);
    assert.equal(await statsTube("paused", "pause"), 0);
    await button("Pause…").waitFor();
  });

  it("pauses a tube until it is resumed, and resumes it whatever setting pauses it", async () => {
    const { client, page, base } = actions;
    await fill("halted", 1);
    await fill("halted-too", 1);
    const settingsOf = async (tube: string): Promise<string> =>
      `${(await client.ask(`inspect-tube ${tube}`)).body}`
        .match(/^paused\S*: \S+$/gm)
        ?.join(" ")
        .replaceAll('"', "") ?? "";
    const notice = page.getByText("Paused: workers get no jobs of halted until someone resumes it");
    const pauseLasting = async (): Promise<void> => {
      await button("Pause…").click();
      await dialog().getByLabel("Until someone resumes").check();
      assert.equal(await dialog().getByLabel("Seconds").count(), 0);
      await assertAccessible(page, "a lasting pause");
      await inDialog("Pause").click();
    };
    const resume = async (): Promise<void> => {
      await button("Resume…").click();
      await inDialog("Resume").click();
      await told("halted is no longer paused.");
      await button("Pause…").waitFor();
      assert.doesNotMatch(await settingsOf("halted"), /yes/);
      assert.equal(await statsTube("halted", "pause"), 0);
    };
    await page.goto(`${base}/#/tubes/halted`);
    await pauseLasting();
    await told("halted is paused until someone resumes it.");
    await notice.waitFor();
    assert.equal(await settingsOf("halted"), "paused: yes paused-from: halted");
    // Both kinds at once, and a pattern as well.
    await client.ask("pause-tube halted 1000");
    await client.ask("set-tube halt* paused=yes");
    await resume();
    assert.equal(await settingsOf("halted"), "paused: no paused-from: halted");
    await client.ask("set-tube halted paused=");
    await page
      .getByText("Paused: workers get no jobs of halted until someone resumes it, since halt* is paused")
      .waitFor();
    await page.goto(`${base}/#/tubes?match=halted&sort=name`);
    await page
      .getByRole("rowheader", { name: "halted ◷ paused" })
      .getByTitle("paused until it is resumed")
      .waitFor();
    await page.goto(`${base}/#/`);
    await page.getByRole("listitem").filter({ hasText: "halted-too: paused, with 1 ready" }).waitFor();
    await page.goto(`${base}/#/tubes/halted`);
    await button("Resume…").click();
    await dialog().getByText("The setting “paused” of halt* pauses it.").waitFor();
    await inDialog("Cancel").click();
    await resume();
    assert.equal(await settingsOf("halted-too"), "paused: yes paused-from: halt*");
    await client.ask("set-tube halt* paused=");
    await client.ask("set-tube halted paused=");
    await page.goto(`${base}/#/tubes?match=halted*&sort=name`);
    await page.getByLabel("All shown").check();
    await pauseLasting();
    await told("2 tubes are paused until someone resumes them.");
    assert.equal(await settingsOf("halted-too"), "paused: yes paused-from: halted-too");
  });

  it("kicks delayed or buried jobs, and counts them first", async () => {
    await fill("kicked", 3, { delay: 3600 });
    await actions.page.goto(`${actions.base}/#/tubes/kicked`);
    await callOff("Kick…");
    await button("Kick…").click();
    await dialog().getByText("kicked has none.").waitFor();
    assert.ok(await inDialog("Kick 0 jobs").isDisabled());
    await dialog().getByLabel("delayed").check();
    await dialog().getByText("Kick 3 jobs of kicked?").waitFor();
    assert.equal(await statsTube("kicked", "current-jobs-delayed"), 3);
    await inDialog("Kick 3 jobs").click();
    await told("3 jobs of kicked are ready again.");
    assert.equal(await statsTube("kicked", "current-jobs-ready"), 3);
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
