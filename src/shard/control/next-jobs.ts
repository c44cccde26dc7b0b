// The first jobs of a tube in the order in which they would be handed out, without taking any out of its queue.

import type { Engine } from "../../engine/engine.ts";
import { betterJob, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import type { StateName } from "../../message/control.ts";

/** What of a heap is read: its members by position, as binary heaps have them. */
interface Heap {
  readonly size: number;
  at(position: number): number;
}

/** Slots, at most `limit`. Reserved jobs have no order of their own in a tube: none. */
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
  // Groups take turns, which depend on what is done meanwhile: their jobs come in the order in which they became ready.
  const list = state === "ready" ? tube.ready : tube.buried;
  for (let slot = list.first; slot !== NO_SLOT && slots.length < limit; )
    slot = jobs.pageOf(slots[slots.push(slot) - 1]!).next[rowOf(slot)]!;
  return slots;
}

/** The first members: those whose parents are all out are in a small heap of their own, as an array kept in order. */
function firstOf(heap: Heap, limit: number, isBefore: (a: number, b: number) => boolean): number[] {
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
  return slots;
}
