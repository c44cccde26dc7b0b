// Tests that the soak fails when something is wrong: real servers with a fault planted between them
// and their clients.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type FaultName, plant } from "./planted-fault.ts";
import { Soak } from "./soak.ts";
import { Violation } from "./violation.ts";

/** A machine that is busy with other tests may not get around to the fault in the first time. */
const SECONDS = [2, 8, 30] as const;

const CASES: readonly [FaultName, RegExp][] = [
  ["lost-put", /lost/],
  ["undeleted-job", /deleted it, and|deleted, and found again|found it by peek/],
  ["two-holders", /holds it until|was told NOT_FOUND/],
];

for (const [fault, complaint] of CASES) {
  it(`soak: notices a ${fault}`, async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    let error: unknown;
    for (const seconds of SECONDS) {
      const soak = new Soak({ seed: 1, seconds, disk: false, say: () => {}, intermediary: plant(fault) });
      error = await soak.run().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error !== undefined) break;
    }
    assert.ok(error instanceof Violation, `${error ?? "nothing was noticed"}`);
    assert.match(error.message, complaint);
    assert.ok(error.history.length > 0);
  });
}
