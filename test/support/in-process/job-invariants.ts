// Invariants of jobs: their index, their queues, and the counts of an engine.

import assert from "node:assert/strict";
import { JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { URGENT_PRI_LIMIT } from "../../../src/protocol/limits.ts";
import type { CheckedEngine } from "./checked-engine.ts";

const STATES = [
  JobState.Ready,
  JobState.Reserved,
  JobState.Buried,
  JobState.Delayed,
  JobState.Moving,
] as const;

export class JobInvariants {
  readonly #check: CheckedEngine;

  constructor(check: CheckedEngine) {
    this.#check = check;
  }

  check(): void {
    const engine = this.#check.engine;
    const counts = [0, 0, 0, 0, 0, 0];
    const perTube = new Map<Tube, number[]>();
    const urgent = new Map<Tube, number>();
    const bodies = new Set<number>();
    for (const slot of this.#check.slots) {
      const page = this.#check.page(slot);
      const row = rowOf(slot);
      const state = page.state[row]!;
      const id = page.id[row]!;
      assert.equal(engine.find(id), slot, `the index knows job ${id}`);
      const tube = engine.tubeOf(slot);
      assert.equal(engine.tubes.get(tube?.name), tube, `job ${id} lives in a tube that exists`);
      counts[state]!++;
      const inTube = perTube.get(tube) ?? [0, 0, 0, 0, 0, 0];
      inTube[state]!++;
      perTube.set(tube, inTube);
      if (state === JobState.Ready && page.pri[row]! < URGENT_PRI_LIMIT)
        urgent.set(tube, (urgent.get(tube) ?? 0) + 1);
      this.#place(slot, state, tube);
      const body = page.body[row]!;
      if (page.bodyBytes[row]! > 0) {
        assert.ok(!bodies.has(body), `job ${id} has a body of its own`);
        bodies.add(body);
      }
    }
    assert.equal(engine.jobs.live, this.#check.slots.length, "the table counts its jobs");
    for (const state of STATES)
      assert.equal(engine.jobCounts[state], counts[state], `jobs in state ${state}`);
    let urgentJobs = 0;
    for (const tube of engine.tubes.values()) {
      for (const state of STATES)
        assert.equal(
          tube.jobsIn(state),
          perTube.get(tube)?.[state] ?? 0,
          `${tube.name}: jobs in state ${state}`,
        );
      assert.equal(tube.urgentJobs, urgent.get(tube) ?? 0, `${tube.name}: urgent jobs`);
      urgentJobs += tube.urgentJobs;
    }
    assert.equal(engine.urgentJobs, urgentJobs, "urgent jobs");
  }

  /** A job is in the one queue of its state, at the position that it remembers. */
  #place(slot: number, state: number, tube: Tube): void {
    if (state === JobState.Moving || state === JobState.Buried) return;
    if (state === JobState.Ready && tube.groups !== undefined) return;
    const page = this.#check.page(slot);
    const row = rowOf(slot);
    const heap =
      state === JobState.Ready
        ? tube.ready
        : state === JobState.Delayed
          ? tube.delayed
          : this.#check.engine.session(page.holder[row]!).held;
    const position = page.heapPosition[row]!;
    assert.ok(position < heap.size, `job ${page.id[row]} is in the heap of its state`);
    assert.equal(heap.at(position), slot, `job ${page.id[row]} is where it says in the heap of its state`);
  }
}
