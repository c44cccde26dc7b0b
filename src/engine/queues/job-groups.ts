// Fair scheduling among the groups of one tube, so that a group with many jobs does not keep the
// others waiting.
//
// The ready jobs of a tube are ordered by pri. Among equals, the group with the fewest jobs in work
// relative to its weight comes first, then the group whose turn has been due longest, then the
// smaller id. Jobs without a group form one group, number 0.
//
// Turns are virtual time (weighted fair queueing). A reservation postpones its group's turn by 1 /
// weight, and advances the time by 1 / total weight of all groups that have a job to give. A group
// without jobs is remembered until the time has passed its turn. If it were forgotten at once, a
// group that returns with a job now and then would always be first.
//
// One job that costs more than others may be more than its group's share of the workers can do at a
// time, so shares of work can't be seen in what is held now. From the first such job on, groups go
// by their turns alone, and a reservation postpones the turn by cost / weight. The time is then the
// earliest turn of those that have a job to give: so no group loses what it still has to get.
//
// With a rate, each group has a token bucket. A group that lacks the tokens for its next job is
// blocked until they are there. Only `refill` knows the time: it judges the groups that changed.

import { assert, CHECKED } from "../../base/assert.ts";
import { NOTHING_SET, type SettingValues } from "../../schema/setting.ts";
import { type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { IndexedHeap } from "./heaps.ts";
import { PriHeap, ReadyHeap } from "./job-heaps.ts";
import { type BucketSettings, type RetiredLimiters, TokenBucket } from "./token-bucket.ts";

/** The group of jobs that name none. */
export const NO_GROUP = 0;

interface Group {
  /** Latin-1; "" for the jobs without a group. */
  readonly key: string;
  readonly ready: PriHeap;
  /** Weight of the group's latest put, 1 to 1000. */
  weight: number;
  /** Job id of that put, while the log is read. Infinity for a put of this process. */
  weighedBy: number;
  /** Number of jobs in any state, including those in work. */
  jobs: number;
  /** What its reserved jobs cost, and held ones in transit to another shard. */
  inWork: number;
  /** When the group's next job is due, in virtual time. */
  turn: number;
  /** `inWork` as it counts in the order, 0 if groups go by their turns alone. */
  workInOrder: number;
  /** Its tokens, while it has jobs and the tube has a rate for groups. */
  bucket: TokenBucket | undefined;
  /** When there are tokens for its next job, ms, if it lacks them. */
  tokenAtMs: number;
  /** Whether `refill` has to find out if it lacks them. */
  isUnsure: boolean;
  /** Whether the group has ready jobs, but also reached a limit. */
  isBlocked: boolean;
  /**
   * Position among the groups with a job to give or among the blocked ones; and positions among
   * the remembered ones and those that lack tokens; -1 for none.
   */
  position: number;
  idlePosition: number;
  outPosition: number;
}

/** Numbers of groups in the order in which they are served. */
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
    if (CHECKED) assert(left.ready.size > 0 && right.ready.size > 0, "a group in line has a ready job");
    const leftPage = this.#jobs.pageOf(left.ready.top);
    const rightPage = this.#jobs.pageOf(right.ready.top);
    const leftPri = leftPage.pri[rowOf(left.ready.top)]!;
    const rightPri = rightPage.pri[rowOf(right.ready.top)]!;
    if (leftPri !== rightPri) return leftPri < rightPri;
    // Integers, so that equal shares compare as equal.
    const share = left.workInOrder * right.weight - right.workInOrder * left.weight;
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

/** Groups in the order of one of their times. */
class GroupTimes extends IndexedHeap {
  readonly #groups: readonly (Group | undefined)[];
  readonly #time: "turn" | "tokenAtMs";
  readonly #position: "idlePosition" | "outPosition";

  constructor(
    groups: readonly (Group | undefined)[],
    time: "turn" | "tokenAtMs",
    position: "idlePosition" | "outPosition",
  ) {
    super();
    this.#groups = groups;
    this.#time = time;
    this.#position = position;
  }

  /** The earliest time, or Infinity. */
  get nextAt(): number {
    return this.top < 0 ? Number.POSITIVE_INFINITY : this.#groups[this.top]![this.#time];
  }

  /** Removes a group that may be in it. */
  drop(group: number): void {
    if (this.positionOf(group) >= 0) this.remove(group);
  }

  protected less(a: number, b: number): boolean {
    return this.#groups[a]![this.#time] < this.#groups[b]![this.#time];
  }

  protected positionOf(group: number): number {
    return this.#groups[group]![this.#position];
  }

  protected place(group: number, position: number): void {
    this.#groups[group]![this.#position] = position;
  }
}

/** Maximum number of groups that one change forgets; `forgetPassed` handles the rest. */
const FORGOTTEN_AT_ONCE = 64;

/**
 * How far a group may be behind by turns alone, which is as much as the costliest job: one that was
 * blocked doesn't get everything later.
 */
const BEHIND_MAX = 1000;

/**
 * Additional cost of a group that reaches or leaves its limit, in examinations of an unchanged
 * group.
 */
const CHANGE_LOOKS = 9;

/** Group numbers are small and reused; a job keeps its group's number from its put to its end. */
export class JobGroups {
  /** Called when another job may be next, or the same one may have become ready. */
  onChanged: () => void = () => {};
  /** Has the buckets of groups without jobs, by the name of the tube, a blank and the key. */
  buckets: RetiredLimiters | undefined = undefined;
  tube = "";
  /** How often a group began to lack tokens since the engine counted that. */
  waits = 0;
  /** What jobs of a group in work may cost; jobs without a group are not limited. */
  #inWorkMax = Number.POSITIVE_INFINITY;
  #rate: BucketSettings = { rate: "", burst: 1 };
  /** Groups from this number on may not reflect the current limits yet. */
  #unsettledFrom = 1;
  readonly #jobs: JobTable;
  readonly #groups: (Group | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  readonly #byKey = new Map<string, number>();
  readonly #heap: GroupHeap;
  readonly #blocked: GroupHeap;
  readonly #idle: GroupTimes;
  /** Groups that lack the tokens for their next job. */
  readonly #out: GroupTimes;
  /** Groups that changed since the last `refill`, and may lack them. */
  readonly #unsure: number[] = [];
  /** Ready jobs of all groups. */
  #ready = 0;
  #virtualTime = 0;
  /** Whether a job has cost more than 1. */
  #byTurns = false;
  /** Total weight of the groups in the heap. */
  #weights = 0;

  /**
   * `plain` has the ready jobs without a group, and this class owns it from now on; those that are
   * held cost `inWork`.
   */
  constructor(jobs: JobTable, plain: PriHeap, inWork: number) {
    this.#jobs = jobs;
    this.#heap = new GroupHeap(jobs, this.#groups);
    this.#blocked = new GroupHeap(jobs, this.#groups);
    this.#idle = new GroupTimes(this.#groups, "turn", "idlePosition");
    this.#out = new GroupTimes(this.#groups, "tokenAtMs", "outPosition");
    const group = newGroup("", plain);
    group.inWork = inWork;
    this.#groups.push(group);
    this.#ready = plain.size;
    this.#enter(NO_GROUP);
  }

  /** Number of known groups with a key. */
  get size(): number {
    return this.#byKey.size;
  }

  get blocked(): number {
    return this.#blocked.size;
  }

  /** Number of ready jobs, including those that must not be given now. */
  get ready(): number {
    return this.#ready;
  }

  /**
   * The next job to give, or NO_SLOT if there is none or all groups with one have reached their
   * limit.
   */
  get next(): number {
    const number = this.#heap.top;
    return number < 0 ? NO_SLOT : this.#groups[number]!.ready.top;
  }

  /** The next job of one group, or NO_SLOT if there is none or the group has reached its limit. */
  nextOf(number: number): number {
    const { ready, isBlocked } = this.#group(number);
    return isBlocked ? NO_SLOT : ready.top;
  }

  /** The same as `next`, regardless of limits. */
  get nextBeyondLimits(): number {
    const { top } = this.#heap;
    const blocked = this.#blocked.top;
    const best = top < 0 || (blocked >= 0 && this.#heap.less(blocked, top)) ? blocked : top;
    return best < 0 ? NO_SLOT : this.#groups[best]!.ready.top;
  }

  /**
   * Returns whether a put with this key would exceed `groupsMax` groups. Groups without jobs make
   * room, a limited number at a time. After the limit is lowered, it may take several puts until
   * few enough groups are remembered.
   */
  isFull(key: string, groupsMax: number): boolean {
    assert(this.#idle.size <= this.#byKey.size, "only known groups are idle");
    if (this.#byKey.has(key)) return false;
    for (let left = FORGOTTEN_AT_ONCE; left > 0 && this.#idle.size > 0; left--) {
      if (this.#byKey.size < groupsMax) break;
      this.#forgetIdle(this.#idle.top);
    }
    return this.#byKey.size - this.#idle.size >= groupsMax;
  }

  /**
   * Adds a job to the group with this key, creating it if necessary, and returns its number. The
   * group's weight stays.
   */
  join(key: string): number {
    let number = this.#known(key);
    if (number === undefined) {
      number = this.#freeNumbers.pop() ?? this.#groups.length;
      assert(this.#groups[number] === undefined, "a group's number is free");
      const group = newGroup(key, new PriHeap(this.#jobs));
      group.turn = this.#virtualTime;
      this.#groups[number] = group;
      this.#byKey.set(key, number);
      this.#jobs.groups++;
    }
    const group = this.#group(number);
    group.jobs++;
    this.#idle.drop(number);
    if (group.jobs === 1 && this.#rate.rate !== "") this.#fill(group, 0);
    return number;
  }

  /**
   * Sets a group's weight. Jobs of the log come in any order; among them the one with the highest
   * id, `by`, determines the weight.
   */
  weigh(number: number, weight: number, by = Number.POSITIVE_INFINITY): void {
    const group = this.#group(number);
    if (by < group.weighedBy) return;
    group.weighedBy = by;
    if (weight !== group.weight) this.#change(number, () => (group.weight = weight));
  }

  /**
   * Returns the number of the group with this key. Forgets the group if it has no jobs and its turn
   * has passed.
   */
  #known(key: string): number | undefined {
    const number = this.#byKey.get(key);
    if (number === undefined) return undefined;
    const group = this.#group(number);
    if (group.idlePosition < 0 || group.turn > this.#virtualTime) return number;
    this.#forgetIdle(number);
    return undefined;
  }

  /** Removes a job, which is neither in a queue nor in work, from its group for good. */
  leave(number: number): void {
    const group = this.#group(number);
    assert(group.jobs > 0, "a group has the jobs that are in it");
    group.jobs--;
    if (group.jobs > 0 || number === NO_GROUP) return;
    assert(
      group.ready.size === 0 && group.inWork === 0,
      "a group without jobs has none that is ready or in work",
    );
    this.#empty(number, group);
    if (group.turn <= this.#virtualTime) this.#forget(number);
    else this.#idle.push(number);
  }

  /** Gives a group its bucket: the one that it had, or a full one. */
  #fill(group: Group, nowMs: number): void {
    if (group.bucket === undefined) {
      this.#jobs.buckets++;
      group.bucket = this.buckets?.take(`${this.tube} ${group.key}`, this.#rate, TokenBucket);
    }
    group.bucket = (group.bucket ?? new TokenBucket()).set(this.#rate, nowMs);
  }

  /** Takes the bucket of a group, if it has one, and keeps it until it is full. */
  #empty(number: number, group: Group): void {
    if (group.bucket === undefined) return;
    this.#out.drop(number);
    this.buckets?.keep(`${this.tube} ${group.key}`, group.bucket);
    group.bucket = undefined;
    this.#jobs.buckets--;
    assert(this.#jobs.buckets >= 0, "buckets of groups are counted");
  }

  /**
   * Makes room for one more ready job. Throws RangeError when memory is exhausted; a following
   * `push` then does not throw.
   */
  makeRoom(number: number): void {
    this.#group(number).ready.makeRoom();
    this.#heap.makeRoom();
    this.#blocked.makeRoom();
  }

  /** Adds a ready job. */
  push(number: number, slot: number): void {
    this.#ready++;
    if (!this.#byTurns && number !== NO_GROUP && this.#jobs.costOf(slot) > 1) this.#goByTurns();
    this.#change(number, (group) => {
      // The group's turn can't be earlier than its first job.
      if (group.ready.size === 0) group.turn = Math.max(group.turn, this.#earliestTurn);
      group.ready.push(slot);
    });
  }

  /** With costs, a group with small jobs is behind the others' average, and must stay so. */
  get #earliestTurn(): number {
    return this.#virtualTime - (this.#byTurns ? BEHIND_MAX : 0);
  }

  #goByTurns(): void {
    this.#byTurns = true;
    for (let number = 0; number < this.#groups.length; number++)
      if ((this.#groups[number]?.workInOrder ?? 0) > 0) this.#change(number, () => {});
  }

  /** Removes a ready job. */
  remove(number: number, slot: number): void {
    this.#ready--;
    assert(this.#ready >= 0, "a ready job was counted");
    this.#change(number, ({ ready }) => ready.remove(slot));
  }

  /** Changes the priority of a ready job. */
  changePri(number: number, slot: number, pri: number): void {
    this.#change(number, ({ ready }) => ready.changePri(slot, pri));
  }

  /**
   * Counts a reserved job, which is no longer ready, as work of its group, and postpones the
   * group's turn.
   */
  hold(number: number, cost: number): void {
    const { position, isBlocked, weight } = this.#group(number);
    const all = this.#weights + (position < 0 || isBlocked ? weight : 0);
    assert(all > 0, "the group of a job has weight");
    this.#change(number, (group) => {
      group.inWork += cost;
      const start = Math.max(group.turn, this.#earliestTurn);
      group.turn = start + cost / group.weight;
      this.#virtualTime += cost / all;
      if (!this.#byTurns) return;
      const others = this.#heap.top < 0 ? start : this.#group(this.#heap.top).turn;
      this.#virtualTime = Math.max(this.#virtualTime, Math.min(start, others));
    });
    this.forgetPassed(FORGOTTEN_AT_ONCE);
  }

  /** Takes the tokens for a job that was given. */
  took(number: number, cost: number, nowMs: number): void {
    const group = this.#group(number);
    group.bucket?.took(nowMs, cost);
    this.#doubt(number, group);
  }

  /**
   * Counts a held job as work while it is in transit to another shard, or back. Its reservation has
   * already postponed the turn.
   */
  holdOn(number: number, cost: number): void {
    this.#change(number, (group) => {
      group.inWork += cost;
    });
  }

  /** Stops counting a job as work. */
  unhold(number: number, cost: number): void {
    this.#change(number, (group) => {
      assert(group.inWork >= cost, "a group has the work that was taken from it");
      group.inWork -= cost;
    });
  }

  /**
   * Sets the limits of each group. A group adopts them by `settle`, that of work also at its own
   * next change. Until then, a group that was below the old limit may give one job beyond the new
   * one.
   */
  limit({ groupMaxReserved, groupRate, groupBurst }: Readonly<SettingValues> = NOTHING_SET): void {
    const { rate, burst } = this.#rate;
    if (groupMaxReserved === this.#inWorkMax && groupRate === rate && groupBurst === burst) return;
    this.#inWorkMax = groupMaxReserved;
    this.#rate = { rate: groupRate, burst: groupBurst };
    this.#unsettledFrom = 1;
  }

  /** Maximum number of groups that `settle` still has to examine. */
  get unsettled(): number {
    return Math.max(0, this.#groups.length - this.#unsettledFrom);
  }

  /** Applies the limits to groups, with at most `looks` examinations; returns how many are left. */
  settle(looks: number, nowMs: number): number {
    let left = looks;
    for (; left > 0 && this.unsettled > 0; left--) {
      const number = this.#unsettledFrom++;
      const group = this.#groups[number];
      if (group === undefined || group.jobs === 0) continue;
      const hasRate = this.#rate.rate !== "";
      if (hasRate) this.#fill(group, nowMs);
      else if (group.bucket !== undefined) this.#empty(number, group);
      else if (group.position < 0 || group.isBlocked === this.#isAtLimit(number, group)) continue;
      left -= CHANGE_LOOKS;
      this.#change(number, () => {});
      if (hasRate) this.#judge(number, group, nowMs);
    }
    return left;
  }

  // --- tokens -----------------------------------------------------------------------------------

  /** When the first group that lacks tokens has them again, ms, or Infinity. */
  get nextAtMs(): number {
    return this.#out.nextAt;
  }

  /** Blocks groups that lack the tokens for their next job since a change, or lets them go on. */
  refill(nowMs: number): void {
    for (let number = this.#unsure.pop(); number !== undefined; number = this.#unsure.pop()) {
      const group = this.#groups[number];
      if (group?.isUnsure === true) this.#judge(number, group, nowMs);
    }
  }

  /** Lets the first of the groups go on that have their tokens again. */
  refillNext(nowMs: number): void {
    const number = this.#out.top;
    this.#judge(number, this.#group(number), nowMs);
  }

  #doubt(number: number, group: Group): void {
    if (group.bucket === undefined || group.isUnsure || group.bucket.isFull) return;
    group.isUnsure = true;
    this.#unsure.push(number);
  }

  #judge(number: number, group: Group, nowMs: number): void {
    group.isUnsure = false;
    const wasOut = group.outPosition >= 0;
    this.#out.drop(number);
    group.tokenAtMs = Number.POSITIVE_INFINITY;
    if (group.ready.size > 0 && group.bucket !== undefined)
      group.tokenAtMs = group.bucket.tokenAtMs(nowMs, this.#jobs.costOf(group.ready.top));
    if (group.tokenAtMs < Number.POSITIVE_INFINITY) {
      this.#out.push(number);
      if (!wasOut) this.waits++;
    }
    if (group.position < 0 || group.isBlocked === this.#isAtLimit(number, group)) return;
    this.#exit(number, group);
    this.#enter(number);
    this.onChanged();
  }

  /** Returns the properties of a group, for invariants; undefined for an unused number. */
  describe(
    number: number,
  ): Readonly<Pick<Group, "key" | "weight" | "jobs" | "inWork" | "bucket">> | undefined {
    return this.#groups[number];
  }

  #group(number: number): Group {
    const group = this.#groups[number];
    assert(group !== undefined, "a job's group is known");
    return group;
  }

  /** Changes properties of a group, and its position among the others accordingly. */
  #change(number: number, change: (group: Group) => void): void {
    const group = this.#group(number);
    this.#exit(number, group);
    change(group);
    this.#enter(number);
    this.#doubt(number, group);
    this.onChanged();
  }

  /** Returns whether limits keep back the next job. One that costs more than one runs alone. */
  #isAtLimit(number: number, group: Group): boolean {
    if (number === NO_GROUP) return false;
    if (group.outPosition >= 0) return true;
    return group.inWork > 0 && group.inWork + this.#jobs.costOf(group.ready.top) > this.#inWorkMax;
  }

  #exit(number: number, group: Group): void {
    if (group.position < 0) return;
    if (group.isBlocked) {
      this.#blocked.remove(number);
      return;
    }
    this.#heap.remove(number);
    this.#weights -= group.weight;
    assert(this.#weights >= 0, "the weights of groups in line are counted");
  }

  #enter(number: number): void {
    const group = this.#group(number);
    if (group.ready.size === 0) return;
    assert(group.position < 0, "a group is in line once");
    group.workInOrder = this.#byTurns ? 0 : group.inWork;
    group.isBlocked = this.#isAtLimit(number, group);
    if (group.isBlocked) {
      this.#blocked.push(number);
      return;
    }
    this.#heap.push(number);
    this.#weights += group.weight;
  }

  #forget(number: number): void {
    assert(number !== NO_GROUP, "the group of jobs without one stays");
    assert(this.#group(number).jobs === 0, "a group with jobs is remembered");
    this.#byKey.delete(this.#group(number).key);
    this.#jobs.groups--;
    assert(this.#jobs.groups >= 0, "groups are counted");
    this.#groups[number] = undefined;
    this.#freeNumbers.push(number);
  }

  /** Whether the time has passed the turn of a remembered group without jobs. */
  get hasPassed(): boolean {
    return this.#idle.nextAt <= this.#virtualTime;
  }

  /**
   * Forgets up to `groupsMax` groups without jobs whose turns have passed; returns their number.
   */
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
    workInOrder: 0,
    bucket: undefined,
    tokenAtMs: Number.POSITIVE_INFINITY,
    isUnsure: false,
    isBlocked: false,
    position: -1,
    idlePosition: -1,
    outPosition: -1,
  };
}

/** Returns the number of a job's group in its tube. */
export const groupOf = (jobs: JobTable, slot: number): number =>
  jobs.pageOf(slot).extras?.groupRow[rowOf(slot)] ?? NO_GROUP;

// The ready jobs of a tube with groups; replaces the tube's heap when its first job with a group
// arrives.
//
// The jobs are linked in the order in which they became ready, as in any tube; each group has a
// heap of its own.

export class GroupedReady extends ReadyHeap {
  readonly groups: JobGroups;

  /**
   * Takes over the ready jobs of `plain`, which must not be used any more; held jobs without a
   * group cost `inWork`.
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

  groupOf(slot: number): number {
    return groupOf(this.jobs, slot);
  }
}
