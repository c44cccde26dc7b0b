// Tests of what the dashboard shows and does while jobs and tubes change behind it, in Chromium: a
// search through very many jobs, a body that a put replaces, tubes that vanish, jobs that a kick
// doesn't reach.

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";

/** More than a page of a list looks at. */
const MANY_JOBS = 210_000;
const PUTS_AT_ONCE = 15_000;

describe("dashboard, what changes", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, told, statsTube, fill } = actions;

  const putInTube = async (tube: string, body: string, options: string): Promise<string> =>
    (await actions.client.ask(`put-in-tube ${tube} 0 0 60 ${body.length} ${options}\r\n${body}`)).line;

  beforeEach(() => actions.closeDialogs());

  it("looks on by itself while a search has found nothing", async () => {
    await actions.client.ask("use haystack");
    for (let left = MANY_JOBS; left > 0; left -= PUTS_AT_ONCE) {
      actions.client.send("put 0 0 60 3\r\nhay\r\n".repeat(PUTS_AT_ONCE));
      for (let i = 0; i < PUTS_AT_ONCE; i++) await actions.client.readReply(60_000);
    }
    await actions.client.put("a needle");
    for (const hash of ["#/find?text=needle", "#/tubes/haystack?text=needle"]) {
      await actions.page.goto(`${actions.base}/#/server`);
      let asked = 0;
      const count = (request: { url(): string }): void => {
        if (/\/jobs\?.*text=needle/.test(request.url())) asked++;
      };
      actions.page.on("request", count);
      await actions.page.goto(`${actions.base}/${hash}`);
      await actions.page.getByRole("row", { name: /a needle/ }).waitFor();
      actions.page.off("request", count);
      assert.ok(asked >= 2 && asked <= 20, `${asked} requests`);
    }
  });

  it("shows the body that a put has replaced", async () => {
    const put = (body: string) => putInTube("latest", body, "unique=k on-duplicate=replace");
    const id = (await put("the first body")).split(" ")[1];
    await actions.page.goto(`${actions.base}/#/jobs/${id}`);
    const body = actions.page.getByRole("region", { name: "Body", exact: true });
    await body.getByText("the first body").waitFor();
    assert.equal(await put("another"), `REPLACED ${id}`);
    await body.getByText("another").waitFor();
  });

  it("pauses and clears those of the selected tubes that are still there", async () => {
    const names = ["leave-b", "stay-a", "stay-c"];
    /** Selects the tubes, of which the first one vanishes then. */
    const select = async (): Promise<void> => {
      for (const tube of names) await fill(tube, 1);
      await actions.client.ask("use default");
      await actions.page.goto(`${actions.base}/#/tubes?sort=name`);
      for (const tube of names) await actions.page.getByRole("checkbox", { name: tube }).check();
      await actions.client.ask("clear-tube leave-b");
    };
    await select();
    await button("Pause…").click();
    await inDialog("Pause").click();
    await told("2 tubes are paused for 10 min. 1 is gone.");
    assert.equal(await statsTube("stay-c", "pause"), 600);
    await select();
    await button("Clear…").click();
    await dialog().getByText("Delete 4 jobs of 3 tubes?").waitFor();
    await inDialog("Delete 4 jobs").click();
    await told("4 jobs of 3 tubes are deleted.");
  });

  it("offers to kick no job that waits for a batch", async () => {
    await actions.client.ask("open-batch rows");
    for (let jobs = 0; jobs < 2; jobs++) await putInTube("called-back", "x", "after=rows");
    await fill("called-back", 1, { delay: 3600 });
    await actions.page.goto(`${actions.base}/#/tubes/called-back`);
    await button("Kick…").click();
    await dialog().getByRole("checkbox", { name: "delayed" }).check();
    await dialog().getByText("Kick 1 job of called-back?").waitFor();
    await inDialog("Kick 1 job").click();
    await told("1 job of called-back is ready again.");
  });

  it("causes no error, no refused content and no request to another host", () => {
    const isGone = (wrong: string): boolean => wrong.includes("404") && wrong.includes("/leave-b/");
    assert.deepEqual(
      actions.wrongs.filter((wrong) => !isGone(wrong)),
      [],
    );
  });
});
