// The story of docs/dashboard.md: a deploy breaks the mail worker, and the person on call puts it
// right from the browser. `PICTURES=docs npm test -- dashboard-story` takes the pictures again.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import type { WireClient } from "../support/server/wire-client.ts";
import { ActionsPage, tokens } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";

describe("dashboard, a broken deploy", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, button, inDialog, told, statsTube } = actions;
  const CUSTOMERS = ["acme", "globex", "acme", "initech"];

  /** Reserves jobs until there are none; `work` tells what becomes of each. */
  async function workOff(worker: WireClient, work: (id: string) => string): Promise<number> {
    for (let count = 0; ; count++) {
      const { line } = await worker.ask("reserve-with-timeout 0");
      const [reply, id] = line.split(" ");
      if (reply !== "RESERVED") return count;
      await worker.ask(work(id!));
    }
  }

  /** The series on which the alert RunnerbeanJobsDie stands. */
  async function deathsOfMail(): Promise<number> {
    const headers = { authorization: `Bearer ${tokens.admin.secret}` };
    const text = await (await fetch(`${actions.base}/metrics`, { headers })).text();
    return Number(/^runnerbean_tube_deaths_total\{tube="mail"\} (\d+)$/m.exec(text)?.[1] ?? 0);
  }

  async function picture(name: string): Promise<void> {
    const folder = process.env["PICTURES"];
    if (folder !== undefined) await actions.page.screenshot({ path: join(folder, `${name}.png`) });
  }

  it("finds out which jobs fail, why and where, and redrives one customer first, then all", async () => {
    await actions.client.ask("set-tube mail max-attempts=2 dead-letter=mail-dead");
    await actions.client.ask("use mail");
    for (const customer of CUSTOMERS) await actions.client.put(`{"to":"${customer}"}`);
    const worker = await actions.connect();
    await worker.ask("name mailer-3");
    await worker.ask("watch mail");
    await worker.ask("ignore default");
    // The first scrape, from which Prometheus counts.
    assert.equal(await deathsOfMail(), 0);
    const failed = await workOff(worker, (id) => `release ${id} 0 0 reason=no%20such%20template:%20welcome`);
    assert.equal(failed, 2 * CUSTOMERS.length);

    const alert = /alert: RunnerbeanJobsDie\n +expr: .*increase\(runnerbean_tube_deaths_total\[10m\]\) > 0/;
    assert.match(readFileSync("deploy/prometheus/alerts.yaml", "utf8"), alert);
    await eventually("the alert fires", async () => (await deathsOfMail()) === CUSTOMERS.length);
    const { page, base } = actions;
    await page.goto(`${base}/#/`);
    await page
      .getByRole("listitem")
      .filter({ hasText: "mail-dead: 4 ready in a dead-letter tube" })
      .waitFor();
    await picture("story-overview");
    await page
      .getByRole("region", { name: "Needs attention" })
      .getByRole("link", { name: "mail-dead" })
      .click();
    const why = page.getByRole("region", { name: "Why jobs failed" }).last();
    await why.getByRole("row", { name: /^no such template: welcome 4 ready .* ago mailer-3$/ }).waitFor();
    await picture("story-reasons");

    // The deploy is rolled back. One customer first.
    await page.getByPlaceholder("text in the body").fill("acme");
    await page.waitForURL(/text=acme/);
    await button("Redrive…").click();
    await dialog().getByText("Redrive 2 jobs of mail-dead with “acme” in the body?").waitFor();
    await dialog()
      .getByRole("row", { name: /^mail attempts used up: no such template: welcome 2 / })
      .waitFor();
    await picture("redrive");
    await inDialog("Redrive 2 jobs").click();
    await told("2 jobs of mail-dead are redriven.");
    assert.equal(await workOff(worker, (id) => `delete ${id}`), 2);

    // They arrive. Then all.
    await page.getByPlaceholder("text in the body").fill("");
    await eventually("the filter is gone", () => !page.url().includes("text="));
    await button("Redrive…").click();
    await inDialog("Redrive 2 jobs").click();
    await told("2 jobs of mail-dead are redriven.");
    assert.equal(await workOff(worker, (id) => `delete ${id}`), 2);
    assert.equal(await statsTube("mail", "current-jobs-ready"), 0);
    await page.goto(`${base}/#/`);
    await page.getByText("Nothing needs attention.").first().waitFor();
    worker.close();
    assert.deepEqual(actions.wrongs, []);
  });
});
