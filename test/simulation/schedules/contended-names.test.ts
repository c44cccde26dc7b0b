// Several clients on the same few schedules, over one to seven shards, and the bugs that this must
// find.
//
// NAME_SEEDS=200 npm test -- contended-names

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import "../../support/checked.ts";
import { findOf } from "../../support/planted-find.ts";
import { atNight, inWhole, skipVariant } from "../../support/whole.ts";
import { contendForNames } from "./contended-names.ts";
import { NAME_BUGS } from "./planted-schedule-bugs.ts";

const SEEDS = Number(process.env["NAME_SEEDS"] ?? atNight(12, inWhole(6, 3)));
const FIRST = Number(process.env["SEED"] ?? 1);
const STEPS = 500;
/** Runs in which a planted bug must show. */
const TRIES = 100;

describe("schedules that several clients change at the same time", () => {
  for (const shards of [1, 2, 4, 7])
    it(`are what some order of the commands makes of them, ${shards} shards, ${SEEDS} runs`, async () => {
      const sum = { answers: 0, restarts: 0, ticks: 0, moves: 0 };
      for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
        const counts = await contendForNames({ seed, steps: STEPS, shards });
        for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += counts[key];
      }
      assert.ok(sum.answers > SEEDS * 50 && sum.ticks > SEEDS && sum.restarts > SEEDS, JSON.stringify(sum));
    });
});

describe("planted bugs", () => {
  for (const [index, [name, plant]] of Object.entries(NAME_BUGS).entries())
    it(`finds that ${name}`, { skip: skipVariant(index, 2) }, async () => {
      for (let seed = 1; seed <= TRIES; seed++) {
        const found = await contendForNames({ seed, steps: STEPS, shards: 4, plant }).then(
          () => undefined,
          (error: unknown) => error,
        );
        if (found === undefined) continue;
        findOf(found);
        return;
      }
      assert.fail(`not found in ${TRIES} runs`);
    });
});
