// A server with tokens, and the browsers of those who sign in at its dashboard.

import { after, before } from "node:test";
import type { Browser, Page } from "playwright-core";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer } from "../support/server/guarded-server.ts";
import { openBrowser } from "./browser.ts";
import { openPage } from "./watched-page.ts";

/** For the tests of a describe block. */
export class GuardedDashboard {
  browser!: Browser;
  guarded!: GuardedServer;
  base = "";
  /** Folder of the server's files. */
  readonly folder: string;
  readonly #wrongs: string[];
  readonly #refusals: RegExp;

  /**
   * `lines` are those of the token file. What a page complains about is added to `wrongs`, unless
   * it matches `refusals`.
   */
  constructor(name: string, lines: readonly string[], wrongs: string[], refusals: RegExp) {
    this.folder = temporaryFolder({ after }, name);
    this.#wrongs = wrongs;
    this.#refusals = refusals;
    before(async () => {
      // One after the other: what has begun is ended by `after`, also where the next fails.
      this.browser = await openBrowser();
      const flags = ["--http", "127.0.0.1:0"];
      this.guarded = await GuardedServer.start(this.folder, lines.join(""), 0, () => "", flags);
      this.base = /http:\/\/127\.0\.0\.1:\d+/.exec(this.guarded.server.stderr)![0];
    });
    after(async () => {
      await this.browser?.close();
      await this.guarded?.server.stop();
    });
  }

  /** Signs in, in a browser of its own, so cookies aren't shared. */
  readonly enter = async (secret: string, hash = "#/"): Promise<Page> => {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await openPage(
      this.browser,
      `${this.base}/${hash}`,
      this.#wrongs,
      { context },
      this.#refusals,
    );
    await page.getByLabel("Token").fill(secret);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    return page;
  };
}
