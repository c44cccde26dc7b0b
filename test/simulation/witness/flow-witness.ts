// Witness of batches: what shards are told of them, and what their ends do to jobs.

import type { BatchRow } from "../../../src/engine/flows/batch-row.ts";
import { FlowFlag } from "../../../src/engine/jobs/job-flows.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { EngineCalls } from "./engine-calls.ts";

export class FlowWitness {
  readonly #witness: EngineCalls;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  watchFlows(): void {
    const { engine, model, shard } = this.#witness;
    const assume = engine.batches.assume.bind(engine.batches);
    engine.batches.assume = (facts) => {
      model.flows.assume(shard, facts);
      const batch = assume(facts);
      this.#witness.touched = true;
      this.#witness.sink.changed();
      return batch;
    };
    let waiting: number[] = [];
    let swept: number[] = [];
    const work = engine.workOnFlows.bind(engine);
    engine.workOnFlows = (nowMs) => {
      waiting = [...engine.batches.releasing].flatMap((batch) => this.#waitingFor(batch));
      const { sweeping, toSweep } = engine.batches;
      const members = [...sweeping, ...toSweep].flatMap((batch) => this.#membersOf(batch));
      work(nowMs);
      swept = members.filter((id) => engine.find(id) === NO_SLOT);
    };
    this.#witness.watch("workOnFlows", ([nowMs], _, seen) =>
      this.#witness.follow(seen, () => model.batchEnds.work(shard, waiting, swept, nowMs)),
    );
  }

  #waitingFor({ waiting }: BatchRow): number[] {
    const { jobs } = this.#witness.engine;
    const ids: number[] = [];
    for (let slot = waiting.first; slot !== NO_SLOT; slot = jobs.pageOf(slot).next[rowOf(slot)]!)
      ids.push(this.#witness.idOf(slot));
    return ids;
  }

  /** Members that nobody holds, by id. */
  #membersOf({ number }: BatchRow): number[] {
    const { jobs } = this.#witness.engine;
    const ids: number[] = [];
    jobs.forEach((slot) => {
      const page = jobs.pageOf(slot);
      const row = rowOf(slot);
      const flows = page.extras?.flows;
      const isMember = flows?.batch[row] === number && (flows.flags[row]! & FlowFlag.Ended) === 0;
      const isHeld = page.state[row] === JobState.Reserved || page.state[row] === JobState.Moving;
      if (isMember && !isHeld) ids.push(this.#witness.idOf(slot));
    });
    return ids.sort((a, b) => a - b);
  }
}
