// Witness of batches: what shards are told of them, and what their ends do to jobs.

import assert from "node:assert/strict";
import { FlowFlag, JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { BatchRow } from "../../../src/engine/state/batch-table.ts";
import { BatchState } from "../../../src/schema/batch.ts";
import type { EngineCalls } from "./engine-calls.ts";

export class FlowWitness {
  readonly #witness: EngineCalls;
  /** Numbers of the batches that the shard knows to be open, or to have been, in that order. */
  readonly #opened = new Set<number>();

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  watchFlows(): void {
    const { engine, model, shard } = this.#witness;
    // After a restart, in the order of their opening.
    const restored = [...engine.batches.all].toSorted((a, b) => a.openedAtMs - b.openedAtMs);
    for (const { number } of restored) this.#opened.add(number);
    const assume = engine.batches.assume.bind(engine.batches);
    engine.batches.assume = (facts) => {
      model.flows.assume(shard, facts);
      const batch = assume(facts);
      if (facts.state === BatchState.Forgotten) this.#opened.delete(facts.number);
      else if (facts.state !== BatchState.Opening) this.#opened.add(facts.number);
      this.#witness.touched = true;
      this.#witness.sink.changed();
      return batch;
    };
    const assumeEnd = engine.batchEnds.assume.bind(engine.batchEnds);
    engine.batchEnds.assume = (facts) => {
      const batch = assumeEnd(facts);
      this.#witness.sink.followed(shard);
      return batch;
    };
    let waiting: number[] = [];
    let swept: number[] = [];
    let spared: number[] = [];
    const work = engine.batchEnds.work.bind(engine.batchEnds);
    engine.batchEnds.work = (nowMs) => {
      waiting = [...engine.batches.releasing].flatMap((batch) => this.#waitingFor(batch));
      const { sweeping, toSweep } = engine.batches;
      const members = [...sweeping, ...toSweep].flatMap((batch) => this.#membersOf(batch));
      const held = [...sweeping, ...toSweep].flatMap((batch) => this.#membersOf(batch, true));
      work(nowMs);
      spared = held.filter((id) => this.#isSpared(id));
      swept = members.filter((id) => engine.find(id) === NO_SLOT);
    };
    this.#witness.watchPart(this.#witness.engine.batchEnds, "work", ([nowMs], _, seen) =>
      this.#witness.follow(seen, () => model.batchEnds.work(shard, waiting, swept, spared, nowMs)),
    );
  }

  /** The order on which the age of the oldest batch depends. */
  checkOrder(): void {
    const { batches } = this.#witness.engine;
    const expected = [...this.#opened].filter((number) => batches.of(number)!.state !== BatchState.Complete);
    const unfinished = [...batches.counts.unfinished].map(({ number }) => number);
    assert.deepEqual(unfinished, expected, "batches that aren't complete, the oldest first");
  }

  #waitingFor({ waiting }: BatchRow): number[] {
    const { jobs } = this.#witness.engine;
    const ids: number[] = [];
    for (let slot = waiting.first; slot !== NO_SLOT; slot = jobs.pageOf(slot).next[rowOf(slot)]!)
      ids.push(this.#witness.idOf(slot));
    return ids;
  }

  #isSpared(id: number): boolean {
    const slot = this.#witness.engine.find(id);
    if (slot === NO_SLOT) return false;
    return (
      (this.#witness.engine.jobs.pageOf(slot).extras!.flows!.flags[rowOf(slot)]! & FlowFlag.Spared) !== 0
    );
  }

  /** Members that nobody holds, or those that a client holds, by id; without those that stay. */
  #membersOf({ number }: BatchRow, held = false): number[] {
    const { jobs } = this.#witness.engine;
    const ids: number[] = [];
    jobs.forEach((slot) => {
      const page = jobs.pageOf(slot);
      const row = rowOf(slot);
      const flows = page.extras?.flows;
      const stays = FlowFlag.Ended | FlowFlag.Spared;
      const isMember = flows?.batch[row] === number && (flows.flags[row]! & stays) === 0;
      const isHeld = page.state[row] === JobState.Reserved;
      if (isMember && isHeld === held && page.state[row] !== JobState.Moving)
        ids.push(this.#witness.idOf(slot));
    });
    return ids.sort((a, b) => a - b);
  }
}
