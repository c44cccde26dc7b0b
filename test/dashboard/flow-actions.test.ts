// Tests of the pages of schedules and batches in a real Chromium, on a server with tokens.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { newToken } from "../support/server/guarded-server.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { GuardedDashboard } from "./guarded-dashboard.ts";
import { assertAccessible, rowOf } from "./watched-page.ts";

const tokens = { monitor: newToken("grafana", "monitor"), operator: newToken("person", "operator") };
/** What a browser says of the first request, which has no session yet. */
const REFUSALS = /status of 401/;
const SCHEDULE = "nightly/<b>é</b>";
const LONG = "a".repeat(200);

describe("dashboard, flows", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const wrongs: string[] = [];
  const lines = Object.values(tokens).map(({ line }) => line);
  const dashboard = new GuardedDashboard("dashboard-flows", lines, wrongs, REFUSALS);
  const { enter } = dashboard;

  async function ask(method: string, path: string, json?: unknown): Promise<Record<string, unknown>> {
    const response = await fetch(`${dashboard.base}/v1/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${tokens.operator.secret}`,
        ...(json === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    });
    const answer = (response.status === 204 ? {} : await response.json()) as Record<string, unknown>;
    assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  }

  async function assertFits(page: Page, what: string): Promise<void> {
    for (const width of [1280, 375]) {
      // As high as the page: axe does not scroll.
      await page.setViewportSize({ width, height: 3000 });
      await assertAccessible(page, `${what}, ${width} px`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  }

  it("says how to make the first schedule and the first batch", async () => {
    const page = await enter(tokens.operator.secret, "#/schedules");
    await page.getByText("runnerbean schedule set nightly").waitFor();
    await assertFits(page, "no schedules");
    await page.getByRole("link", { name: "Batches" }).click();
    await page.getByText("runnerbean batch open import-7").waitFor();
    await assertFits(page, "no batches");
    await page.context().close();
  });

  it("shows schedules, runs one now, pauses it and resumes it", async () => {
    const path = `schedules/${encodeURIComponent(SCHEDULE)}`;
    const cron = { tube: "reports", cron: "30 2 * * MON-FRI", tz: "Europe/Berlin", body: "x" };
    await ask("PUT", path, cron);
    await ask("PUT", `schedules/${LONG.slice(0, 128)}`, { tube: LONG, every: 5400, body: "x" });
    const page = await enter(tokens.operator.secret, "#/schedules");
    const row = page.getByRole("row", { name: SCHEDULE });
    await row.getByText("30 2 * * MON-FRI").waitFor();
    await row.getByText("Europe/Berlin").waitFor();
    const { next } = await ask("GET", path);
    await row.locator(`time[datetime="${next}"]`).waitFor();
    await row.getByText(/^in \d+ (?:s|min|h|days) \d{4}-/).waitFor();
    await page.getByText("every 90 min").waitFor();
    await assertFits(page, "schedules");

    await row.getByRole("button", { name: "Run now" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
    await page.getByText(/has put job \d+ into reports/).waitFor();
    assert.equal(((await ask("GET", "tubes/reports"))["jobs"] as { ready: number }).ready, 1);

    await row.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await row.getByText("paused").waitFor();
    assert.equal((await ask("GET", path))["paused"], true);
    await row.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await row.getByRole("button", { name: "Pause" }).waitFor();
    assert.equal((await ask("GET", path))["paused"], false);
    await page.context().close();
  });

  it("tells when a schedule ran by the server's clock, whatever the browser's is", async () => {
    await ask("PUT", "schedules/ticking", { tube: "ticks", every: 1, body: "x" });
    // The list may be held: the pointer is where the sign-in was.
    await eventually("it has ticked", async () => (await ask("GET", "schedules/ticking"))["last"] !== null);
    const page = await enter(tokens.operator.secret, "#/schedules");
    await page.evaluate(() => {
      const now = Date.now;
      Date.now = () => now() + 3 * 86_400_000;
    });
    const row = page.getByRole("row", { name: "ticking" });
    await row.getByText(/^\d+ (?:ms|s)$/).waitFor();
    assert.equal(await row.getByText(/days/).count(), 0);
    // Refused, so its tick is due for longer and longer.
    await ask("PUT", "settings/late", { maxJobs: 1 });
    await ask("POST", "tubes/late/jobs", { body: "x" });
    await ask("PUT", "schedules/late", { tube: "late", cron: "* * * * * *", missed: "all", body: "x" });
    await page.mouse.move(0, 0);
    await rowOf(page, "late")
      .getByText(/^. late by \d+ s$/)
      .waitFor();
    await ask("DELETE", "schedules/ticking");
    await ask("DELETE", "schedules/late");
    await page.context().close();
  });

  it("shows the progress of batches as it goes on, and cancels one", async () => {
    await ask("POST", "batches", { name: "import/7" });
    await ask("POST", "batches", { name: LONG });
    for (const body of ["1", "2", "3", "4"])
      await ask("POST", "tubes/rows/jobs", { body, batch: "import/7" });
    await ask("POST", "tubes/mails/jobs", { body: "done", after: "import/7" });
    const page = await enter(tokens.operator.secret, "#/batches");
    const row = page.getByRole("row", { name: "import/7" });
    await row.getByText("4 open").waitFor();
    const { jobs } = (await ask("POST", "reserve", { tubes: ["rows"] })) as { jobs: { lease: string }[] };
    await ask("POST", `leases/${jobs[0]!.lease}/delete`);
    await row.getByText("1 done,").waitFor();
    await row.getByText("0 failed,").waitFor();
    await row.getByText("3 open").waitFor();
    await assertFits(page, "batches");

    await row.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the batch" }).click();
    await page.getByText("The batch import/7 is cancelled.").waitFor();
    await row.getByText("complete: cancelled").waitFor();
    await row.getByText("3 failed,").waitFor();
    assert.equal(await row.getByRole("button").count(), 0);
    assert.equal((await ask("GET", "batches/-?name=import/7"))["outcome"], "cancelled");
    await page.context().close();
  });

  it("pages through many batches, the newest first, or the oldest", async () => {
    for (let n = 0; n < 100; n++) await ask("POST", "batches", { name: `many-${n}` });
    const page = await enter(tokens.operator.secret, "#/batches");
    const first = page.locator("tbody tr").first();
    await first.getByText("many-99").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 100);
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("row", { name: "import/7" }).waitFor();
    assert.equal(await page.locator("tbody tr").count(), 2);
    await page.getByRole("button", { name: "From the start" }).click();
    await first.getByText("many-99").waitFor();
    // A list doesn't change under the pointer, but the pointer doesn't keep another order away.
    await first.hover();
    await page.getByRole("columnheader", { name: "opened" }).getByRole("button").press("Enter");
    await first.getByText("import/7").waitFor();
    assert.equal(await page.locator("th[aria-sort=ascending]").count(), 1);
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("row", { name: "many-99" }).waitFor();
    assert.equal(await page.locator("tbody tr").count(), 2);
    await page.setViewportSize({ width: 375, height: 30_000 });
    await page.getByRole("button", { name: "Show the newest first" }).click();
    await first.getByText("many-99").waitFor();
    await assertAccessible(page, "many batches, 375 px");
    await page.context().close();
  });

  it("shows no buttons to those who may not manage", async () => {
    const page = await enter(tokens.monitor.secret, "#/schedules");
    await page.getByRole("row", { name: SCHEDULE }).waitFor();
    assert.equal(await page.locator("tbody button").count(), 0);
    await page.goto(`${dashboard.base}/#/schedules/${encodeURIComponent(SCHEDULE)}`);
    await page.getByText("Your role can't see the bodies").waitFor();
    await page.getByText("Europe/Berlin").waitFor();
    assert.equal(await page.locator("main button").count(), 0);
    await assertAccessible(page, "a schedule for a monitor");
    await page.goto(`${dashboard.base}/#/batches?order=asc`);
    await page.getByRole("row", { name: LONG }).waitFor();
    assert.equal(await page.locator("tbody button").count(), 0);
    await assertAccessible(page, "for a monitor");
    await page.context().close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(wrongs, []);
  });
});
