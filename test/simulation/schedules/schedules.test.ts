// The campaign of schedules on virtual time, and the bugs that it must find.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findOf } from "../../support/planted-find.ts";
import { skipVariant } from "../../support/whole.ts";
import { SCHEDULE_BUGS } from "./planted-schedule-bugs.ts";
import { playSchedules } from "./schedule-campaign.ts";

const SEEDS = Number(process.env["SCHEDULE_SEEDS"] ?? 8);
const FIRST = Number(process.env["SEED"] ?? 1);
/** Campaigns in which a planted bug must show. */
const TRIES = 40;

describe("schedules on virtual time", () => {
  it("put each tick once, through kills, lost power, moves over shards and steps of the clock", async () => {
    let [splits, moves, skips, holds] = [0, 0, 0, 0];
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      try {
        const counts = await playSchedules(seed);
        splits += counts.splits;
        moves += counts.moves;
        skips += counts.skips;
        holds += counts.holds;
      } catch (error) {
        throw new Error(`again: SEED=${seed} SCHEDULE_SEEDS=1 bin/node --test ${import.meta.filename}`, {
          cause: error,
        });
      }
    }
    if (SEEDS === 1) return;
    assert.ok(splits > 0 && moves > 0, "the log was cut inside ticks, and schedules moved");
    assert.ok(skips > 0, "ticks were skipped while a job of their schedule existed");
    assert.ok(holds > 0, "ticks went back with the clock");
  });

  for (const [index, [name, plant]] of Object.entries(SCHEDULE_BUGS).entries())
    it(`find that ${name}`, { skip: skipVariant(index, 2) }, async () => {
      for (let seed = 1; seed <= TRIES; seed++) {
        const found = await playSchedules(seed, plant).then(
          () => undefined,
          (error: unknown) => error,
        );
        if (found === undefined) continue;
        findOf(found);
        return;
      }
      assert.fail(`not found in ${TRIES} campaigns`);
    });
});
