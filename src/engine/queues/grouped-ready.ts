// The ready jobs of a tube with groups; replaces the tube's heap when its first job with a group
// arrives.
//
// The jobs are linked in the order in which they became ready, as in any tube; each group has a
// heap of its own.

import { assert, CHECKED } from "../../base/assert.ts";
import { type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { JobGroups, NO_GROUP } from "./job-groups.ts";
import { PriHeap, ReadyHeap } from "./slot-heap.ts";

export class GroupedReady extends ReadyHeap {
  readonly groups: JobGroups;

  /**
   * Takes over the ready jobs of `plain`, which must not be used any more; `inWork` jobs without a
   * group are held.
   */
  constructor(jobs: JobTable, plain: ReadyHeap, inWork: number) {
    super(jobs);
    this.first = plain.first;
    this.last = plain.last;
    this.groups = new JobGroups(jobs, PriHeap.insteadOf(plain), inWork);
    assert(this.size === plain.size, "the groups take over all ready jobs");
  }

  override get size(): number {
    return this.groups.ready;
  }

  /** The next job to give, or NO_SLOT: limits of groups may hold back all ready jobs. */
  override get top(): number {
    return this.groups.next;
  }

  override get best(): number {
    return this.groups.nextBeyondLimits;
  }

  override get tail(): number {
    return this.last;
  }

  /** Makes room for a job without a group; jobs with one make room when they join it. */
  override makeRoom(): void {
    this.groups.makeRoom(NO_GROUP);
  }

  override push(slot: number): void {
    this.groups.push(this.groupOf(slot), slot);
    this.append(slot);
    assert(this.size > 0, "a job of a group is counted as ready");
  }

  override remove(slot: number): void {
    this.groups.remove(this.groupOf(slot), slot);
    this.unlink(slot);
    if (CHECKED)
      assert((this.first === NO_SLOT) === (this.size === 0), "the list and the groups have the same jobs");
  }

  override changePri(slot: number, pri: number): void {
    this.groups.changePri(this.groupOf(slot), slot, pri);
  }

  /** Returns the number of a job's group in its tube. */
  groupOf(slot: number): number {
    return this.jobs.pageOf(slot).extras?.groupRow[rowOf(slot)] ?? NO_GROUP;
  }
}
