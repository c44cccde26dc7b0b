// Tests of faults that a person injects into a run: each happens, and loses nothing that was
// acknowledged.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { skipVariant } from "../support/whole.ts";
import { FAULTS, type Fault, needsLog } from "./faults.ts";
import { simulate } from "./simulation.ts";

const STEPS = 120;
/** Runs with a log, several threads and restarts. */
const SEEDS = [15, 38, 57, 106] as const;
const SAID: Readonly<Record<Fault, RegExp>> = {
  kill: /^the process ends: kill$/,
  power: /^the process ends: power$/,
  torn: /^the power will fail in the middle of the next write$/,
  slow: /^the disk is slow/,
  full: /^the disk (?:is almost full|has room again)$/,
  cut: /^the network drops all connections of acceptor \d$/,
};

/** What is said while faults happen at their steps. */
async function play(seed: number, faults: ReadonlyMap<number, Fault>): Promise<Map<number, string[]>> {
  const said = new Map<number, string[]>();
  let at = 0;
  await simulate({
    ...{ seed, steps: STEPS },
    faultAt: (step) => faults.get(step),
    onStep: (step) => {
      at = step;
    },
    onAct: (what) => {
      said.set(at, [...(said.get(at) ?? []), what]);
    },
  });
  return said;
}

describe("faults by hand", () => {
  for (const [row, fault] of FAULTS.entries())
    it(`"${fault}" happens at its step, and the model agrees with what comes of it`, async () => {
      for (const [place, seed] of SEEDS.entries()) {
        if (skipVariant(row + place, 2) !== false) continue;
        const steps = [20, 55, 90];
        const said = await play(seed, new Map(steps.map((step) => [step, fault])));
        const happened = steps.filter((step) => said.get(step)?.some((what) => SAID[fault].test(what)));
        // A process whose disk has failed ends by itself at its next step.
        assert.ok(happened.length > 0, `seed ${seed}: at none of ${steps}`);
      }
    });

  it("end a process in the middle of a write", async () => {
    let torn = 0;
    for (const seed of SEEDS) {
      const said = await play(seed, new Map([[30, "torn"]]));
      const after = [...said].filter(([step]) => step > 30).flatMap(([, what]) => what);
      const next = after.find((what) => what.startsWith("the process ends: "));
      if (next === "the process ends: power") torn++;
    }
    assert.ok(torn > 0, "a power cut follows");
  });

  it("change nothing before their step, and repeat", async () => {
    const faults = new Map<number, Fault>([[40, "kill"]]);
    const [usual, first, second] = [
      await play(57, new Map()),
      await play(57, faults),
      await play(57, faults),
    ];
    assert.deepEqual(first, second);
    for (let step = 0; step < 40; step++) assert.deepEqual(first.get(step), usual.get(step));
    assert.notDeepEqual(first, usual);
  });

  it("that need a log do nothing without one", async () => {
    for (const fault of FAULTS.filter(needsLog)) {
      const said = await play(1, new Map([[10, fault]]));
      assert.deepEqual(said.get(10) ?? [], []);
    }
  });
});
