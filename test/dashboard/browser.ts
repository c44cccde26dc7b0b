// Debian's Chromium, driven by playwright-core, with a server whose dashboard it shows.

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { type Browser, chromium } from "playwright-core";
import { freePort } from "../support/machine/free-port.ts";
import type { Need } from "../support/machine/need.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";

/**
 * The first has no windows: it shows pages as the others do, and takes half of their processor
 * time.
 */
const BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser"];
const { CHROMIUM = onPath(BROWSERS) ?? `/usr/bin/${BROWSERS[0]}` } = process.env;
export const CHROMIUM_NEED: Need = { path: CHROMIUM, remedy: "apt-get install chromium-headless-shell" };

function onPath(names: readonly string[]): string | undefined {
  const { PATH = "" } = process.env;
  const folders = ["/usr/bin", ...PATH.split(":")];
  const paths = names.flatMap((name) => folders.map((folder) => join(folder, name)));
  return paths.find((path) => existsSync(path));
}

/** Makes no requests of its own to other hosts. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

export interface Served {
  readonly server: ServerProcess;
  readonly port: number;
  /** URL of the dashboard, without a slash at its end. */
  readonly url: string;
}

/** A server with a dashboard; `flags` besides. */
export async function serve(flags: readonly string[] = [], t?: TestContext): Promise<Served> {
  const http = await freePort();
  const server = await startServer({ kind: "ours", flags: ["--http", `127.0.0.1:${http}`, ...flags] });
  t?.after(() => server.kill());
  return { server, port: server.port, url: `http://127.0.0.1:${http}` };
}
