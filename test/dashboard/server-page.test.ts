// Tests of the server page, and of what a token may do on it, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage, tokens } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";

describe("dashboard, actions", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { enter, dialog, button, inDialog, callOff, told, statsTube, fill } = actions;

  it("reloads the configuration", async () => {
    await actions.page.goto(`${actions.base}/#/server`);
    const ports = actions.page.locator(".facts div", { hasText: "listens on" }).getByRole("listitem");
    assert.match((await ports.first().textContent())!, /^127\.0\.0\.1:\d+ beanstalkd, no TLS, no token$/);
    assert.equal(await ports.last().textContent(), `${actions.base} no TLS, tokens`);
    await callOff("Reload…");
    await button("Reload…").click();
    await inDialog("Reload").click();
    await told("Nothing has changed.");
  });

  it("puts a job again, and drains the server", async () => {
    const id = await fill("again", 1);
    await actions.page.goto(`${actions.base}/#/jobs/${id}`);
    await button("Put again…").click();
    await dialog().getByText("5 bytes").waitFor();
    await inDialog("Put").click();
    await told(/Put as job \d+ into again/);
    assert.equal(await statsTube("again", "current-jobs-ready"), 2);
    await actions.page.goto(`${actions.base}/#/server`);
    await callOff("Drain…");
    await button("Drain…").click();
    await inDialog("Drain").click();
    await told("accepts no new jobs");
    assert.equal((await actions.client.put("x")).line, "DRAINING");
    await button("Accept new jobs again…").click();
    await inDialog("Accept new jobs").click();
    await told("accepts new jobs again");
    assert.match((await actions.client.put("x")).line, /^INSERTED/);
  });

  it("hides buttons that the token may not use", async () => {
    await fill("looked-at", 1);
    for (const [secret, onTube, onConnections] of [
      [tokens.viewer.secret, 0, 0],
      [tokens.operator.secret, 5, 0],
    ] as const) {
      const other = await enter(secret);
      await other.goto(`${actions.base}/#/tubes/looked-at`);
      await other.getByText("total puts").waitFor();
      assert.equal(await other.locator(".actions button:visible").count(), onTube);
      await other.getByRole("link", { name: /^\d+$/ }).waitFor();
      assert.equal(await other.locator("main table input").count(), onTube === 0 ? 0 : 2);
      await other.goto(`${actions.base}/#/connections`);
      await other.getByRole("table").waitFor();
      assert.equal(await other.getByRole("link", { name: "Audit" }).count(), onTube === 0 ? 0 : 1);
      assert.equal(await other.getByRole("button", { name: /^Close/ }).count(), onConnections);
      await other.context().close();
    }
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
