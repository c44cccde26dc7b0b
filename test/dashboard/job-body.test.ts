// Tests of the forms of a job's body, in Chromium.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { LivingDashboard } from "./living-dashboard.ts";
import { assertAccessible } from "./watched-page.ts";

const skip = missing(CHROMIUM_NEED) ?? false;

describe("dashboard, body", { skip }, () => {
  const living = new LivingDashboard("dashboard");
  const { open } = living;

  it("shows a body as text, as JSON with unchanged values, and as bytes", async () => {
    const client = await WireClient.connect({ port: living.served.port, host: "127.0.0.1" });
    await client.ask("use forms");
    const body = '{"id":12345678901234567890,"to":["a"],"none":{}}';
    const { line } = await client.put(body);
    const page = await open(`#/jobs/${line.split(" ")[1]}`);
    const shown = page.locator("pre.body");
    const form = (name: string) => page.getByRole("button", { name, exact: true });
    await shown.waitFor();
    assert.equal(
      await shown.textContent(),
      '{\n  "id": 12345678901234567890,\n  "to": [\n    "a"\n  ],\n  "none": {}\n}',
    );
    await form("Text").click();
    await page.waitForURL(/as=text/);
    assert.equal(await shown.textContent(), body);
    await form("Hex").click();
    await page.waitForURL(/as=hex/);
    assert.match(
      (await shown.textContent())!,
      /^00000000 {2}7b 22 69 64 22 3a 31 32 {2}33 .*\|\{"id":1234567890\|\n/,
    );
    await assertAccessible(page, "bytes");
    const { line: plain } = await client.put("no JSON");
    await page.goto(`${living.served.url}/#/jobs/${plain.split(" ")[1]}?as=json`);
    await page.getByText("no JSON", { exact: true }).waitFor();
    assert.ok(await form("JSON").isDisabled());
    client.close();
    await page.close();
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(living.wrongs, []);
  });
});
