// A browser and a server with changing jobs, for the tests of a describe block.

import { after, before } from "node:test";
import type { Browser, Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { openBrowser, type Served, serve } from "./browser.ts";
import { LivingData } from "./living-data.ts";
import { openPage } from "./watched-page.ts";

export class LivingDashboard {
  browser!: Browser;
  served!: Served;
  /** Things that a page should never do: errors, refused content, requests to other hosts. */
  readonly wrongs: string[] = [];
  #data: LivingData | undefined;

  constructor(name: string) {
    before(() => this.#begin(temporaryFolder({ after }, name)));
    after(async () => {
      await this.#data?.stop();
      await this.browser?.close();
      await this.served?.server.kill();
    });
  }

  /** Starts one after the other: what has begun is ended by `after`, also where the next fails. */
  async #begin(folder: string): Promise<void> {
    this.browser = await openBrowser();
    this.served = await serve(["-b", folder]);
    this.#data = new LivingData(this.served.port);
    await this.#data.begin();
  }

  readonly open = (hash: string): Promise<Page> =>
    openPage(this.browser, `${this.served.url}/${hash}`, this.wrongs);

  /**
   * To another page by its address, as by a link: a browser takes seconds of CPU time to open so
   * many anew.
   */
  readonly goOn = async (page: Page, hash: string): Promise<void> => {
    const title = await page.title();
    await page.goto(`${this.served.url}/${hash}`);
    await eventually(`${hash} has a title of its own`, async () => (await page.title()) !== title);
  };
}
