// Tests of the order of a batch over many tubes of a shard: the best job of all comes first.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/** Few tubes are looked at one by one, many are kept in order. */
const TUBES = [2, 7, 12, 40] as const;
const JOBS = 300;

it("a batch over many tubes is in the order of priority and id", () => {
  for (let seed = 1; seed <= 12; seed++) {
    const tubes = TUBES[seed % TUBES.length]!;
    const random = new SeededRandom(seed);
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const client = engine.session(0);
    for (let tube = 0; tube < tubes; tube++) engine.watch(client, `t${tube}`);
    const jobs: { id: number; pri: number }[] = [];
    for (let id = 1; id <= JOBS; id++) {
      const pri = random.below(40);
      jobs.push({ id, pri });
      const job = { id, pri, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
      const outcome = engine.put(client, job, EMPTY_BODY, 0, `t${random.below(tubes)}`, undefined);
      assert.equal(outcome, Outcome.Done);
    }
    const expected = jobs.toSorted((a, b) => a.pri - b.pri || a.id - b.id).map(({ id }) => id);
    const limits = { jobsMax: JOBS, bytesMax: 1_000_000 };
    const [listed, reserved]: number[][] = [[], []];
    engine.batchReserves.list(client, limits, 0, listed!);
    assert.equal(engine.batchReserves.reserve(client, limits, 0, 0, reserved!), JOBS);
    for (const slots of [listed!, reserved!]) {
      const ids = slots.map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!);
      assert.deepEqual(ids, expected, `seed ${seed}, ${tubes} tubes`);
    }
  }
});
