// The groups of one tube: whose turn it is among keys, so that no key with many jobs keeps the others waiting.
//
// Order of a tube's ready jobs: by pri; among equals the group with the fewest jobs in work for its weight; among
// those the group whose turn is longest due; then by id. Jobs without a group are one group, number 0.
//
// Turns are virtual time (weighted fair queueing): a job that is given out puts its group's turn off by 1 / weight,
// and lets time go on by 1 / weight of all groups that have a job to give. A group without jobs is remembered until
// time has passed its turn: forgotten at once, one that comes back with a job now and then would always be first.

import { assert } from "../../base/assert.ts";
import { type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { IndexedHeap } from "./indexed-heap.ts";
import { PriHeap } from "./slot-heap.ts";

/** The group of jobs that have none. */
export const NO_GROUP = 0;

interface Group {
  /** Latin-1; "" for the jobs without one. */
  readonly key: string;
  readonly ready: PriHeap;
  /** That of its latest put, 1 to 1000. */
  weight: number;
  /** Which put that was, while the log is read: the id of its job. Infinity for a put of this process. */
  weighedBy: number;
  /** Jobs of any state, those in work among them. */
  jobs: number;
  /** Jobs that somebody holds. */
  inWork: number;
  /** When its next job is due, in virtual time. */
  turn: number;
  /** Whether it has ready jobs, and as many in work as it may. */
  isBlocked: boolean;
  /** Position among the groups that have a job to give or among the blocked, and among those that are remembered; -1: it is not there. */
  position: number;
  idlePosition: number;
}

/** Groups in the order in which they are served, by their numbers. */
class GroupHeap extends IndexedHeap {
  readonly #jobs: JobTable;
  readonly #groups: readonly (Group | undefined)[];

  constructor(jobs: JobTable, groups: readonly (Group | undefined)[]) {
    super();
    this.#jobs = jobs;
    this.#groups = groups;
  }

  less(a: number, b: number): boolean {
    const left = this.#groups[a]!;
    const right = this.#groups[b]!;
    const leftPage = this.#jobs.pageOf(left.ready.top);
    const rightPage = this.#jobs.pageOf(right.ready.top);
    const leftPri = leftPage.pri[rowOf(left.ready.top)]!;
    const rightPri = rightPage.pri[rowOf(right.ready.top)]!;
    if (leftPri !== rightPri) return leftPri < rightPri;
    // Whole numbers, so that equal shares are equal.
    const share = left.inWork * right.weight - right.inWork * left.weight;
    if (share !== 0) return share < 0;
    if (left.turn !== right.turn) return left.turn < right.turn;
    return leftPage.id[rowOf(left.ready.top)]! < rightPage.id[rowOf(right.ready.top)]!;
  }

  protected positionOf(group: number): number {
    return this.#groups[group]!.position;
  }

  protected place(group: number, position: number): void {
    this.#groups[group]!.position = position;
  }
}

/** Remembered groups without jobs, by their turns. */
class IdleGroups extends IndexedHeap {
  readonly #groups: readonly (Group | undefined)[];

  constructor(groups: readonly (Group | undefined)[]) {
    super();
    this.#groups = groups;
  }

  protected less(a: number, b: number): boolean {
    return this.#groups[a]!.turn < this.#groups[b]!.turn;
  }

  protected positionOf(group: number): number {
    return this.#groups[group]!.idlePosition;
  }

  protected place(group: number, position: number): void {
    this.#groups[group]!.idlePosition = position;
  }
}

/** Groups that one change forgets at once; where time passed more turns, `forgetPassed` goes on with them. */
const FORGOTTEN_AT_ONCE = 64;

/** A group that comes to its limit, or leaves it, costs so many looks at one that does not. */
const CHANGE_LOOKS = 9;

/** Numbers of groups are small, and used again; a job keeps that of its group from its put to its end. */
export class JobGroups {
  /** Told when another job may be next, or the same one may have become ready. */
  onChanged: () => void = () => {};
  /** How many jobs of a group may be in work; those of no group are not limited. */
  #inWorkMax = Number.POSITIVE_INFINITY;
  /** Groups with this number and higher ones may not have come to the present limit yet. */
  #unsettledFrom = 1;
  readonly #jobs: JobTable;
  readonly #groups: (Group | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  readonly #byKey = new Map<string, number>();
  readonly #heap: GroupHeap;
  readonly #idle: IdleGroups;
  readonly #blocked: GroupHeap;
  /** Ready jobs of all groups. */
  #ready = 0;
  #virtualTime = 0;
  /** Of the groups in the heap. */
  #weights = 0;

  /** `plain` are the ready jobs without a group, a heap that is theirs from now on; `inWork` such jobs are held. */
  constructor(jobs: JobTable, plain: PriHeap, inWork: number) {
    this.#jobs = jobs;
    this.#heap = new GroupHeap(jobs, this.#groups);
    this.#blocked = new GroupHeap(jobs, this.#groups);
    this.#idle = new IdleGroups(this.#groups);
    const group = newGroup("", plain);
    group.inWork = inWork;
    this.#groups.push(group);
    this.#ready = plain.size;
    this.#enter(NO_GROUP);
  }

  /** Groups with a key that are known. */
  get size(): number {
    return this.#byKey.size;
  }

  get blocked(): number {
    return this.#blocked.size;
  }

  /** Ready jobs, also those that may not be given now. */
  get ready(): number {
    return this.#ready;
  }

  /** The job to give next, or NO_SLOT: there is none, or all groups that have one have enough in work. */
  get next(): number {
    const number = this.#heap.top;
    return number < 0 ? NO_SLOT : this.#groups[number]!.ready.top;
  }

  /** The same, whatever limits say. */
  get nextBeyondLimits(): number {
    const { top } = this.#heap;
    const blocked = this.#blocked.top;
    const best = top < 0 || (blocked >= 0 && this.#heap.less(blocked, top)) ? blocked : top;
    return best < 0 ? NO_SLOT : this.#groups[best]!.ready.top;
  }

  /**
   * Whether a put of this key would need one group more than `groupsMax`. Those without jobs make room for it, some of them
   * at once: after a limit that became less, it takes the next puts, too, until as few are remembered.
   */
  isFull(key: string, groupsMax: number): boolean {
    if (this.#byKey.has(key)) return false;
    for (let left = FORGOTTEN_AT_ONCE; left > 0 && this.#idle.size > 0; left--) {
      if (this.#byKey.size < groupsMax) break;
      this.#forgetIdle(this.#idle.top);
    }
    return this.#byKey.size - this.#idle.size >= groupsMax;
  }

  /**
   * The number of the group with this key, with one job more; made if there is none. `weight` 0 leaves it as it is. Jobs of
   * the log come in any order: of them the one with the highest id, `by`, says what the group weighs.
   */
  join(key: string, weight: number, by = Number.POSITIVE_INFINITY): number {
    let number = this.#known(key);
    if (number === undefined) {
      number = this.#freeNumbers.pop() ?? this.#groups.length;
      const group = newGroup(key, new PriHeap(this.#jobs));
      group.turn = this.#virtualTime;
      this.#groups[number] = group;
      this.#byKey.set(key, number);
      this.#jobs.groups++;
    }
    const group = this.#group(number);
    group.jobs++;
    if (group.idlePosition >= 0) this.#idle.remove(number);
    if (weight === 0 || by < group.weighedBy) return number;
    group.weighedBy = by;
    if (weight !== group.weight) this.#change(number, () => (group.weight = weight));
    return number;
  }

  /** The number of the group with this key; one whose turn has passed while it had no jobs is as good as forgotten. */
  #known(key: string): number | undefined {
    const number = this.#byKey.get(key);
    if (number === undefined) return undefined;
    const group = this.#group(number);
    if (group.idlePosition < 0 || group.turn > this.#virtualTime) return number;
    this.#forgetIdle(number);
    return undefined;
  }

  /** A job that is in no queue and in no work leaves its group for good. */
  leave(number: number): void {
    const group = this.#group(number);
    assert(group.jobs > 0, "a group has the jobs that are in it");
    group.jobs--;
    if (group.jobs > 0 || number === NO_GROUP) return;
    if (group.turn <= this.#virtualTime) this.#forget(number);
    else this.#idle.push(number);
  }

  /** Makes room for one more ready job; throws RangeError when memory is exhausted, and `push` then does not. */
  makeRoom(number: number): void {
    this.#group(number).ready.makeRoom();
    this.#heap.makeRoom();
    this.#blocked.makeRoom();
  }

  /** A job becomes ready. */
  push(number: number, slot: number): void {
    this.#ready++;
    this.#change(number, (group) => {
      // Its turn can't have come before it had a job.
      if (group.ready.size === 0) group.turn = Math.max(group.turn, this.#virtualTime);
      group.ready.push(slot);
    });
  }

  /** A job is ready no more. */
  remove(number: number, slot: number): void {
    this.#ready--;
    this.#change(number, ({ ready }) => ready.remove(slot));
  }

  /** The priority of a ready job changes. */
  changePri(number: number, slot: number, pri: number): void {
    this.#change(number, ({ ready }) => ready.changePri(slot, pri));
  }

  /** A job, ready no more, was given out: to the group it counts as work, and its turn is put off. */
  hold(number: number): void {
    const { position, isBlocked, weight } = this.#group(number);
    const all = this.#weights + (position < 0 || isBlocked ? weight : 0);
    this.#change(number, (group) => {
      group.inWork++;
      group.turn = Math.max(group.turn, this.#virtualTime) + 1 / group.weight;
    });
    this.#virtualTime += 1 / all;
    this.forgetPassed(FORGOTTEN_AT_ONCE);
  }

  /** A job that was held goes on counting as work: it is on its way to another shard, or back. It was given out once. */
  holdOn(number: number): void {
    this.#change(number, (group) => {
      group.inWork++;
    });
  }

  /** Nobody holds the job any more. */
  unhold(number: number): void {
    this.#change(number, (group) => {
      assert(group.inWork > 0, "a group has the work that was taken from it");
      group.inWork--;
    });
  }

  /**
   * How many jobs of each group may be in work from now on. A group comes to it by `settle`, or with the next change of anything
   * that it has: so one that had less than the limit before may give one job beyond the new one until then.
   */
  limit(inWorkMax: number): void {
    if (inWorkMax === this.#inWorkMax) return;
    this.#inWorkMax = inWorkMax;
    this.#unsettledFrom = 1;
  }

  /** How many groups `settle` has to look at, at most. */
  get unsettled(): number {
    return Math.max(0, this.#groups.length - this.#unsettledFrom);
  }

  /** Brings groups to the limit, for so many looks; returns how many are left of them. */
  settle(looks: number): number {
    let left = looks;
    for (; left > 0 && this.unsettled > 0; left--) {
      const number = this.#unsettledFrom++;
      const group = this.#groups[number];
      if (group === undefined || group.position < 0) continue;
      if (group.isBlocked === this.#isAtLimit(number, group)) continue;
      left -= CHANGE_LOOKS;
      this.#change(number, () => {});
    }
    return left;
  }

  /** What is known of a group, for invariants; undefined for a number that is none's. */
  describe(number: number): Readonly<Pick<Group, "key" | "weight" | "jobs" | "inWork">> | undefined {
    return this.#groups[number];
  }

  #group(number: number): Group {
    const group = this.#groups[number];
    assert(group !== undefined, "a job's group is known");
    return group;
  }

  /** Changes what decides about a group's place among the others. */
  #change(number: number, change: (group: Group) => void): void {
    const group = this.#group(number);
    this.#exit(number, group);
    change(group);
    this.#enter(number);
    this.onChanged();
  }

  #isAtLimit(number: number, group: Group): boolean {
    return number !== NO_GROUP && group.inWork >= this.#inWorkMax;
  }

  #exit(number: number, group: Group): void {
    if (group.position < 0) return;
    if (group.isBlocked) {
      this.#blocked.remove(number);
      return;
    }
    this.#heap.remove(number);
    this.#weights -= group.weight;
  }

  #enter(number: number): void {
    const group = this.#group(number);
    if (group.ready.size === 0) return;
    group.isBlocked = this.#isAtLimit(number, group);
    if (group.isBlocked) {
      this.#blocked.push(number);
      return;
    }
    this.#heap.push(number);
    this.#weights += group.weight;
  }

  #forget(number: number): void {
    this.#byKey.delete(this.#group(number).key);
    this.#jobs.groups--;
    this.#groups[number] = undefined;
    this.#freeNumbers.push(number);
  }

  /** Whether time has passed the turn of a group without jobs that is still remembered. */
  get hasPassed(): boolean {
    const number = this.#idle.top;
    return number >= 0 && this.#group(number).turn <= this.#virtualTime;
  }

  /** Forgets groups without jobs whose turns time has passed, so many at most; returns how many. */
  forgetPassed(groupsMax: number): number {
    let forgotten = 0;
    for (; forgotten < groupsMax && this.hasPassed; forgotten++) this.#forgetIdle(this.#idle.top);
    return forgotten;
  }

  #forgetIdle(number: number): void {
    this.#idle.remove(number);
    this.#forget(number);
  }
}

function newGroup(key: string, ready: PriHeap): Group {
  return {
    key,
    ready,
    weight: 1,
    weighedBy: 0,
    jobs: 0,
    inWork: 0,
    turn: 0,
    isBlocked: false,
    position: -1,
    idlePosition: -1,
  };
}
