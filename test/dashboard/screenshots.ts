// `npm run screenshots`: pictures of each page in light and dark, at 1280 and 360 px, of a server with living data.
//
// node test/dashboard/screenshots.ts [folder] [part of a name …]: into /tmp/runnerbean-screenshots if no folder is given.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openBrowser, serve } from "./browser.ts";
import { LivingData } from "./living-data.ts";

const PAGES: Readonly<Record<string, string>> = {
  overview: "#/",
  tubes: "#/tubes",
  tube: "#/tubes/mail-eu",
  job: "#/jobs/1",
  connections: "#/connections",
  log: "#/log",
  server: "#/server",
  audit: "#/audit",
};
/** Dialogs, by the page and the button that opens them. */
const DIALOGS: Readonly<Record<string, readonly [hash: string, button: string]>> = {
  "put-dialog": ["#/tubes/mail-eu", "Put a job…"],
  "clear-dialog": ["#/tubes/mail-eu", "Clear…"],
};
const WIDTHS = [1280, 360] as const;
const THEMES = ["light", "dark"] as const;
/** So long the data live before the first picture, for charts to have something to show. */
const LIVE_MS = 50_000;

/** Somebody works with the server, so that the audit page has something to tell. */
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

const [folder = join(tmpdir(), "runnerbean-screenshots"), ...parts] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const log = mkdtempSync(join(tmpdir(), "screenshots-"));
const { server, port, url } = await serve(["-b", log]);
const data = new LivingData(port);
const browser = await openBrowser();
try {
  await data.begin();
  await changeThings(url);
  await sleep(LIVE_MS);
  for (const width of WIDTHS)
    for (const theme of THEMES) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: theme });
      for (const [name, hash] of Object.entries(PAGES)) {
        const file = `${name}-${width}-${theme}.png`;
        if (parts.length > 0 && !parts.some((part) => file.includes(part))) continue;
        await page.goto(`${url}/${hash}`);
        await page.waitForSelector("main h1");
        await sleep(1200);
        // A list of fifty jobs is as good as one of ten.
        await page.screenshot({ path: join(folder, file), fullPage: name !== "tube" });
        console.log(join(folder, file));
      }
      for (const [name, [hash, button]] of Object.entries(DIALOGS)) {
        const file = `${name}-${width}-${theme}.png`;
        if (parts.length > 0 && !parts.some((part) => file.includes(part))) continue;
        await page.goto(`${url}/${hash}`);
        await page.getByRole("button", { name: button }).click();
        await sleep(1200);
        await page.screenshot({ path: join(folder, file) });
        console.log(join(folder, file));
        await page.keyboard.press("Escape");
      }
      await page.close();
    }
} finally {
  await data.stop();
  await browser.close();
  await server.kill();
  rmSync(log, { recursive: true });
}
