// Tests of the dialog that puts a job, and of its templates, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, put job", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, callOff, told, statsTube, fill } = actions;

  it("puts a job with everything that was typed", async () => {
    await fill("put-here", 1);
    await actions.page.goto(`${actions.base}/#/tubes/put-here`);
    await callOff("Put a job…");
    assert.equal(await statsTube("put-here", "total-jobs"), 1);
    await button("Put a job…").click();
    await dialog().getByLabel("Priority").fill("7");
    await dialog().getByLabel("Time to run").fill("30");
    await dialog().getByLabel("Body").fill('{"a": "ä\nb"');
    await dialog().getByText("no valid JSON").waitFor();
    await dialog().getByLabel("Body").fill('{"a": "ä"}\n');
    await dialog().getByText("12 bytes, valid JSON").waitFor();
    await inDialog("Put").click();
    const [, id] = /job (\d+) into put-here/.exec(await told(/Put as/))!;
    const { body } = await actions.client.ask(`peek ${id}`);
    assert.equal(`${body}`, '{"a": "ä"}\n');
    const stats = `${(await actions.client.ask(`stats-job ${id}`)).body}`;
    assert.match(stats, /pri: 7\n.*ttr: 30\n/s);
  });

  it("keeps templates of jobs in the browser, fills the dialog with one, and deletes it", async () => {
    await actions.page.goto(`${actions.base}/#/tubes/put-here`);
    await button("Put a job…").click();
    await dialog().getByLabel("Priority").fill("3");
    await dialog().getByLabel("Body").fill("of a template");
    await dialog().getByText("Keep this as a template").click();
    await inDialog("Keep").click();
    await dialog().getByText("Give the template a name.").waitFor();
    await dialog().getByLabel("Its name").fill("welcome");
    // Enter would put a job everywhere else.
    await actions.page.keyboard.press("Enter");
    await dialog().getByText("Saved as the template welcome").waitFor();
    await assertAccessible(actions.page, "templates");
    await actions.page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    await actions.page.reload();
    await button("Put a job…").click();
    await dialog().getByLabel("Template").selectOption("welcome");
    assert.equal(await dialog().getByLabel("Body").inputValue(), "of a template");
    await inDialog("Put").click();
    const [, id] = /job (\d+) into put-here/.exec(await told(/Put as/))!;
    assert.match(`${(await actions.client.ask(`stats-job ${id}`)).body}`, /pri: 3\n/);
    await button("Put a job…").click();
    await dialog().getByLabel("Template").selectOption("welcome");
    await inDialog("Delete the template").click();
    await dialog().getByLabel("Template").waitFor({ state: "detached" });
    await actions.page.keyboard.press("Escape");
    assert.equal(await statsTube("put-here", "total-jobs"), 3);
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
