// An engine and its sessions, as invariants look at them.

import type { Engine } from "../../../src/engine/engine.ts";
import { type JobPage, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { DeadlineHeap } from "../../../src/engine/queues/job-heaps.ts";
import type { Session } from "../../../src/engine/state/session.ts";

export const NEVER = Number.POSITIVE_INFINITY;

export class CheckedEngine {
  readonly engine: Engine;
  readonly sessions: readonly Session[];
  /** All jobs: to find them takes longer than to check them. */
  readonly slots: readonly number[];
  readonly stillWaiting: (session: Session) => boolean;

  constructor(
    engine: Engine,
    sessions: Iterable<number | Session>,
    stillWaiting: (session: Session) => boolean,
  ) {
    this.engine = engine;
    this.sessions = [...sessions].map((each) => (typeof each === "number" ? engine.session(each) : each));
    this.slots = slotsOf(engine);
    this.stillWaiting = stillWaiting;
  }

  page(slot: number): JobPage {
    return this.engine.jobs.pageOf(slot);
  }

  state(slot: number): number {
    return this.page(slot).state[rowOf(slot)]!;
  }

  soonest(heap: DeadlineHeap): number {
    return heap.top === NO_SLOT ? NEVER : this.page(heap.top).deadlineAtMs[rowOf(heap.top)]!;
  }
}

export function slotsOf({ jobs }: Engine): number[] {
  const slots: number[] = [];
  jobs.forEach((slot) => {
    slots.push(slot);
  });
  return slots;
}
