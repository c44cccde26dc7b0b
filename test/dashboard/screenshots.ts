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
import { WireClient } from "../support/server/wire-client.ts";
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
  "tube-running": "#/tubes/films?state=reserved",
  "tube-paused": "#/tubes/exports",
  "schedule-skipping": "#/schedules/crm-sync",
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
  "settings-films-dialog": ["#/tubes/films", "Change…"],
  "settings-paused-dialog": ["#/tubes/exports", "Change…"],
  "pause-dialog": ["#/tubes/mail-eu", "Pause…"],
  "cancel-job-dialog": ["#/jobs/1", "Cancel…"],
};
const WIDTHS = (process.env["WIDTHS"] ?? "375,768,1280,1440,1920").split(",").map(Number);
const THEMES = ["light", "dark"] as const;
/** Time of activity before the first picture, so that charts have data. */
const LIVE_MS = Number(process.env["LIVE_MS"] ?? 50_000);
const SETTLED_MS = 1200;
const themes = new Map<Page, (typeof THEMES)[number]>();

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

/** Jobs under way, one of them cancelled, a paused tube, and a schedule whose job takes long. */
async function holdJobs(client: WireClient): Promise<{ running: string; cancelled: string }> {
  const put = async (tube: string, options: string): Promise<string> =>
    (await client.ask(`put-in-tube ${tube} 0 0 3600 2 ${options}\r\n{}`)).line.split(" ")[1]!;
  await client.ask("name encoder-7");
  await client.ask("set-tube films group-rate=10/1 group-burst=20 max-reserved=8");
  const running = await put("films", "group=acme cost=5");
  const cancelled = await put("films", "group=umbrella");
  await put("films", "group=acme");
  for (const id of [running, cancelled]) await client.ask(`reserve-job ${id}`);
  await client.ask(`touch-job ${running} progress=40 note=second%20pass`);
  const note = "frame%2013,200%20of%2016,000%20of%20the%20trailer%20in%20three%20languages";
  await client.ask(`touch-job ${cancelled} progress=83 note=${note}`);
  await client.ask(`cancel-job ${cancelled} reason=the%20customer%20has%20sent%20another%20file`);
  await client.ask("set-tube exports paused=yes");
  await put("exports", "group=acme");
  await client.ask("set-schedule crm-sync crm 0 0 3600 2 every=2 overlap=skip\r\n{}");
  return { running, cancelled };
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

const fileOf = (page: Page, name: string): string =>
  `${name}-${page.viewportSize()!.width}-${themes.get(page)}.png`;
const isWanted = (page: Page, name: string): boolean =>
  parts.length === 0 || parts.some((part) => fileOf(page, name).includes(part));

async function picture(page: Page, name: string, isFull = true): Promise<void> {
  if (!isWanted(page, name)) return;
  const file = fileOf(page, name);
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

async function livingPages(page: Page, url: string, jobs: Readonly<Record<string, string>>): Promise<void> {
  const ofJobs = Object.entries(jobs).map(([name, id]) => [`job-${name}`, `#/jobs/${id}`] as const);
  for (const [name, hash] of [...Object.entries(PAGES), ...ofJobs]) {
    if (!isWanted(page, name)) continue;
    await page.goto(`${url}/${hash}`);
    await page.waitForSelector("main h1");
    // A list of fifty jobs is as good as one of ten.
    await picture(page, name, name !== "tube");
  }
  await page.goto(`${url}/#/`);
  await page.getByText("As a table").first().click();
  await picture(page, "chart-table");
  const held = ["cancel-held-dialog", [`#/jobs/${jobs["running"]}`, "Cancel…"]] as const;
  for (const [name, [hash, button]] of [...Object.entries(DIALOGS), held]) {
    if (!isWanted(page, name)) continue;
    await page.goto(`${url}/${hash}`);
    await page.waitForSelector("main .actions");
    const fold = page.getByRole("button", { name: "Actions" });
    if (name !== "put-dialog" && !name.startsWith("settings-") && (await fold.isVisible()))
      await fold.click();
    await page.getByRole("button", { name: button }).first().click();
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
const worker = await WireClient.connect({ port, host: "127.0.0.1" });
const browser = await openBrowser();
try {
  await data.begin();
  await changeThings(url);
  const jobs = await holdJobs(worker);
  await sleep(LIVE_MS);
  for (const width of WIDTHS)
    for (const colorScheme of THEMES) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      themes.set(page, colorScheme);
      await livingPages(page, url, jobs);
      await barePages(page, bare.url, token.secret);
      await context.close();
    }
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  themes.set(page, "light");
  await page.goto(url);
  await page.waitForSelector("main h1", { state: "attached" });
  await data.stop();
  await server.kill();
  await page.getByRole("alert").waitFor();
  await picture(page, "disconnected", false);
} finally {
  worker.close();
  await data.stop();
  await browser.close();
  await server.kill();
  await bare.server.kill();
  for (const each of [log, bareFolder]) rmSync(each, { recursive: true });
}
