// Returns the first jobs of a tube in the order in which they would be reserved, without removing
// them from the queue.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { betterJob, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import type { StateName } from "../../message/control.ts";

/** Read access to a binary heap: its members by position. */
interface Heap {
  readonly size: number;
  at(position: number): number;
}

/** Returns at most `limit` slots; none for reserved jobs, which have no order within a tube. */
export function nextJobs({ jobs }: Engine, tube: Tube, state: StateName, limit: number): number[] {
  const deadlineMs = (slot: number): number => jobs.pageOf(slot).deadlineAtMs[rowOf(slot)]!;
  const id = (slot: number): number => jobs.pageOf(slot).id[rowOf(slot)]!;
  if (state === "ready" && tube.groups === undefined)
    return firstOf(tube.ready, limit, (a, b) => betterJob(jobs, a, b));
  if (state === "delayed") {
    return firstOf(tube.delayed, limit, (a, b) => {
      const byTime = deadlineMs(a) - deadlineMs(b);
      return byTime < 0 || (byTime === 0 && id(a) < id(b));
    });
  }
  const slots: number[] = [];
  if (state === "reserved") return slots;
  // Groups take turns, which depend on later events. Their jobs are listed in the order in which
  // they became ready.
  const list = state === "ready" ? tube.ready : tube.buried;
  for (let slot = list.first; slot !== NO_SLOT && slots.length < limit; )
    slot = jobs.pageOf(slots[slots.push(slot) - 1]!).next[rowOf(slot)]!;
  return slots;
}

/**
 * Returns the first members. The members whose parents are already taken form a small sorted array.
 */
function firstOf(heap: Heap, limit: number, isBefore: (a: number, b: number) => boolean): number[] {
  assert(limit > 0, "the first jobs are one or more");
  const slots: number[] = [];
  /** Positions, the best last. */
  const open: number[] = heap.size > 0 ? [0] : [];
  const insert = (position: number): void => {
    if (position >= heap.size) return;
    let low = 0;
    let high = open.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(heap.at(position), heap.at(open[middle]!))) low = middle + 1;
      else high = middle;
    }
    open.splice(low, 0, position);
  };
  while (slots.length < limit) {
    const position = open.pop();
    if (position === undefined) break;
    slots.push(heap.at(position));
    insert(position * 2 + 1);
    insert(position * 2 + 2);
  }
  assert(slots.length <= heap.size, "a heap has no more jobs than it counts");
  return slots;
}
