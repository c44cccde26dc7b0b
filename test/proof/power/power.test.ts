// Test of a server whose disk loses power. Needs LazyFS; `npm run proof:power` runs longer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { whyNoLazyDisk } from "./lazy-disk.ts";
import { losePowerAgain, POWER_MODES } from "./power-campaign.ts";

const ROUNDS = 3;

for (const mode of POWER_MODES.filter(({ kind }) => kind === "ours"))
  test(`${mode.name} keeps its promise when the power goes`, async (t) => {
    const reason = whyNoLazyDisk();
    if (reason !== undefined) {
      t.skip(`SKIPPED: ${reason}`);
      return;
    }
    const { wrong, acknowledgedPuts, rounds } = await losePowerAgain(mode, ROUNDS, 1);
    assert.deepEqual(wrong, []);
    assert.equal(rounds, ROUNDS);
    assert.ok(acknowledgedPuts > ROUNDS, "there was enough load to say something");
  });
