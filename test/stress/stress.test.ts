// Tests of the stress cases for a moment each, and of every planted bug. The long version: npm run
// stress.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createTopology } from "../../src/message/topology.ts";
import { LogWord } from "../../src/ring/shared-words.ts";
import { inWhole, skipVariant } from "../support/whole.ts";
import { CATALOGUE, findPlanted, play } from "./catalogue.ts";
import { outcomeTable } from "./outcome-table.ts";
import { hasPassed } from "./run-case.ts";
import { SERVER_CASES, type ServerCase, smallRings } from "./server-case.ts";
import { isRing } from "./server-preload.ts";

const SEED = Number(process.env["SEED"] ?? 1);
const SECONDS = inWhole(0.15, 0.1);
/** The other topologies, and the server's planted bug, are for `npm run stress`. */
const SERVER = "server-4x1";

const played = CATALOGUE.filter(({ name, isServer }) => !isServer || name === SERVER);

describe("stress", () => {
  for (const entry of played) {
    it(`${entry.name}: ${entry.about}`, async (t) => {
      t.diagnostic(`again: npm run stress -- --seed ${SEED} --case ${entry.name}`);
      const report = await play(entry, { seed: SEED, seconds: SECONDS });
      assert.ok(hasPassed(report), outcomeTable(report));
    });
  }
});

/** The rings in the shared memory of such a server that can be smaller. */
function ringsMade({ topology, hasLog, placement, threads }: ServerCase): number {
  const log = { binlog: { repliesWaitFor: LogWord.Synced, segmentBytes: 1_000_000 } };
  const options = {
    ...topology,
    placement,
    threads,
    migration: true,
    jobBytesMax: 65_535,
    ringBytes: 1 << 20,
  };
  const made: unknown[] = [createTopology({ ...options, ...(hasLog ? log : {}) })];
  let rings = 0;
  for (const each of made) {
    if (each instanceof SharedArrayBuffer) rings += isRing(each.byteLength) ? 1 : 0;
    else if (typeof each === "object" && each !== null) made.push(...Object.values(each));
  }
  return rings;
}

// A server is not under stress while some of its rings are large, so a case counts those that were
// made small.
describe("stress covers every ring of a server", () => {
  for (const each of SERVER_CASES) it(each.name, () => assert.equal(smallRings(each), ringsMade(each)));
});

const canaries = played.filter(({ isServer }) => !isServer);

// They mostly sleep, to see whether they are woken.
describe("stress finds a planted bug (canary)", { concurrency: 2 }, () => {
  const bugs = canaries.flatMap((entry) => entry.planted.map((planted) => ({ entry, planted })));
  for (const [index, { entry, planted }] of bugs.entries()) {
    it(`${entry.name}: ${planted}`, { skip: skipVariant(index, 3) }, async (t) => {
      const found = await findPlanted(entry, planted, SEED);
      assert.ok(found !== undefined, "it was not found");
      t.diagnostic(found.split("\n")[0]!);
    });
  }
});
