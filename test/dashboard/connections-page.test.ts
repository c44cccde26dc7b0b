// Tests of the page of connections, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, connections", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { connect, dialog, button, inDialog, callOff, told, statsTube, fill } = actions;

  it("lists connections, filters them, and closes one", async () => {
    const waiting = await connect();
    await waiting.ask("watch nothing-here");
    waiting.send("reserve\r\n");
    const holder = await connect();
    await holder.ask("name mailer-3");
    const id = await fill("held", 1);
    await holder.ask("watch held");
    await holder.ask("reserve-with-timeout 5");
    await actions.page.goto(`${actions.base}/#/connections`);
    await actions.page.getByRole("link", { name: `${id}`, exact: true }).waitFor();
    await assertAccessible(actions.page, "connections");
    await button("waiting").click();
    await actions.page.getByText("waits for a job").waitFor();
    await actions.page.getByRole("link", { name: `${id}`, exact: true }).waitFor({ state: "detached" });
    await button("holding").click();
    await actions.page.getByRole("link", { name: `${id}`, exact: true }).waitFor();
    await callOff("Close the connection from");
    await button("Close the connection from").click();
    await dialog()
      .getByText(/of mailer-3, 127\.0\.0\.1:\d+ closes/)
      .waitFor();
    await dialog().getByText("The 1 job that it holds becomes ready again").waitFor();
    await inDialog("Close it").click();
    await told("Closed the connection");
    await eventually(
      () => "the job of the closed connection is not ready",
      async () => ((await statsTube("held", "current-jobs-ready")) === 1 ? true : undefined),
    );
    await actions.page.getByText("No such connection").waitFor();
    await button("closed").click();
    await actions.page.getByText("a user closed it").first().waitFor();
    await assertAccessible(actions.page, "closed connections");
    waiting.close();
    holder.close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
