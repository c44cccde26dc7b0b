// Tests of what the dashboard says of one job, and of the ways to it, in Chromium.

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, job", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { button, fill } = actions;

  // A test that has failed may have left a dialog, which would make all others fail.
  beforeEach(() => actions.closeDialogs());

  it("names a job that crashes its workers, and says on the page of its tube why it failed", async () => {
    await actions.client.ask("use crashes");
    const id = (await actions.client.put("poison")).line.split(" ")[1]!;
    await actions.page.goto(`${actions.base}/#/`);
    const entry = actions.page.getByRole("listitem").filter({ hasText: `job ${id} of crashes` });
    // The overview knows a tube's last ten minutes by steps of ten seconds.
    while (!(await entry.isVisible())) {
      const worker = await actions.connect();
      await worker.ask(`reserve-job ${id}`);
      worker.close();
    }
    await entry.getByText(/was reserved [\d,]+ times, and its worker's connection ended each time/).waitFor();
    await entry.getByText("With max-attempts, the tube buries such jobs.").waitFor();
    await actions.page.getByText(/0 timed out · [\d.]+ disconnected · /).waitFor();
    await entry.getByRole("link", { name: `job ${id} of crashes` }).click();
    await actions.page.getByRole("heading", { name: `Job ${id}` }).waitFor();
    await actions.page.goto(`${actions.base}/#/tubes/crashes`);
    const why = actions.page.getByRole("region", { name: "Why jobs failed", exact: true }).first();
    await why.getByRole("row", { name: /its worker's connection ended 1 ready .*127\.0\.0\.1/ }).waitFor();
    await assertAccessible(actions.page, "the tube of a job that crashes its workers");
    await actions.client.ask(`delete ${id}`);
  });

  it("shows how far a job is, and cancels it with a reason for its worker", async () => {
    await actions.client.ask("use films");
    const id = (await actions.client.put("a.mov")).line.split(" ")[1]!;
    const worker = await actions.connect();
    await worker.ask(`reserve-job ${id}`);
    await worker.ask(`touch-job ${id} progress=40 note=second%20pass`);
    await actions.page.goto(`${actions.base}/#/tubes/films?state=reserved`);
    const row = actions.page.getByRole("row", { name: /40 % second pass/ });
    await row.getByRole("link", { name: id }).click();
    await actions.page.getByRole("region", { name: "Progress" }).getByText("40 %").waitFor();
    await button("Cancel…").click();
    const dialog = actions.page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason" }).fill("wrong file");
    await dialog.getByRole("button", { name: "Cancel the job" }).click();
    await actions.page.getByText("its worker is told at its next touch-job").waitFor();
    await actions.page.getByText("cancelled: wrong file").waitFor();
    assert.equal(await button("Cancel…").count(), 0);
    assert.equal(await actions.page.getByText("expires in").count(), 0, "it has no time to live");
    await assertAccessible(actions.page, "the page of a cancelled job");
    assert.equal((await worker.ask(`touch-job ${id}`)).line, "TOUCHED cancelled=wrong%20file");
    worker.close();
    await actions.page.getByText("There is no such job").waitFor();
  });

  it("finds a job by its id, and a text in all tubes, from any page", async () => {
    const id = await fill("found-a", 1);
    for (const tube of ["found-a", "found-b"]) {
      await actions.client.ask(`use ${tube}`);
      await actions.client.put(`order of acme in ${tube}`);
    }
    await actions.page.goto(`${actions.base}/#/server`);
    await actions.page.getByRole("heading", { name: "Threads" }).waitFor();
    await actions.page.keyboard.press("f");
    await actions.page.keyboard.type(`${id}\n`);
    await actions.page.getByRole("heading", { name: `Job ${id}` }).waitFor();
    const field = actions.page.getByRole("searchbox", { name: "Job id, or text in any tube" });
    await field.fill("order of acme");
    await field.press("Enter");
    const list = actions.page.getByRole("region", { name: "List of jobs" });
    await list.getByRole("row", { name: /found-a.*order of acme in found-a/ }).waitFor();
    await list.getByRole("row", { name: /found-b.*order of acme in found-b/ }).waitFor();
    await assertAccessible(actions.page, "found jobs");
    await button("delayed").click();
    await actions.page.getByText("No job.").waitFor();
    await field.fill("found-b");
    await field.press("Enter");
    const names = actions.page.getByRole("region", { name: "Found tubes" });
    await names.getByRole("link", { name: "found-b" }).waitFor();
    await field.fill("999999999");
    await field.press("Enter");
    await actions.page.getByRole("link", { name: "Look for “999999999”" }).click();
    await actions.page.waitForURL(/#\/find\?text=999999999/);
  });

  it("lists the jobs of a tube that have ended, and shows one that is gone", async () => {
    const { client, page } = actions;
    await client.ask("set-tube ended keep-finished=10");
    const put = async (): Promise<string> =>
      (await client.ask("put-in-tube ended 0 0 60 1\r\nx")).line.split(" ")[1]!;
    const [done, cancelled, left] = [await put(), await put(), await put()];
    await client.ask(`reserve-job ${done}`);
    await client.ask(`touch-job ${done} note=second%20pass`);
    assert.equal((await client.ask(`delete ${done}`)).line, "DELETED");
    assert.equal((await client.ask(`cancel-job ${cancelled} reason=not%20needed`)).line, "CANCELLED");
    await page.goto(`${actions.base}/#/tubes/ended`);
    await page.getByRole("button", { name: "finished", exact: true }).click();
    const list = page.getByRole("region", { name: "List of finished jobs" });
    await list.getByRole("row", { name: new RegExp(`^${cancelled} cancelled .* not needed$`) }).waitFor();
    await list.getByRole("row", { name: new RegExp(`^${done} deleted .* second pass$`) }).waitFor();
    await assertAccessible(page, "finished jobs");
    await list.getByRole("link", { name: done, exact: true }).click();
    await page.getByText("The job is gone.").waitFor();
    await page.getByRole("region", { name: "Figures" }).getByText("second pass").waitFor();
    await assertAccessible(page, "a job that is gone");
    // The list outlives its tube.
    await client.ask(`delete ${left}`);
    await page.goto(`${actions.base}/#/tubes/ended`);
    await button("Its finished jobs").click();
    await list.getByRole("link", { name: left, exact: true }).waitFor();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
