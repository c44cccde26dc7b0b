// `npm run screenshots`: screenshots of each page in light and dark, from 375 to 1920 px, of
// a server with live data and of an empty one.
//
// node test/dashboard/screenshots.ts [folder] [part of a name …]: into /tmp/runnerbean-screenshots
// if no folder is given.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { testCommand } from "../support/campaign-command.ts";
import { newToken } from "../support/server/guarded-server.ts";
import { openBrowser, serve } from "./browser.ts";
import { LivingData } from "./living-data.ts";

const PAGES: Readonly<Record<string, string>> = {
  overview: "#/",
  tubes: "#/tubes",
  tube: "#/tubes/mail-eu",
  "dead-letter": "#/tubes/sync-dead",
  job: "#/jobs/1",
  find: "#/find?text=welcome",
  connections: "#/connections",
  schedules: "#/schedules",
  schedule: "#/schedules/nightly-sales",
  "schedule-paused": "#/schedules/month-end",
  "schedule-ran": "#/schedules/heartbeat",
  batches: "#/batches",
  batch: "#/batches/import-stuck",
  "batch-complete": "#/batches/newsletter-2026-11",
  "tube-of-batch": "#/tubes/rows?state=buried&batch=import-stuck",
  log: "#/log",
  server: "#/server",
  audit: "#/audit",
};
/** Dialogs, by the page and the button that opens them. */
const DIALOGS: Readonly<Record<string, readonly [hash: string, button: string]>> = {
  "put-dialog": ["#/tubes/mail-eu", "Put a job…"],
  "clear-dialog": ["#/tubes/mail-eu", "Clear…"],
  "update-dialog": ["#/jobs/1", "Update…"],
  "redrive-dialog": ["#/tubes/sync-dead", "Redrive…"],
  "cancel-dialog": ["#/batches/import-stuck", "Cancel…"],
  "commit-dialog": ["#/batches/still-open", "Commit…"],
  "run-dialog": ["#/schedules/nightly-sales", "Run now…"],
  "settings-dialog": ["#/tubes/mail-eu", "Change…"],
};
const WIDTHS = (process.env["WIDTHS"] ?? "375,768,1280,1440,1920").split(",").map(Number);
const THEMES = ["light", "dark"] as const;
/** Time of activity before the first picture, so that charts have data. */
const LIVE_MS = Number(process.env["LIVE_MS"] ?? 50_000);
const SETTLED_MS = 1200;

/** Some changes, so the audit page has entries. */
async function changeThings(url: string): Promise<void> {
  const ask = (method: string, path: string, body?: unknown) =>
    fetch(`${url}/v1/${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
  await ask("PUT", "tubes/reports/pause", { seconds: 600 });
  await ask("DELETE", "tubes/reports/pause");
  await ask("POST", "tubes/sms/kick", { states: ["delayed"] });
  await ask("POST", "tubes/thumbnails/update", { states: ["delayed"], set: { delay: 7200 } });
  await ask("POST", "tubes/invoices/move", { states: ["delayed"], to: "invoices-later", copy: true });
}

/** Pages that a new user sees after signing in. */
const BARE_PAGES: Readonly<Record<string, string>> = {
  "empty-overview": "#/",
  "empty-tubes": "#/tubes",
  "empty-tube": "#/tubes/nothing",
  "empty-connections": "#/connections",
  "empty-schedules": "#/schedules",
  "empty-batches": "#/batches",
  "empty-log": "#/log",
  "empty-audit": "#/audit",
  group: "#/group",
};

const { args } = testCommand(
  "run screenshots",
  "Takes screenshots of each page in light and dark, from 375 to 1920 px.",
)
  .argument("[folder]", "where they go (default: runnerbean-screenshots in the folder for temporary files)")
  .argument("[parts...]", "only those with one of these in their name, such as tubes or 375-dark")
  .parse();
const [folder = join(tmpdir(), "runnerbean-screenshots"), ...parts] = args;
mkdirSync(folder, { recursive: true });

async function picture(page: Page, name: string, isFull = true): Promise<void> {
  const { width } = page.viewportSize()!;
  const theme = (await page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"))
    ? "dark"
    : "light";
  const file = `${name}-${width}-${theme}.png`;
  if (parts.length > 0 && !parts.some((part) => file.includes(part))) return;
  await sleep(SETTLED_MS);
  await page.screenshot({ path: join(folder, file), fullPage: isFull });
  console.log(join(folder, file));
}

async function dialogPicture(page: Page, name: string): Promise<void> {
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await picture(page, name, false);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

async function livingPages(page: Page, url: string): Promise<void> {
  for (const [name, hash] of Object.entries(PAGES)) {
    await page.goto(`${url}/${hash}`);
    await page.waitForSelector("main h1");
    // A list of fifty jobs is as good as one of ten.
    await picture(page, name, name !== "tube");
  }
  await page.goto(`${url}/#/`);
  await page.getByText("As a table").first().click();
  await picture(page, "chart-table");
  for (const [name, [hash, button]] of Object.entries(DIALOGS)) {
    await page.goto(`${url}/${hash}`);
    await page.waitForSelector("main .actions");
    const fold = page.getByRole("button", { name: "Actions" });
    if (!["put-dialog", "settings-dialog"].includes(name) && (await fold.isVisible())) await fold.click();
    await page.getByRole("button", { name: button }).click();
    await dialogPicture(page, name);
  }
  await page.getByRole("button", { name: "Keys" }).click();
  await dialogPicture(page, "keys-dialog");
}

async function barePages(page: Page, url: string, secret: string): Promise<void> {
  await page.goto(url);
  await page.getByLabel("Token").waitFor();
  await picture(page, "sign-in", false);
  await page.getByLabel("Token").fill(secret);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  for (const [name, hash] of Object.entries(BARE_PAGES)) {
    await page.goto(`${url}/${hash}`);
    await page.waitForSelector("main .card");
    await picture(page, name);
  }
}

const log = mkdtempSync(join(tmpdir(), "screenshots-"));
const token = newToken("anna", "admin");
const bareFolder = mkdtempSync(join(tmpdir(), "screenshots-"));
const tokenFile = join(bareFolder, "tokens");
writeFileSync(tokenFile, token.line, { mode: 0o600 });
const { server, port, url } = await serve(["-b", log]);
const bare = await serve(["--token-file", tokenFile]);
const data = new LivingData(port);
const browser = await openBrowser();
try {
  await data.begin();
  await changeThings(url);
  await sleep(LIVE_MS);
  for (const width of WIDTHS)
    for (const colorScheme of THEMES) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      await livingPages(page, url);
      await barePages(page, bare.url, token.secret);
      await context.close();
    }
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url);
  await page.waitForSelector("main h1", { state: "attached" });
  await data.stop();
  await server.kill();
  await page.getByRole("alert").waitFor();
  await picture(page, "disconnected", false);
} finally {
  await data.stop();
  await browser.close();
  await server.kill();
  await bare.server.kill();
  for (const each of [log, bareFolder]) rmSync(each, { recursive: true });
}
