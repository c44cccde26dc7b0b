// A page of the dashboard on which an admin acts, and what its tests do there.

import { after, before } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { openBrowser } from "./browser.ts";
import { assertAccessible, openPage } from "./watched-page.ts";

export const tokens = {
  admin: newToken("root", "admin"),
  operator: newToken("person", "operator"),
  viewer: newToken("eyes", "viewer"),
};

/** A guarded server for the tests of a describe block, a client, and the page of an admin. */
export class ActionsPage {
  client!: WireClient;
  page!: Page;
  base = "";
  /** Things that a page should never do: errors, refused content, requests to other hosts. */
  readonly wrongs: string[] = [];
  #guarded!: GuardedServer;
  #browser!: Browser;

  constructor() {
    const folder = temporaryFolder({ after }, "dashboard-actions");
    before(() => this.#begin(folder));
    after(async () => {
      this.client?.close();
      await this.#browser?.close();
      await this.#guarded?.server.stop();
    });
  }

  /** Starts one after the other: what has begun is ended by `after`, also where the next fails. */
  async #begin(folder: string): Promise<void> {
    const lines = Object.values(tokens).map(({ line }) => line);
    const flags = ["--http", "127.0.0.1:0", "--shards", "1"];
    this.#browser = await openBrowser();
    this.#guarded = await GuardedServer.start(folder, lines.join(""), 0, () => "", flags);
    this.base = /http:\/\/127\.0\.0\.1:\d+/.exec(this.#guarded.server.stderr)![0];
    this.client = await this.connect();
    this.page = await this.enter(tokens.admin.secret);
  }

  readonly connect = (): Promise<WireClient> =>
    WireClient.connect({ port: this.#guarded.server.port, host: "127.0.0.1" });

  readonly enter = async (secret: string): Promise<Page> => {
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 900 } });
    const permits = /status of 40[0139]/;
    const its = await openPage(this.#browser, `${this.base}/#/`, this.wrongs, { context }, permits);
    await its.getByLabel("Token").fill(secret);
    await its.keyboard.press("Enter");
    await its.getByRole("button", { name: "Sign out" }).waitFor();
    return its;
  };

  readonly dialog = (): Locator => this.page.getByRole("dialog");
  readonly button = (name: string | RegExp): Locator => this.page.getByRole("button", { name });
  readonly inDialog = (name: string | RegExp): Locator => this.dialog().getByRole("button", { name });

  /** Opens a dialog by its button, looks at it, and cancels it. */
  readonly callOff = async (name: string, byKey = false): Promise<void> => {
    await this.button(name).click();
    await assertAccessible(this.page, name);
    if (byKey) await this.page.keyboard.press("Escape");
    else await this.inDialog("Cancel").click();
    await this.dialog().waitFor({ state: "detached" });
  };

  /** Closes dialogs that a test has left. */
  readonly closeDialogs = async (): Promise<void> => {
    await this.page.evaluate(`for (const each of document.querySelectorAll("dialog")) each.close()`);
  };

  /** Waits for a message and closes it: it does not go by itself. */
  readonly told = async (text: string | RegExp): Promise<string> => {
    const message = this.page.locator(".message", { hasText: text });
    await message.waitFor();
    const said = (await message.textContent())!.trim();
    await message.getByRole("button", { name: "Close this message" }).click();
    await message.waitFor({ state: "detached" });
    return said;
  };

  readonly statsTube = async (tube: string, key: string): Promise<number> => {
    const { body } = await this.client.ask(`stats-tube ${tube}`);
    return Number(new RegExp(`^${key}: (\\d+)`, "m").exec(`${body}`)?.[1] ?? -1);
  };

  readonly fill = async (tube: string, jobs: number, options: { delay?: number } = {}): Promise<number> => {
    await this.client.ask(`use ${tube}`);
    let id = 0;
    for (let i = 0; i < jobs; i++)
      id = Number((await this.client.put(`job ${i}`, options)).line.split(" ")[1]);
    return id;
  };
}
