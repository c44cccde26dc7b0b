// The stress cases for a moment each, and every planted bug. The long version: npm run stress.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CATALOGUE, type Entry, findPlanted } from "./catalogue.ts";
import { outcomeTable } from "./outcome-table.ts";
import { type CaseReport, hasPassed } from "./run-case.ts";

const SEED = Number(process.env["SEED"] ?? 1);
const SECONDS = 0.15;
/** A machine that is busy with other tests may not get around to everything in that time. */
const LONGER_SECONDS = [1, 10] as const;
/** The other topologies, and the server's planted bug, are for `npm run stress`. */
const SERVER = "server-4x1";
const LIMITS = { timeout: 120_000 };

/** Plays until everything required has happened, or something that must not. */
async function play(entry: Entry): Promise<CaseReport> {
  let report = await entry.run({ seed: SEED, seconds: SECONDS });
  for (const seconds of LONGER_SECONDS) {
    if (report.forbidden.length + report.broken.length > 0 || report.missing.length === 0) break;
    report = await entry.run({ seed: SEED, seconds });
  }
  return report;
}

const played = CATALOGUE.filter(({ name, isServer }) => !isServer || name === SERVER);

describe("stress", () => {
  for (const entry of played) {
    it(`${entry.name}: ${entry.about}`, LIMITS, async (t) => {
      t.diagnostic(`again: npm run stress -- --seed ${SEED} --case ${entry.name}`);
      const report = await play(entry);
      assert.ok(hasPassed(report), outcomeTable(report));
    });
  }
});

const canaries = played.filter(({ isServer }) => !isServer);

// Most of their time they sleep, to see whether anybody wakes them.
describe("stress finds a planted bug (canary)", { concurrency: 2 }, () => {
  for (const entry of canaries) {
    for (const planted of entry.planted) {
      it(`${entry.name}: ${planted}`, LIMITS, async (t) => {
        const found = await findPlanted(entry, planted, SEED);
        assert.ok(found !== undefined, "it was not found");
        t.diagnostic(found.split("\n")[0]!);
      });
    }
  }
});
