// Tests of the audit page: tasks and manual changes, and who sees them, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { ActionsPage, tokens } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

/** Enough jobs that a task takes a while and can be stopped in the middle. */
const MANY_JOBS = 400_000;

describe("dashboard, audit", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { connect, enter, dialog, button, inDialog, callOff, told, statsTube, fill } = actions;

  it("shows the progress of a long task, and stops it", async () => {
    const producer = await connect();
    producer.send(`use many\r\n${"put 0 0 60 1\r\nx\r\n".repeat(MANY_JOBS)}`);
    await eventually(
      "all are there",
      async () => (await statsTube("many", "current-jobs-ready")) === MANY_JOBS,
    );
    producer.close();
    await actions.page.goto(`${actions.base}/#/tubes/many`);
    await button("Clear…").click();
    await dialog().getByText("Delete 400,000 jobs of many?").waitFor();
    await dialog()
      .getByLabel(/type many/)
      .fill("many");
    // In the page, so that no way there and back lies between the two.
    await actions.page.evaluate(`new MutationObserver((_changes, watch) => {
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
    await actions.page.goto(`${actions.base}/#/jobs/${delayed}`);
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
    await actions.page.getByText("There is no such job").waitFor();
    const held = await fill("single", 1);
    await worker.ask("reserve-with-timeout 5");
    await actions.page.goto(`${actions.base}/#/jobs/${held}`);
    await callOff("Delete…");
    await button("Delete…").click();
    await dialog().getByText("A worker holds it").waitFor();
    await inDialog("Delete").click();
    await told(`Job ${held} of single is deleted.`);
    assert.equal((await worker.ask(`delete ${held}`)).line, "NOT_FOUND");
    // The time to run of many goes by: more than one in twenty.
    for (let job = 0; job < 60; job++) {
      await actions.client.put("late", { ttr: 1 });
      await worker.ask("reserve-with-timeout 5");
    }
    await actions.page.goto(`${actions.base}/#/`);
    await actions.page
      .getByText(/\d+ % of \d+ reservations in the last ten minutes were not done within their time to run/)
      .waitFor();
    await actions.page.getByText("Put jobs with a longer ttr").waitFor();
    worker.close();
  });

  it("shows the audit log, and stops a task there", async () => {
    await fill("audited", 3);
    await actions.page.goto(`${actions.base}/#/audit`);
    const changes = actions.page.getByRole("region", { name: "List of changes" });
    await changes
      .getByRole("row", { name: /root 127\.0\.0\.1 deleted a job/ })
      .first()
      .waitFor();
    const headers = { authorization: `Bearer ${tokens.operator.secret}`, "content-type": "application/json" };
    const post = (path: string, body: unknown, more = {}): Promise<Response> =>
      fetch(actions.base + path, {
        method: "POST",
        headers: { ...headers, ...more },
        body: JSON.stringify(body),
      });
    await post("/v1/tubes/audited/clear", { states: ["ready"] });
    await changes.getByRole("row", { name: /person 127\.0\.0\.1 cleared jobs audited 3/ }).waitFor();
    // Answered as a task, whose count comes at its end.
    await fill("audited", 2);
    await post("/v1/tubes/audited/clear", { states: ["ready"] }, { prefer: "respond-async" });
    await changes.getByRole("row", { name: /person 127\.0\.0\.1 cleared jobs audited 2/ }).waitFor();
    // Settings with their old values, and the times of a timeline.
    const set = (method: string, body: object): Promise<Response> =>
      fetch(`${actions.base}/v1/settings/audited`, { method, headers, body: JSON.stringify(body) });
    await set("PUT", { maxAttempts: 3, backoff: 10 });
    await set("PATCH", { maxAttempts: 5, backoff: null });
    const changed = changes.getByRole("row", {
      name: /changed settings audited attempts at most: 3 → 5 first backoff: 10 s → none/,
    });
    await changed.waitFor();
    assert.match((await changed.textContent())!, /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
    const tasks = actions.page.getByRole("region", { name: "List of tasks" });
    await tasks.getByRole("row", { name: /delete audited ✓? ?done 3/ }).waitFor();
    await assertAccessible(actions.page, "audit");
    // One of many jobs: whether it is stopped, or done before that, the page says what the server
    // did.
    await actions.page.evaluate(`new MutationObserver((_changes, watch) => {
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
    const { state } = (await (await fetch(`${actions.base}/v1/tasks/${id}`, { headers })).json()) as {
      state: string;
    };
    assert.equal(state, said.includes("is stopped") ? "cancelled" : "done", said);
    await tasks.getByRole("row", { name: /copy many .*(?:stopped|done)/ }).waitFor();
  });

  it("shows tasks to operators, and the audit log to admins", async () => {
    const statuses = async (secret: string): Promise<number[]> => {
      const paths = ["connections", "tasks", "tasks/1", "audit"];
      const headers = { authorization: `Bearer ${secret}` };
      return await Promise.all(
        paths.map(
          async (path) => (await fetch(`${actions.base}/v1/events?get=/v1/${path}`, { headers })).status,
        ),
      );
    };
    assert.deepEqual(await statuses(tokens.viewer.secret), [200, 403, 403, 403]);
    assert.deepEqual(await statuses(tokens.operator.secret), [200, 200, 200, 403]);
    assert.deepEqual(await statuses(tokens.admin.secret), [200, 200, 200, 200]);
    const other = await enter(tokens.operator.secret);
    await other.goto(`${actions.base}/#/audit`);
    await other.getByText("Only the role admin sees").waitFor();
    await other.getByRole("region", { name: "List of tasks" }).waitFor();
    await other.context().close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
