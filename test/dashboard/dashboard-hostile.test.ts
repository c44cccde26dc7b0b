// Tests of the dashboard against what users and clients may do to it: names of any kind, thousands
// of batches and schedules, two users who act on the same thing, and a clock that is wrong.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { newToken } from "../support/server/guarded-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { GuardedDashboard } from "./guarded-dashboard.ts";
import { assertAccessible, rowOf } from "./watched-page.ts";

const tokens = {
  operator: newToken("person", "operator"),
  limited: newToken("limited", "operator tubes=mail-*"),
};
/** What a browser says of refusals that these tests provoke. */
const REFUSALS = /status of 40[1349]/;
/** Its mark turns round what follows, unless the name stands apart. */
const ODD = `"'<b>&amp;\u202eabc`;
const LONG = "a".repeat(195);
const MANY = 10_000;
const AT_ONCE = 2000;
const DAY_MS = 86_400_000;

describe("dashboard, hostile", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const wrongs: string[] = [];
  const lines = Object.values(tokens).map(({ line }) => line);
  const dashboard = new GuardedDashboard("dashboard-hostile", lines, wrongs, REFUSALS);
  const { enter } = dashboard;
  let client: WireClient;

  const schedule = (name: string, tube = "reports"): string =>
    `set-schedule ${Buffer.from(name).toString("latin1")} ${tube} 0 0 60 1 every=3600\r\nx\r\n`;

  async function askAll(commands: readonly string[], answer: RegExp): Promise<void> {
    for (let from = 0; from < commands.length; from += AT_ONCE) {
      const some = commands.slice(from, from + AT_ONCE);
      client.send(some.join(""));
      for (const command of some) assert.match((await client.readReply()).line, answer, command);
    }
  }

  before(async () => {
    client = await WireClient.connect({ port: dashboard.guarded.server.port, host: "127.0.0.1" });
    await askAll([schedule(ODD)], /^SET/);
  });
  after(() => client?.close());

  /** Whether the last words of an element stand to the right of the name in it. */
  const endsAtRight = (page: Page, selector: string): Promise<unknown> =>
    page.evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      const [name] = element.querySelector("bdi").getClientRects();
      const end = document.createRange();
      end.selectNodeContents(element.lastChild);
      const [last] = end.getClientRects();
      return last.left >= name.right && last.top < name.bottom;
    })()`);

  it("shows names of schedules as they are, and what stands beside them in its place", async () => {
    const page = await enter(tokens.operator.secret, "#/schedules");
    const row = page.getByRole("row", { name: ODD });
    await row.getByRole("button", { name: "Run now" }).click();
    await page
      .getByRole("dialog")
      .getByRole("heading", { name: `Run the schedule ${ODD} now` })
      .waitFor();
    assert.equal(await endsAtRight(page, "#dialog-title"), true);
    await assertAccessible(page, "an odd name");
    await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
    await page.getByText(/has put job \d+ into reports/).waitFor();
    assert.match((await page.locator(".message").textContent())!, /The schedule "'<b>&amp;\u202eabc has put/);
    await page.context().close();
  });

  it("tells two users who act on the same thing what has become of it", async () => {
    await askAll([schedule("shared"), "open-batch shared\r\n", "open-batch done\r\n"], /^(?:SET|OPENED)/);
    await askAll(["put-in-tube rows 0 0 60 1 batch=shared\r\nx\r\n"], /^INSERTED/);
    const one = await enter(tokens.operator.secret, "#/schedules");
    const other = await enter(tokens.operator.secret, "#/schedules");
    const inRow = (page: Page, name: string, verb: string) =>
      rowOf(page, name).getByRole("button", { name: verb });
    const confirm = (page: Page, verb: string) =>
      page.getByRole("dialog").getByRole("button", { name: verb }).click();
    for (const page of [one, other]) await inRow(page, "shared", "Pause").click();
    await confirm(one, "Pause");
    await one.getByText("The schedule shared is paused.").waitFor();
    await confirm(other, "Pause");
    await other.getByText("The schedule shared is paused.").waitFor();
    for (const page of [one, other]) await inRow(page, "shared", "Resume").click();
    await client.ask("delete-schedule shared");
    await confirm(one, "Resume");
    await one.getByRole("alert").getByText('There is no schedule "shared"').waitFor();
    await one.keyboard.press("Escape");
    await one.mouse.move(0, 0);
    await other.keyboard.press("Escape");

    for (const name of ["shared", "done"]) {
      for (const page of [one, other]) {
        await page.goto(`${dashboard.base}/#/batches`);
        await inRow(page, name, "Cancel").click();
      }
      if (name === "done") await client.ask("commit-batch done");
      else await confirm(one, "Cancel the batch");
      await confirm(other, "Cancel the batch");
      if (name === "done") await other.getByRole("alert").getByText('"done" is complete already.').waitFor();
      else await other.getByText("The batch shared is cancelled.").waitFor();
      for (const page of [one, other]) await page.keyboard.press("Escape");
    }
    await rowOf(other, "shared").getByText("complete: cancelled").waitFor();
    await rowOf(other, "done").getByText("complete: success").waitFor();
    await one.context().close();
    await other.context().close();
  });

  it("can be used by keys alone: rows, their buttons, and buttons that change what they do", async () => {
    await askAll([schedule("keys"), "open-batch keys\r\n"], /^(?:SET|OPENED)/);
    const page = await enter(tokens.operator.secret, "#/batches");
    await page.getByRole("row", { name: "keys" }).waitFor();
    await page.evaluate("document.activeElement.blur()");
    const focused = (): Promise<unknown> => page.evaluate("document.activeElement.ariaLabel");
    await page.keyboard.press("j");
    assert.equal(await page.evaluate("document.activeElement.textContent"), "keys");
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Cancel… the batch keys");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await focused(), "Cancel… the batch keys");

    await page.keyboard.type("gh");
    const pause = page.getByRole("button", { name: "Pause… the schedule keys" });
    await pause.press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).press("Enter");
    await page.getByRole("button", { name: "Resume… the schedule keys" }).waitFor();
    assert.equal(await focused(), "Resume… the schedule keys");
    await page.context().close();
  });

  it("refuses its lists to a token with tubes, and shows it the way to these", async () => {
    await client.ask("use mail-eu");
    await client.put("x");
    const page = await enter(tokens.limited.secret, "#/tubes/mail-eu");
    await page.getByRole("heading", { name: "mail-eu" }).waitFor();
    for (const hash of ["#/schedules", "#/batches", "#/tubes/other"]) {
      await page.goto(`${dashboard.base}/${hash}`);
      await page.getByRole("heading", { name: "No access" }).waitFor();
      await assertAccessible(page, `${hash}, refused`);
    }
    await page.getByPlaceholder("name of a tube").fill("mail-eu");
    await page.getByRole("button", { name: "Show it" }).click();
    await page.getByRole("heading", { name: "mail-eu" }).waitFor();
    await page.context().close();
  });

  it("tells moments by the server's clock", async () => {
    const page = await enter(tokens.operator.secret, "#/tubes/mail-eu");
    const age = page.locator(".tile", { hasText: "oldest ready" }).locator("span[title]");
    await page.clock.install({ time: Date.now() + DAY_MS });
    await page.reload();
    await age.waitFor();
    const title = await age.getAttribute("title");
    const said = Number(await page.evaluate(`Date.parse(${JSON.stringify(title)})`));
    assert.ok(Math.abs(Date.now() - said) < DAY_MS / 2, `${title}`);
    await page.context().close();
  });

  it("shows tubes with long names", async () => {
    const tubes = Array.from({ length: 60 }, (_, n) => `${LONG}${n}`);
    await askAll(
      tubes.flatMap((name) => [`put-in-tube ${name} 0 0 60 1\r\nx\r\n`]),
      /^INSERTED/,
    );
    const page = await enter(tokens.operator.secret, `#/tubes?match=${"a".repeat(50)}*&sort=name`);
    await page.getByRole("link", { name: tubes[0]!, exact: true }).waitFor();
    for (const width of [375, 768]) {
      await page.setViewportSize({ width, height: 16_000 });
      await assertAccessible(page, `long names, ${width} px`);
    }
    await page.context().close();
  });

  it("pages through ten thousand batches and schedules", async () => {
    const numbers = Array.from({ length: MANY }, (_, n) => `${n}`.padStart(5, "0"));
    await askAll(
      numbers.map((n) => `open-batch many-${n}\r\n`),
      /^OPENED/,
    );
    await askAll(
      numbers.map((n) => schedule(`many-${n}`)),
      /^SET/,
    );
    const page = await enter(tokens.operator.secret, "#/batches");
    for (const [hash, first, next] of [
      ["#/batches", "many-09999", "many-09899"],
      ["#/schedules", "many-00000", "many-00099"],
    ] as const) {
      await page.goto(`${dashboard.base}/${hash}`);
      await page.getByRole("row", { name: first }).waitFor();
      await page.getByRole("button", { name: "Show more" }).click();
      await page.getByRole("row", { name: next }).waitFor();
      await eventually("a page of a hundred", async () => (await page.locator("tbody tr").count()) === 100);
    }
    await page.context().close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(wrongs, []);
  });
});
