// Random commands on tubes with policies and jobs with attributes, against a model of plain lists;
// sometimes everything goes through the log and returns.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Attribute, KeyState } from "../../../src/protocol/job-attribute.ts";
import { checkArenaAtRest, checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { findOf } from "../../support/planted-find.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { inWhole, skipVariant } from "../../support/whole.ts";
import { PoliciesActs } from "./policies-acts.ts";
import { PoliciesComparison } from "./policies-comparison.ts";
import { type Plant, PoliciesState } from "./policies-state.ts";

const RUNS = inWhole(24, 16);
/** Runs in which a planted bug must show. */
const PLANTED_RUNS = 24;

const STEPS = 300;

class RandomRun extends PoliciesState {
  readonly acts: PoliciesActs = new PoliciesActs(this);
  readonly comparison: PoliciesComparison = new PoliciesComparison(this);

  step(): void {
    const random = this.random;
    const wish = random.below(100);
    if (random.chance(0.3)) this.nowMs += random.pick([1, 50, 400, 1000, 3000])!;
    this.due();
    this.engine.runDue(this.nowMs);
    if (wish < 35) this.acts.put();
    else if (wish < 60) this.acts.reserve();
    else if (wish < 72) this.acts.release();
    else if (wish < 76) this.acts.bury();
    else if (wish < 82) this.acts.delete();
    else if (wish < 88) this.acts.kick();
    else if (wish < 90) this.acts.close();
    else if (wish < 94) this.acts.move();
    else if (wish < 97) this.acts.set();
    else this.acts.restart();
    this.engine.runDue(this.nowMs);
    this.due();
    this.comparison.compare();
    checkInvariants(this.engine, [0]);
    checkArenaAtRest(this.engine);
  }
}

function play(run: number, random: RandomRun): void {
  for (let step = 0; step < STEPS; step++) {
    try {
      random.step();
    } catch (error) {
      throw new Error(`run ${run}, step ${step}`, { cause: error });
    }
  }
}

it("the policies match plain lists: deaths, expiry, waits, refusals, returns", (t) => {
  printSeed(t);
  const sum: Record<string, number> = {};
  for (let run = 0; run < RUNS; run++) {
    const random = new RandomRun(seed + run);
    play(run, random);
    for (const [what, count] of Object.entries(random.seen)) sum[what] = (sum[what] ?? 0) + count;
  }
  for (const [what, count] of Object.entries(sum)) assert.ok(count > 4, `${what}: ${count} times`);
});

/** Faults planted elsewhere, which must be found here. */
const PLANTED: Readonly<Record<string, Plant>> = {
  "a key is kept after its job": ({ policies }) => {
    policies.keys.drop = () => {};
  },
  "a window is lost with its job": ({ policies }) => {
    policies.keys.end = () => false;
  },
  "a key that lasts until the first reservation lasts on": ({ policies }) => {
    policies.keys.reserved = () => {};
  },
  "attempts are not reset at a kick": ({ policies }) => {
    policies.kicked = () => {};
  },
  "a dead job dies once more, and goes in circles": ({ policies }) => {
    const ended = policies.reservationEnded.bind(policies);
    policies.reservationEnded = (slot, tube, end, delayMs, nowMs) => {
      if (policies.deaths.isDead(slot)) policies.deaths.revive(slot, tube);
      return ended(slot, tube, end, delayMs, nowMs);
    };
  },
  "an expired job stays": ({ policies }) => {
    Object.defineProperty(policies, "nextAtMs", { value: Number.POSITIVE_INFINITY });
  },
  "a full tube takes one more": ({ policies }) => {
    policies.isFull = ({ policy, jobs }) => policy !== undefined && jobs > policy.maxJobs;
  },
  "a moved job does not say where it is": ({ policies }) => {
    policies.attributes.isMoved = () => false;
  },
  "a job that moves keeps the key of its old tube": ({ policies }) => {
    policies.keys.leave = () => {};
  },
  "a job that moves frees its key": ({ policies }) => {
    policies.keys.leave = policies.keys.drop;
  },
  "a job that dies frees its key": ({ policies }) => {
    policies.keys.letGo = policies.keys.drop;
  },
  "a key that a job has left behind is not logged": ({ policies }) => {
    policies.keys.depart = () => {};
  },
  "a job that is back in its tube does not get its key": ({ policies }) => {
    const take = policies.keys.take.bind(policies.keys);
    policies.keys.take = (slot, tube) => {
      const before = policies.keys.table.windows;
      if (before === 0) take(slot, tube);
    };
  },
  "the log does not say who has a key": ({ policies }) => {
    policies.keys.write = () => {};
  },
  "a reservation that ends a key is not logged": ({ policies }) => {
    const reserved = policies.keys.reserved.bind(policies.keys);
    policies.keys.reserved = (slot, nowMs) => {
      const { write } = policies.keys;
      // As it was before.
      policies.keys.write = (_extras, _row, writer) => writer.uint8(Attribute.Key, KeyState.HeldFor);
      reserved(slot, nowMs);
      policies.keys.write = write;
    };
  },
  "the log does not hear of what changes": ({ policies }) => {
    policies.attributes.writeMutable = () => {};
  },
};

describe("planted bugs are found", () => {
  for (const [index, [what, plant]] of Object.entries(PLANTED).entries())
    it(what, { skip: skipVariant(index, 2) }, () => {
      let found = 0;
      for (let run = 1; run <= PLANTED_RUNS && found === 0; run++) {
        try {
          play(run, new RandomRun(run, plant));
        } catch (error) {
          if (findOf(error) !== "") found = run;
        }
      }
      assert.ok(found > 0, `not found in ${PLANTED_RUNS} runs`);
    });
});
