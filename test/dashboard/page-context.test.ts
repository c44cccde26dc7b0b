// Tests of the dashboard with tokens: signing in and out, and what each role sees.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { newToken } from "../support/server/guarded-server.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { GuardedDashboard } from "./guarded-dashboard.ts";
import { assertAccessible, openPage } from "./watched-page.ts";

const tokens = {
  monitor: newToken("grafana", "monitor"),
  viewer: newToken("eyes", "viewer"),
  operator: newToken("person", "operator"),
  limited: newToken("limited", "operator tubes=mail-*,sms"),
  gone: newToken("gone", "viewer"),
};
/** A browser says so of each answer that refuses something. */
const REFUSALS = /status of 40[134]/;

describe("dashboard, roles", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const wrongs: string[] = [];
  const lines = Object.values(tokens).map(({ line }) => line);
  const dashboard = new GuardedDashboard("dashboard-roles", lines, wrongs, REFUSALS);
  const { enter } = dashboard;
  let id: string;
  let client: WireClient;

  before(async () => {
    client = await WireClient.connect({ port: dashboard.guarded.server.port, host: "127.0.0.1" });
    await client.ask("use mail-eu");
    id = (await client.put("a secret body")).line.split(" ")[1]!;
  });
  after(() => client.close());

  it("shows only a sign-in form without a token, and explains a wrong token", async () => {
    const context = await dashboard.browser.newContext({ viewport: { width: 360, height: 800 } });
    const page = await openPage(
      dashboard.browser,
      `${dashboard.base}/#/tubes`,
      wrongs,
      { context },
      REFUSALS,
    );
    assert.equal(await page.locator("nav").count(), 0);
    await assertAccessible(page, "the form");
    await page.getByLabel("Token").fill("rb1_wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("This token is unknown").waitFor();
    await assertAccessible(page, "the form, with a fault");
    // The address stays, so after signing in the user sees the requested page.
    await page.getByLabel("Token").fill(tokens.viewer.secret);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "mail-eu" }).waitFor();
    await assertAccessible(page, "signed in");
    const [cookie] = await context.cookies();
    assert.ok(cookie!.httpOnly && cookie!.sameSite === "Strict");
    assert.equal(await page.evaluate("Object.values(localStorage).join() + document.cookie"), "");
    await context.close();
  });

  it("shows the signed-in name after a reload and in a second tab, and forgets all at a sign-out", async () => {
    const page = await enter(tokens.viewer.secret, "#/tubes");
    await page.getByText("eyes viewer").waitFor();
    await page.reload();
    await page.getByText("eyes viewer").waitFor();
    const other = await openPage(
      dashboard.browser,
      `${dashboard.base}/#/tubes`,
      wrongs,
      { context: page.context() },
      REFUSALS,
    );
    await other.getByRole("link", { name: "mail-eu" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    assert.equal(await page.getByText("mail-eu").count(), 0);
    // Its stream ends with the session.
    await other.getByLabel("Token").waitFor();
    assert.equal(await page.evaluate("fetch('v1/tubes').then(({ status }) => status)"), 401);
    await page.context().close();
  });

  it("forgets open dialogs and what it was told, when the session ends in another tab", async () => {
    const page = await enter(tokens.operator.secret, `#/jobs/${id}`);
    await page.getByRole("button", { name: "Put again…" }).click();
    const body = page.getByRole("dialog").getByLabel("Body");
    assert.equal(await body.inputValue(), "a secret body");
    await page.evaluate("fetch('v1/session', { method: 'DELETE' })");
    await page.getByLabel("Token").waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
    // Signing in needs no click.
    await page.keyboard.type(tokens.monitor.secret);
    await page.keyboard.press("Enter");
    await page.getByText("Your role can't see the bodies").waitFor();
    await page.context().close();
  });

  it("neither shows nor searches bodies without the permission", async () => {
    const page = await enter(tokens.monitor.secret, `#/jobs/${id}`);
    await page.getByText("Your role can't see the bodies").waitFor();
    assert.equal(await page.getByRole("link", { name: "Download" }).count(), 0);
    assert.ok(!(await page.content()).includes("a secret body"));
    await page.goto(`${dashboard.base}/#/tubes/mail-eu?text=secret`);
    await page.getByText('needs the permission "bodies"').waitFor();
    assert.equal(await page.getByPlaceholder("text in the body").count(), 0);
    await page.context().close();
    const eyes = await enter(tokens.viewer.secret, `#/tubes/mail-eu?text=secret`);
    await eyes.getByText("a secret body").waitFor();
    await eyes.context().close();
  });

  it("leads a limited token to its tubes", async () => {
    const page = await enter(tokens.limited.secret);
    await page.getByText("is limited to some tubes").waitFor();
    await assertAccessible(page, "not permitted");
    await page.getByPlaceholder("name of a tube").fill("mail-eu");
    await page.keyboard.press("Enter");
    await page.getByText("a secret body").waitFor();
    for (const path of [
      "v1/events?get=/v1/tubes/default",
      "v1/events?get=/v1/tubes/mail-eu&get=/v1/tubes/default",
      "v1/events?get=/v1/tubes/-%3Ftube=default",
      "v1/events?get=/v1/tubes",
      "v1/events?get=/v1/server",
      `v1/jobs/${id}?tube=mail-eu`,
    ])
      assert.equal(await page.evaluate(`fetch("${path}").then(({ status }) => status)`), 403, path);
    // Settings are of all tubes whose names begin alike, and dead jobs may go back to any tube.
    await page.getByRole("heading", { name: "Settings" }).waitFor();
    assert.equal(await page.getByRole("button", { name: /Change…|Redrive…/ }).count(), 0);
    await page.getByRole("button", { name: "Pause…" }).click();
    await page.getByLabel("Seconds").waitFor();
    assert.equal(await page.getByRole("checkbox", { name: "Until someone resumes it" }).count(), 0);
    await page.keyboard.press("Escape");
    await client.ask("set-tube mail-eu paused=yes");
    await page.getByRole("button", { name: "Resume…", disabled: true }).waitFor();
    await client.ask("set-tube mail-eu paused=");
    await page.getByRole("button", { name: "Pause…" }).waitFor();
    // Tasks of the user's own tube are visible, those of other tubes are not.
    await page.getByRole("button", { name: "Kick…" }).click();
    await page.getByText("mail-eu has none").waitFor();
    await page.keyboard.press("Escape");
    const task = async (secret: string, tube: string): Promise<number> => {
      const headers = {
        authorization: `Bearer ${secret}`,
        "content-type": "application/json",
        prefer: "respond-async",
      };
      const path = `${dashboard.base}/v1/tubes/${tube}/clear`;
      const answer = await fetch(path, {
        method: "POST",
        headers,
        body: '{"states":["buried"],"dryRun":true}',
      });
      return answer.status;
    };
    assert.ok((await task(tokens.operator.secret, "default")) < 300);
    assert.ok((await task(tokens.limited.secret, "mail-eu")) < 300);
    const list = await fetch(`${dashboard.base}/v1/tasks`, {
      headers: { authorization: `Bearer ${tokens.operator.secret}` },
    });
    const { items } = (await list.json()) as { items: { id: string; tube: string }[] };
    for (const { id: number, tube } of items)
      assert.equal(
        await page.evaluate(`fetch("v1/tasks/${number}").then(({ status }) => status)`),
        tube === "mail-eu" ? 200 : 404,
        tube,
      );
    assert.deepEqual([...new Set(items.map(({ tube }) => tube))].sort(), ["default", "mail-eu"]);
    await page.context().close();
  });

  it("ends the session with its token", async () => {
    const page = await enter(tokens.gone.secret, "#/tubes/mail-eu");
    await page.getByText("a secret body").waitFor();
    const left = Object.values(tokens).filter((token) => token !== tokens.gone);
    writeFileSync(dashboard.guarded.tokenFile, left.map(({ line }) => line).join(""), { mode: 0o600 });
    dashboard.guarded.server.child.kill("SIGHUP");
    await untilItSays(dashboard.guarded.server, /configuration read again/);
    await page.getByLabel("Token").waitFor();
    assert.equal(await page.getByText("a secret body").count(), 0);
    await page.context().close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(wrongs, []);
  });
});
