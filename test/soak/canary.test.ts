// The soak must fail when something is wrong: real servers with a fault planted between them and their clients.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun, NEEDS } from "../support/need.ts";
import { type FaultName, plant } from "./planted-fault.ts";
import { Soak } from "./soak.ts";
import { Violation } from "./violation.ts";

const SECONDS = 2;

const CASES: readonly [FaultName, RegExp][] = [
  ["lost-put", /lost/],
  ["undeleted-job", /deleted it, and|deleted, and found again|found it by peek/],
  ["two-holders", /holds it until|was told NOT_FOUND/],
];

for (const [fault, complaint] of CASES) {
  it(`soak: notices a ${fault}`, { timeout: 120_000 }, async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const soak = new Soak({
      seed: 1,
      seconds: SECONDS,
      disk: false,
      say: () => {},
      intermediary: plant(fault),
    });
    await assert.rejects(
      soak.run(),
      (error) => error instanceof Violation && complaint.test(error.message) && error.history.length > 0,
    );
  });
}
