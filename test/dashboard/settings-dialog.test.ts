// Tests of the dialog of a tube's settings, in Chromium.

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { missing } from "../support/machine/need.ts";
import { ActionsPage } from "./actions-page.ts";
import { CHROMIUM_NEED } from "./browser.ts";
import { assertAccessible } from "./watched-page.ts";

describe("dashboard, settings", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  const actions = new ActionsPage();
  const { dialog, inDialog, told, fill } = actions;

  // A test that has failed may have left a dialog, which would make all others fail.
  beforeEach(() => actions.closeDialogs());

  it("shows a tube's settings in effect, and says for how many tubes it changes them", async () => {
    for (const tube of ["set-a", "set-b"]) await fill(tube, 1);
    await actions.client.ask("set-tube set-* max-attempts=4 backoff=90");
    await actions.page.goto(`${actions.base}/#/tubes/set-a`);
    const card = actions.page.getByRole("region", { name: "Settings" });
    await card.getByText("4 from set-*").waitFor();
    await card.getByText("90 s from set-*").waitFor();
    await card.getByRole("button", { name: "Change…" }).click();
    await dialog().getByText("Applies to 1 tube now.").waitFor();
    await dialog()
      .getByLabel(/^For a tube/)
      .fill("set-*");
    await dialog().getByText("Applies to 2 tubes now.").waitFor();
    const attempts = dialog().getByLabel("attempts at most");
    assert.equal(await attempts.inputValue(), "4");
    assert.ok(await inDialog("Set for 2 tubes").isDisabled());
    await attempts.fill("7");
    await dialog().getByLabel("rate, jobs/seconds").fill("100/60");
    await dialog().getByText("attempts at most: 4 → 7").waitFor();
    await dialog().getByText("rate: none → 100 in 60 s").waitFor();
    await assertAccessible(actions.page, "settings");
    await inDialog("Set for 2 tubes").click();
    await told("Changed the settings of set-*: Applies to 2 tubes now.");
    await card.getByText("7 from set-*").waitFor();
    const settings = `${(await actions.client.ask("inspect-tube set-b")).body}`;
    assert.match(settings, /max-attempts: 7\n.*backoff: 90\n.*rate: 100\/60\n/s);
  });

  it("causes no error, no refused content and no request to another host", () => {
    assert.deepEqual(actions.wrongs, []);
  });
});
