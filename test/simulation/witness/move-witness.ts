// Witness of jobs that move to other tubes and shards.

import assert from "node:assert/strict";
import { Outcome } from "../../../src/engine/engine.ts";
import { MoveOutcome } from "../../../src/engine/job-walk.ts";
import type { ModelJob } from "../model/model-types.ts";
import type { EngineCalls } from "./engine-calls.ts";

const MOVE_OUTCOMES = {
  moved: MoveOutcome.Moved,
  stays: MoveOutcome.Stays,
  full: MoveOutcome.Full,
} as const;

export class MoveWitness {
  readonly #witness: EngineCalls;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  #jobOf(id: number): ModelJob {
    const job = this.#witness.model.jobs.get(id);
    assert.ok(job !== undefined, `moving job ${id} exists`);
    return job;
  }

  watchMovesOfJobs(): void {
    const model = this.#witness.model;
    const shard = this.#witness.shard;
    this.#witness.watchPart(
      this.#witness.engine.changes,
      "move",
      ([slot, target, asReady, nowMs], outcome, seen) => {
        if (outcome === MoveOutcome.Elsewhere) {
          this.#witness.elsewhere = target;
          this.#witness.errand = { travel: "move", asReady, delayMs: undefined, facts: undefined };
          return;
        }
        const job = this.#jobOf(this.#witness.idOf(slot));
        const from = job.tube.name;
        const became = this.#witness.follow(seen, () => model.moves.move(job, target, asReady, nowMs));
        assert.equal(outcome, MOVE_OUTCOMES[became], "outcome of a move");
        if (became === "moved") this.#witness.sink.moved(from, target, true);
      },
    );
    this.#witness.watchPart(this.#witness.engine.transfers, "depart", ([slot, transfer, nowMs], _, seen) => {
      const job = this.#jobOf(this.#witness.idOf(slot));
      const errand = this.#witness.errand;
      assert.ok(errand !== undefined, `it is known why job ${job.id} leaves`);
      this.#witness.errand = undefined;
      this.#witness.follow(seen, () => model.moves.depart(job, transfer, errand, nowMs));
      if (errand.travel === "move") this.#witness.sink.moved(job.tube.name, this.#witness.elsewhere, false);
    });
    this.#witness.watchPart(this.#witness.engine.transfers, "leavesFor", ([id, nowMs], target, seen) => {
      const expected = this.#witness.follow(seen, () => model.moves.leavesFor(shard, id, nowMs));
      assert.equal(target, expected, `where job ${id}, which has died, has to go`);
      if (target !== "")
        this.#witness.errand = { travel: "death", asReady: true, delayMs: undefined, facts: undefined };
    });
    this.#witness.watchPart(this.#witness.engine.transfers, "arrive", ([job, , , , nowMs], outcome, seen) => {
      const known = this.#jobOf(job.id);
      const { tube, errand } = known;
      const isTaken = this.#witness.follow(seen, () => model.moves.arrive(known, job.tube, nowMs));
      assert.equal(outcome, isTaken ? Outcome.Done : Outcome.TubeFull, "outcome of an arrival");
      if (errand!.travel === "move" && isTaken) this.#witness.sink.moved(tube.name, job.tube, true);
      const asker = this.#witness.askers.get(job.id);
      this.#witness.askers.delete(job.id);
      if (asker === undefined) return;
      if (isTaken) this.#witness.sink.byId(asker.session, asker.shard, "update-job", job.id, true, true);
      else this.#witness.sink.updateRefused(asker.session, job.id);
    });
    this.#witness.watchPart(this.#witness.engine.transfers, "departed", ([id, transfer, nowMs], _, seen) =>
      this.#witness.follow(seen, () => model.moves.departed(id, shard, transfer, nowMs)),
    );
    this.#witness.watchPart(this.#witness.engine.transfers, "stay", ([id, transfer, nowMs], _, seen) =>
      this.#witness.follow(seen, () => model.moves.stay(this.#jobOf(id), transfer, nowMs)),
    );
  }
}
