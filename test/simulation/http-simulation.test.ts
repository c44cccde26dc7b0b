// Tests of HTTP and beanstalkd clients on the same tubes: a few seeds of `npm run simulate --
// --http`, and bugs that they must find.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rowOf } from "../../src/engine/jobs/job-table.ts";
import { JobCounter } from "../../src/schema/job.ts";
import { findOf } from "../support/planted-find.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { inWhole } from "../support/whole.ts";
import { type HttpSimulationOptions, simulateHttp } from "./http-simulation.ts";

const SEEDS = inWhole(25, 12);
const STEPS = 250;
/** Seeds after which a planted bug must have been found. */
const PLANTED_SEEDS_MAX = 40;

/** A lease acts on the present holder: its count of reserves isn't compared. */
const ANY_COUNT: HttpSimulationOptions["plant"] = ({ control, server }) => {
  const ask = control.ask.bind(control);
  control.ask = ((shard: number, verb: never, details: never) => {
    if (verb === "leases") {
      const { engine } = server.shards[shard]!;
      for (const change of (details as { changes: { id: number; reserves: number }[] }).changes) {
        const slot = engine.find(change.id);
        if (slot >= 0) change.reserves = engine.jobs.pageOf(slot).count(rowOf(slot), JobCounter.reserves);
      }
    }
    return ask(shard, verb, details);
  }) as typeof control.ask;
};

/** A job that is given to a lease stays ready. */
const STAYS_READY: HttpSimulationOptions["plant"] = ({ server }) => {
  for (const { engine } of server.shards) {
    const hand = engine.hand.bind(engine);
    engine.hand = (slot, from, to) => {
      hand(slot, from, to);
      engine.giveBackOne(to, engine.jobs.pageOf(slot).id[rowOf(slot)]!, server.nowMs);
    };
  }
};

async function isFound(plant: HttpSimulationOptions["plant"]): Promise<boolean> {
  for (let each = 1; each <= PLANTED_SEEDS_MAX; each++) {
    const options = { seed: each, steps: STEPS, ...(plant === undefined ? {} : { plant }) };
    const found = await simulateHttp(options).then(
      () => false,
      (error: unknown) => findOf(error) !== "",
    );
    if (found) return true;
  }
  return false;
}

describe("simulation with clients over HTTP", () => {
  it("loses no job, gives none to two clients, and lets no lease act after its end", async (test) => {
    printSeed(test);
    const sum = { puts: 0, deletes: 0, leases: 0, ended: 0, abandoned: 0 };
    for (let each = 0; each < SEEDS; each++) {
      const result = await simulateHttp({ seed: seed + each, steps: STEPS });
      for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += result[key];
    }
    // All of it happens.
    for (const [what, count] of Object.entries(sum)) assert.ok(count > SEEDS, `${what}: ${count}`);
  });

  for (const [name, plant] of Object.entries({ ANY_COUNT, STAYS_READY }))
    it(`finds a planted bug: ${name}`, async () => {
      assert.ok(await isFound(plant));
    });
});
