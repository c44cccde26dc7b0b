// Invariants of tubes: their queues, lists, users and timers.

import assert from "node:assert/strict";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { DeadlineHeap, JobList, ReadyHeap } from "../../../src/engine/queues/job-heaps.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { type CheckedEngine, NEVER } from "./checked-engine.ts";

export class TubeInvariants {
  readonly #check: CheckedEngine;

  constructor(check: CheckedEngine) {
    this.#check = check;
  }

  heap(heap: ReadyHeap | DeadlineHeap, state: number, column: "pri" | "deadlineAtMs", name: string): void {
    const slots = new Set<number>();
    for (let position = 0; position < heap.size; position++) {
      const slot = heap.at(position);
      assert.ok(!slots.has(slot), `${name}: a job is in it once`);
      slots.add(slot);
      assert.equal(this.#check.state(slot), state, `${name}: its jobs are in state ${state}`);
      if (position === 0) continue;
      const parent = heap.at((position - 1) >> 1);
      const [above, below] = [parent, slot].map((each) => this.#check.page(each)[column][rowOf(each)]!);
      const [aboveId, belowId] = [parent, slot].map((each) => this.#check.page(each).id[rowOf(each)]!);
      assert.ok(above! < below! || (above === below && aboveId! < belowId!), `${name}: heap order`);
    }
    assert.equal(heap.top, heap.size === 0 ? NO_SLOT : heap.at(0), `${name}: top`);
  }

  check(tube: Tube): void {
    const { name } = tube;
    assert.equal(this.#check.engine.findTube(name), tube);
    assert.ok(tube.referenced || name === "default", `${name}: the tube is referenced`);
    if (tube.groups === undefined) this.heap(tube.ready, JobState.Ready, "pri", `${name} ready`);
    this.heap(tube.delayed, JobState.Delayed, "deadlineAtMs", `${name} delayed`);
    assert.equal(
      this.list(tube.buried, JobState.Buried, name),
      tube.jobsIn(JobState.Buried),
      `${name}: all buried jobs are in its list`,
    );
    assert.equal(
      this.list(tube.ready, JobState.Ready, name),
      tube.jobsIn(JobState.Ready),
      `${name}: all ready jobs are in its list`,
    );
    let sinceMs = Number.NEGATIVE_INFINITY;
    for (let slot = tube.ready.first; slot !== NO_SLOT; slot = this.#check.page(slot).next[rowOf(slot)]!) {
      const nextMs = this.#check.page(slot).deadlineAtMs[rowOf(slot)]!;
      assert.ok(nextMs >= sinceMs, `${name}: its ready jobs are linked in the order of becoming so`);
      sinceMs = nextMs;
    }
    assert.equal(tube.readyAt >= 0, tube.ready.size > 0, `${name}: among the tubes with ready jobs`);
    const users = this.#check.sessions.filter((session) => session.used === tube);
    const watchers = this.#check.sessions.filter((session) => session.watches.has(tube));
    assert.equal(tube.using, users.length, `${name}: users`);
    assert.equal(tube.watching, watchers.length, `${name}: watchers`);
    assert.equal(tube.paused, tube.pauseTimer.atMs < NEVER, `${name}: paused while its timer runs`);
    assert.equal(tube.pauseSeconds > 0, tube.paused, `${name}: length of the pause`);
    assert.equal(tube.delayTimer.atMs, this.#check.soonest(tube.delayed), `${name}: timer of delayed jobs`);
  }

  /** Walks a list of jobs in a state; returns how many there are. */
  list(list: JobList | ReadyHeap, state: number, name: string): number {
    let count = 0;
    let previous: number = NO_SLOT;
    for (let slot = list.first; slot !== NO_SLOT; slot = this.#check.page(slot).next[rowOf(slot)]!) {
      assert.equal(this.#check.state(slot), state, `${name}: only jobs in state ${state} are in its list`);
      assert.equal(this.#check.page(slot).previous[rowOf(slot)], previous, `${name}: links of its list`);
      assert.ok(++count <= this.#check.engine.jobs.live, `${name}: its list ends`);
      previous = slot;
    }
    assert.equal(list.last, previous, `${name}: end of its list`);
    return count;
  }
}
