// Invariants of counts: those of a shard are the sums of its tubes' counts, and those of a batch
// are what a recount of its jobs finds.

import assert from "node:assert/strict";
import type { Engine } from "../../../src/engine/engine.ts";
import { FlowFlag, JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { BatchRow } from "../../../src/engine/state/batch-table.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { BatchState } from "../../../src/schema/batch.ts";
import { eachOf } from "../../../src/schema/names.ts";
import { COUNTERS, TUBE_COUNTERS } from "../../../src/schema/tube.ts";
import type { CheckedEngine } from "./checked-engine.ts";

/** Each count of a shard that is also kept for each tube. */
const COUNTS: Readonly<
  Record<string, readonly [ofShard: (engine: Engine) => number, of: (tube: Tube) => number]>
> = eachOf(TUBE_COUNTERS, (name) => {
  const row = COUNTERS[name];
  return [
    (engine) => engine[row.shard],
    "policy" in row ? ({ countsIfAny }) => countsIfAny?.[row.policy] ?? 0 : (tube) => tube[row.tube],
  ];
});

type Sums = Record<string, number>;

const sumsOf = (tubes: readonly Tube[]): Sums =>
  Object.fromEntries(
    Object.entries(COUNTS).map(([name, [, of]]) => [name, tubes.reduce((sum, tube) => sum + of(tube), 0)]),
  );

/** What the removed tubes of an engine had counted, as far as the shard has counted it, too. */
const gone = new WeakMap<Engine, Sums>();

/** Follows the tubes of an engine from its first check on. */
function goneOf(engine: Engine): Sums {
  const known = gone.get(engine);
  if (known !== undefined) return known;
  const here = sumsOf([...engine.tubes.values()]);
  const before = Object.fromEntries(
    Object.entries(COUNTS).map(([name, [ofShard]]) => [name, ofShard(engine) - here[name]!]),
  );
  gone.set(engine, before);
  const remove = engine.tubes.remove.bind(engine.tubes);
  engine.tubes.remove = (tube) => {
    for (const [name, count] of Object.entries(sumsOf([tube]))) before[name]! += count;
    remove(tube);
  };
  return before;
}

/** The jobs of a batch by what they count as. */
interface Recount {
  open: number;
  dead: number;
  buried: number;
  moving: number;
  waitingJobs: number;
}

export class CountInvariants {
  readonly #check: CheckedEngine;

  constructor(check: CheckedEngine) {
    this.#check = check;
  }

  check(): void {
    const { engine } = this.#check;
    const before = goneOf(engine);
    const here = sumsOf([...engine.tubes.values()]);
    for (const [name, [ofShard]] of Object.entries(COUNTS))
      assert.equal(ofShard(engine), before[name]! + here[name]!, `${name} of the shard and of its tubes`);
    this.#batches();
  }

  #batches(): void {
    const { batches } = this.#check.engine;
    if (batches.size === 0) return;
    const recounts = this.#recount();
    const all = [...batches.all];
    for (const batch of all) {
      const { number, open, dead, buried, moving, waitingJobs } = batch;
      const expected = recounts.get(number) ?? none();
      assert.deepEqual({ open, dead, buried, moving, waitingJobs }, expected, `jobs of batch ${batch.name}`);
    }
    const { openMembers, waiting, inState, openSinceMs, unfinishedSinceMs } = batches.counts;
    const sum = (of: (batch: BatchRow) => number): number =>
      all.reduce((before, each) => before + of(each), 0);
    assert.equal(
      openMembers,
      sum(({ open }) => open),
      "members of all batches",
    );
    assert.equal(
      waiting,
      sum(({ waitingJobs }) => waitingJobs),
      "jobs that wait for any batch",
    );
    const states = [BatchState.Open, BatchState.Committed, BatchState.Cancelled, BatchState.Complete];
    for (const state of states)
      assert.equal(
        inState[state],
        all.filter(({ counted }) => counted === state).length,
        `batches in state ${state}`,
      );
    // In the order in which this shard learned of them, which only a witness of that can check.
    const inOrder = [...batches.counts.unfinished];
    const isUnfinished = ({ counted }: BatchRow): boolean =>
      counted !== BatchState.Forgotten && counted !== BatchState.Complete;
    assert.deepEqual(new Set(inOrder), new Set(all.filter(isUnfinished)), "batches that aren't complete");
    const oldest = (among: readonly BatchRow[]): number => among[0]?.openedAtMs ?? Number.POSITIVE_INFINITY;
    assert.equal(
      openSinceMs,
      oldest(inOrder.filter(({ counted }) => counted === BatchState.Open)),
      "the oldest open batch",
    );
    assert.equal(unfinishedSinceMs, oldest(inOrder), "the oldest batch that isn't complete");
  }

  #recount(): Map<number, Recount> {
    const recounts = new Map<number, Recount>();
    const of = (number: number): Recount => recounts.getOrInsertComputed(number, none);
    for (const slot of this.#check.slots) {
      const page = this.#check.page(slot);
      const row = rowOf(slot);
      const flows = page.extras?.flows;
      if (flows === undefined) continue;
      const state = page.state[row]!;
      const member = of(flows.batch[row]!);
      const hasEnded = (flows.flags[row]! & FlowFlag.Ended) !== 0;
      if (hasEnded) member.dead++;
      else member.open++;
      if (!hasEnded && state === JobState.Buried) member.buried++;
      if (state === JobState.Moving) {
        member.moving++;
        of(flows.after[row]!).moving++;
      }
      if (state === JobState.Delayed) of(flows.after[row]!).waitingJobs++;
    }
    return recounts;
  }
}

const none = (): Recount => ({ open: 0, dead: 0, buried: 0, moving: 0, waitingJobs: 0 });
