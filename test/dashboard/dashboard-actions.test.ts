// Tests of the dashboard's actions, each confirmed and cancelled, on a real server; and of which
// users don't see them.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED, openBrowser } from "./browser.ts";
import { assertAccessible, openPage } from "./watched-page.ts";

const tokens = {
  admin: newToken("root", "admin"),
  operator: newToken("person", "operator"),
  viewer: newToken("eyes", "viewer"),
};
/** Enough jobs that a task takes a while and can be stopped in the middle. */
const MANY_JOBS = 400_000;
const PUTS_AT_ONCE = 20_000;

describe("dashboard, actions", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const folder = temporaryFolder({ after }, "dashboard-actions");
  const wrongs: string[] = [];
  let guarded: GuardedServer;
  let browser: Browser;
  let base: string;
  let client: WireClient;
  let page: Page;

  before(async () => {
    const lines = Object.values(tokens).map(({ line }) => line);
    // One after the other: what has begun is ended by `after`, also where the next fails.
    browser = await openBrowser();
    guarded = await GuardedServer.start(folder, lines.join(""), 0, () => "", [
      "--http",
      "127.0.0.1:0",
      "--shards",
      "1",
    ]);
    base = /http:\/\/127\.0\.0\.1:\d+/.exec(guarded.server.stderr)![0];
    client = await connect();
    page = await enter(tokens.admin.secret);
  });
  after(async () => {
    client?.close();
    await browser?.close();
    await guarded?.server.stop();
  });

  const connect = () => WireClient.connect({ port: guarded.server.port, host: "127.0.0.1" });

  async function enter(secret: string): Promise<Page> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const permits = /status of 40[0139]/;
    const its = await openPage(browser, `${base}/#/`, wrongs, { context }, permits);
    await its.getByLabel("Token").fill(secret);
    await its.keyboard.press("Enter");
    await its.getByRole("button", { name: "Sign out" }).waitFor();
    return its;
  }

  const dialog = (): Locator => page.getByRole("dialog");
  const button = (name: string | RegExp): Locator => page.getByRole("button", { name });
  const inDialog = (name: string | RegExp): Locator => dialog().getByRole("button", { name });

  /** Opens a dialog by its button, looks at it, and calls it off. */
  async function callOff(name: string, byKey = false): Promise<void> {
    await button(name).click();
    await assertAccessible(page, name);
    if (byKey) await page.keyboard.press("Escape");
    else await inDialog("Cancel").click();
    await dialog().waitFor({ state: "detached" });
  }

  /** Waits for a message, and closes it: it does not go by itself. */
  async function told(text: string | RegExp): Promise<string> {
    const message = page.locator(".message", { hasText: text });
    await message.waitFor();
    const said = (await message.textContent())!.trim();
    await message.getByRole("button", { name: "Close this message" }).click();
    await message.waitFor({ state: "detached" });
    return said;
  }

  async function statsTube(tube: string, key: string): Promise<number> {
    const { body } = await client.ask(`stats-tube ${tube}`);
    return Number(new RegExp(`^${key}: (\\d+)`, "m").exec(`${body}`)?.[1] ?? -1);
  }

  async function fill(tube: string, jobs: number, options: { delay?: number } = {}): Promise<number> {
    await client.ask(`use ${tube}`);
    let id = 0;
    for (let i = 0; i < jobs; i++) id = Number((await client.put(`job ${i}`, options)).line.split(" ")[1]);
    return id;
  }

  it("puts a job with everything that was typed", async () => {
    await fill("put-here", 1);
    await page.goto(`${base}/#/tubes/put-here`);
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
    const { body } = await client.ask(`peek ${id}`);
    assert.equal(`${body}`, '{"a": "ä"}\n');
    const stats = `${(await client.ask(`stats-job ${id}`)).body}`;
    assert.match(stats, /pri: 7\n.*ttr: 30\n/s);
  });

  it("keeps templates of jobs in the browser, fills the dialog with one, and deletes it", async () => {
    await page.goto(`${base}/#/tubes/put-here`);
    await button("Put a job…").click();
    await dialog().getByLabel("Priority").fill("3");
    await dialog().getByLabel("Body").fill("of a template");
    await dialog().getByText("Keep this as a template").click();
    await inDialog("Keep").click();
    await dialog().getByText("Give the template a name.").waitFor();
    await dialog().getByLabel("Its name").fill("welcome");
    // Enter would put a job everywhere else.
    await page.keyboard.press("Enter");
    await dialog().getByText("Kept as the template welcome").waitFor();
    await assertAccessible(page, "templates");
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    await page.reload();
    await button("Put a job…").click();
    await dialog().getByLabel("Template").selectOption("welcome");
    assert.equal(await dialog().getByLabel("Body").inputValue(), "of a template");
    await inDialog("Put").click();
    const [, id] = /job (\d+) into put-here/.exec(await told(/Put as/))!;
    assert.match(`${(await client.ask(`stats-job ${id}`)).body}`, /pri: 3\n/);
    await button("Put a job…").click();
    await dialog().getByLabel("Template").selectOption("welcome");
    await inDialog("Delete the template").click();
    await dialog().getByLabel("Template").waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    assert.equal(await statsTube("put-here", "total-jobs"), 3);
  });

  it("changes priority, delay and ttr of jobs", async () => {
    const id = await fill("changed", 2);
    await page.goto(`${base}/#/jobs/${id}`);
    await callOff("Update…");
    await button("Update…").click();
    await dialog().getByText("Update 1 job of changed?").waitFor();
    await inDialog("Update 1 job").click();
    await dialog().getByText("Give at least one of them.").waitFor();
    await dialog().getByLabel("Priority").fill("5");
    await dialog().getByLabel("Time to run").fill("77");
    await inDialog("Update 1 job").click();
    await told("1 job of changed is updated.");
    assert.match(`${(await client.ask(`stats-job ${id}`)).body}`, /pri: 5\n.*ttr: 77\n/s);
    assert.match(`${(await client.ask(`stats-job ${id - 1}`)).body}`, /pri: 0\n.*ttr: 60\n/s);
  });

  it("shows a refusal in the dialog, and keeps what was typed", async () => {
    await page.goto(`${base}/#/tubes/put-here`);
    await button("Put a job…").click();
    await dialog().getByLabel("Tube").fill("-bad");
    await dialog().getByLabel("Body").fill("kept");
    await inDialog("Put").click();
    await dialog().getByRole("alert").getByText("not a valid name of a tube").waitFor();
    assert.equal(await dialog().getByLabel("Body").inputValue(), "kept");
    await page.keyboard.press("Escape");
  });

  it("pauses and resumes a tube", async () => {
    await fill("paused", 1);
    await page.goto(`${base}/#/tubes/paused`);
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
    await told(/not paused any more/);
    assert.equal(await statsTube("paused", "pause"), 0);
    await button("Pause…").waitFor();
  });

  it("kicks delayed or buried jobs, and counts them first", async () => {
    await fill("kicked", 3, { delay: 3600 });
    await page.goto(`${base}/#/tubes/kicked`);
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

  it("clears chosen states of a tube; from 100 jobs on the user types its name", async () => {
    await fill("cleared", 120);
    await fill("cleared", 2, { delay: 3600 });
    await page.goto(`${base}/#/tubes/cleared`);
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
    await page.goto(`${base}/#/tubes/from-here`);
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
    for (const pri of [7, 8, 9]) await client.put("x", { pri });
    await page.goto(`${base}/#/tubes/filtered?state=ready`);
    const field = (label: string | RegExp): Locator => page.locator("main").getByLabel(label);
    // Faster than the pause after which a filter counts.
    await field("pri from").pressSequentially("7");
    await page.keyboard.press("Tab");
    await page.keyboard.type("8");
    await page.getByText("All ready jobs with a priority from 7 and a priority up to 8").waitFor();
    await button("Clear…").first().click();
    await dialog()
      .getByText("Delete 2 jobs of filtered with a priority from 7 and a priority up to 8?")
      .waitFor();
    await inDialog("Delete 2 jobs").click();
    await told("2 jobs of filtered are deleted.");
    assert.equal(await statsTube("filtered", "current-jobs-ready"), 4);
    await page.goto(`${base}/#/tubes/filtered?state=ready`);
    await page.getByPlaceholder("text in the body").pressSequentially("job 1");
    await button("Clear…").first().click();
    await dialog().getByText("Delete 1 job of filtered with “job 1” in the body?").waitFor();
    await inDialog("Cancel").click();
  });

  it("changes only the selected jobs", async () => {
    const last = await fill("chosen", 6);
    await page.goto(`${base}/#/tubes/chosen`);
    const chosen = page.getByRole("group", { name: "What to do with jobs" });
    await page.getByLabel(`Job ${last - 1}`).check();
    await page.getByLabel(`Job ${last - 3}`).check();
    await chosen.getByText("2 selected").waitFor();
    await assertAccessible(page, "selected jobs");
    await chosen.getByRole("button", { name: "Delete…" }).click();
    await dialog().getByText("Delete 2 jobs of chosen?").waitFor();
    await inDialog("Delete 2 jobs").click();
    await told("2 jobs of chosen are deleted.");
    await chosen.waitFor({ state: "detached" });
    await page.getByLabel(`Job ${last - 1}`).waitFor({ state: "detached" });
    for (const [id, line] of [
      [last - 1, "NOT_FOUND"],
      [last - 3, "NOT_FOUND"],
      [last - 2, /^FOUND/],
      [last, /^FOUND/],
    ] as const)
      assert.match((await client.ask(`peek ${id}`)).line, new RegExp(line));
    // Without a selection it is all that the filters leave.
    await page.getByPlaceholder("text in the body").fill("job 5");
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
    await page.goto(`${base}/#/tubes?match=several-*&sort=name`);
    await page.getByRole("link", { name: "several-a" }).waitFor();
    await page.keyboard.type("jx");
    await page.getByText("1 selected").waitFor();
    await page.keyboard.type("jx");
    await page.getByText("2 selected").waitFor();
    await assertAccessible(page, "selected tubes");
    await callOff("Clear…");
    await page.getByText("2 selected").waitFor();
    await button("Clear…").click();
    await dialog().getByText("Delete 4 jobs of 2 tubes?").waitFor();
    await inDialog("Delete 4 jobs").click();
    await told("4 jobs of 2 tubes are deleted.");
    assert.equal(await statsTube("several-a", "current-jobs-ready"), -1);
    assert.equal(await statsTube("several-c", "current-jobs-ready"), 2);
    await page.getByRole("link", { name: "several-b" }).waitFor({ state: "detached" });
    await page.getByLabel("All that are shown").check();
    await button("Pause…").click();
    await dialog().getByLabel("Seconds").fill("60");
    await inDialog("Pause").click();
    await told("several-c is paused for 60 s.");
    assert.equal(await statsTube("several-c", "pause"), 60);
  });

  it("shows the progress of a long task, and stops it", async () => {
    await client.ask("use many");
    for (let left = MANY_JOBS; left > 0; left -= PUTS_AT_ONCE) {
      client.send("put 0 0 60 1\r\nx\r\n".repeat(PUTS_AT_ONCE));
      for (let i = 0; i < PUTS_AT_ONCE; i++) await client.readReply(60_000);
    }
    await page.goto(`${base}/#/tubes/many`);
    await button("Clear…").click();
    await dialog().getByText("Delete 400,000 jobs of many?").waitFor();
    await dialog()
      .getByLabel(/type many/)
      .fill("many");
    // In the page, so that no way there and back lies between the two.
    await page.evaluate(`new MutationObserver((_changes, watch) => {
      const stop = [...document.querySelectorAll("dialog button")].find((each) => each.textContent === "Stop");
      if (stop === undefined || document.querySelector("dialog progress") === null) return;
      watch.disconnect();
      stop.click();
    }).observe(document.querySelector("dialog"), { childList: true, subtree: true })`);
    await inDialog(/Delete 400,000/).click();
    const said = await told("Stopped:");
    const [, deleted] = /Stopped: ([\d,]+) jobs? of many/.exec(said)!;
    const count = Number(deleted!.replaceAll(",", ""));
    assert.ok(count < MANY_JOBS, said);
    assert.equal(await statsTube("many", "current-jobs-ready"), MANY_JOBS - count);
  });

  it("deletes, kicks and releases a job", async () => {
    const delayed = await fill("single", 1, { delay: 3600 });
    await page.goto(`${base}/#/jobs/${delayed}`);
    assert.equal(await button("Release…").count(), 0);
    await callOff("Kick…");
    await button("Kick…").click();
    await inDialog("Kick").click();
    await told("is ready again");
    await button("Kick…").waitFor({ state: "detached" });
    const worker = await connect();
    await worker.ask("watch single");
    assert.match((await worker.ask("reserve-with-timeout 5")).line, new RegExp(`^RESERVED ${delayed} `));
    await callOff("Release…");
    await button("Release…").click();
    await inDialog("Release").click();
    await told("taken from its worker");
    assert.equal((await worker.ask(`delete ${delayed}`)).line, "DELETED");
    await page.getByText("There is no such job").waitFor();
    const held = await fill("single", 1);
    await worker.ask("reserve-with-timeout 5");
    await page.goto(`${base}/#/jobs/${held}`);
    await callOff("Delete…");
    await button("Delete…").click();
    await dialog().getByText("A worker holds it").waitFor();
    await inDialog("Delete").click();
    await told(`Job ${held} of single is deleted.`);
    assert.equal((await worker.ask(`delete ${held}`)).line, "NOT_FOUND");
    // Another one's time to run goes by: of so few jobs that is more than one in twenty.
    await client.put("late", { ttr: 1 });
    await worker.ask("reserve-with-timeout 5");
    await page.goto(`${base}/#/`);
    await page
      .getByText(/\d+ % of all jobs of the last ten minutes were not done in their time to run/)
      .waitFor();
    await page.getByText("Give a longer ttr at the put").waitFor();
    worker.close();
  });

  it("shows the audit log, and stops a task there", async () => {
    await fill("audited", 3);
    await page.goto(`${base}/#/audit`);
    const changes = page.getByRole("region", { name: "List of changes" });
    await changes
      .getByRole("row", { name: /root 127\.0\.0\.1 deleted a job/ })
      .first()
      .waitFor();
    const headers = { authorization: `Bearer ${tokens.operator.secret}`, "content-type": "application/json" };
    const post = (path: string, body: unknown, more = {}): Promise<Response> =>
      fetch(base + path, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(body) });
    await post("/v1/tubes/audited/clear", { states: ["ready"] });
    await changes.getByRole("row", { name: /person 127\.0\.0\.1 cleared jobs audited 3/ }).waitFor();
    const tasks = page.getByRole("region", { name: "List of tasks" });
    await tasks.getByRole("row", { name: /delete audited ✓? ?done 3/ }).waitFor();
    await assertAccessible(page, "audit");
    // One of many jobs: whether it is stopped, or done before that, the page says what the server
    // did.
    await page.evaluate(`new MutationObserver((_changes, watch) => {
      const find = (text) => [...document.querySelectorAll("button")].find((each) => each.textContent.trim() === text);
      (find("Stop it") ?? find("Stop…"))?.click();
      if (find("Stop it") !== undefined) watch.disconnect();
    }).observe(document.body, { childList: true, subtree: true })`);
    const asked = await post(
      "/v1/tubes/many/move",
      { states: ["ready"], to: "many-copies", copy: true },
      { prefer: "respond-async" },
    );
    const { id } = (await asked.json()) as { id: string };
    const said = await told(/^The task/);
    const { state } = (await (await fetch(`${base}/v1/tasks/${id}`, { headers })).json()) as {
      state: string;
    };
    assert.equal(state, said.includes("is stopped") ? "cancelled" : "done", said);
    await tasks.getByRole("row", { name: /copy many .*(?:stopped|done)/ }).waitFor();
  });

  it("reloads the configuration", async () => {
    await page.goto(`${base}/#/server`);
    await callOff("Reload…");
    await button("Reload…").click();
    await inDialog("Reload").click();
    await told("Nothing has changed.");
  });

  it("puts a job again, and drains the server", async () => {
    const id = await fill("again", 1);
    await page.goto(`${base}/#/jobs/${id}`);
    await button("Put again…").click();
    await dialog().getByText("5 bytes").waitFor();
    await inDialog("Put").click();
    await told(/Put as job \d+ into again/);
    assert.equal(await statsTube("again", "current-jobs-ready"), 2);
    await page.goto(`${base}/#/server`);
    await callOff("Drain…");
    await button("Drain…").click();
    await inDialog("Drain").click();
    await told("takes no new jobs");
    assert.equal((await client.put("x")).line, "DRAINING");
    await button("Take new jobs again…").click();
    await inDialog("Take new jobs").click();
    await told("takes new jobs again");
    assert.match((await client.put("x")).line, /^INSERTED/);
  });

  it("lists connections, filters them, and closes one", async () => {
    const waiting = await connect();
    await waiting.ask("watch nothing-here");
    waiting.send("reserve\r\n");
    const holder = await connect();
    const id = await fill("held", 1);
    await holder.ask("watch held");
    await holder.ask("reserve-with-timeout 5");
    await page.goto(`${base}/#/connections`);
    await page.getByRole("link", { name: `${id}`, exact: true }).waitFor();
    await assertAccessible(page, "connections");
    await button("waiting").click();
    await page.getByText("waits for a job").waitFor();
    await page.getByRole("link", { name: `${id}`, exact: true }).waitFor({ state: "detached" });
    await button("holding").click();
    await page.getByRole("link", { name: `${id}`, exact: true }).waitFor();
    await callOff("Close the connection from");
    await button("Close the connection from").click();
    await dialog().getByText("The 1 job that it holds is ready again").waitFor();
    await inDialog("Close it").click();
    await told("is closed");
    await eventually(
      () => "the job of the closed connection is not ready",
      async () => ((await statsTube("held", "current-jobs-ready")) === 1 ? true : undefined),
    );
    await page.getByText("No such connection").waitFor();
    await button("closed").click();
    await page.getByText("somebody closed it").first().waitFor();
    await assertAccessible(page, "closed connections");
    waiting.close();
    holder.close();
  });

  it("shows tasks to operators, and the audit log to admins", async () => {
    const statuses = async (secret: string): Promise<number[]> => {
      const views = ["connections", "tasks", "task", "audit"];
      const headers = { authorization: `Bearer ${secret}` };
      return await Promise.all(
        views.map(async (view) => (await fetch(`${base}/v1/events?view=${view}`, { headers })).status),
      );
    };
    assert.deepEqual(await statuses(tokens.viewer.secret), [200, 403, 403, 403]);
    assert.deepEqual(await statuses(tokens.operator.secret), [200, 200, 200, 403]);
    assert.deepEqual(await statuses(tokens.admin.secret), [200, 200, 200, 200]);
    const other = await enter(tokens.operator.secret);
    await other.goto(`${base}/#/audit`);
    await other.getByText("is for the role admin").waitFor();
    await other.getByRole("region", { name: "List of tasks" }).waitFor();
    await other.context().close();
  });

  it("hides buttons that the token may not use", async () => {
    await fill("looked-at", 1);
    for (const [secret, onTube, onConnections] of [
      [tokens.viewer.secret, 0, 0],
      [tokens.operator.secret, 5, 0],
    ] as const) {
      const other = await enter(secret);
      await other.goto(`${base}/#/tubes/looked-at`);
      await other.getByText("put in all").waitFor();
      assert.equal(await other.locator(".actions button:visible").count(), onTube);
      await other.getByRole("link", { name: /^\d+$/ }).waitFor();
      assert.equal(await other.locator("main table input").count(), onTube === 0 ? 0 : 2);
      await other.goto(`${base}/#/connections`);
      await other.getByRole("table").waitFor();
      assert.equal(await other.getByRole("link", { name: "Audit" }).count(), onTube === 0 ? 0 : 1);
      assert.equal(await other.getByRole("button", { name: /^Close/ }).count(), onConnections);
      await other.context().close();
    }
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(wrongs, []);
  });
});
