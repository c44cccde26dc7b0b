// Turns of the tubes that a session watches, so that each gets its share by weight.
//
// A turn is virtual time, in integers: when the tube's next job is due. A job, or the time for
// which it is held, postpones the turn of its tube by its cost / weight. The remainder of the
// division is carried over. The floor is the earliest turn of the tubes that had a job to give at
// the last choice. A tube whose turn is before the floor had none, and begins at the floor: it
// saves no credit. By jobs, it begins half a job later, as if its jobs lay in the middle of their
// intervals. The shares are then closest to their due at any time, not just in the long run.
//
// The number of held jobs and the sum of the time that they take are enough to charge that time, so
// a job needs no memory for it.
//
// A session with many tubes keeps them in a ReadyOrder, by turn. The place of a tube by time, while
// the session holds jobs of it, changes with the clock. So these tubes are in a list instead, and a
// choice looks at each of them.

import { assert, CHECKED } from "../../base/assert.ts";
import { ReserveOrder } from "../../protocol/request.ts";
import { betterJob, type JobTable } from "../jobs/job-table.ts";
import { BestHeap } from "../queues/heaps.ts";
import type { Tube } from "../tubes/tube.ts";
import type { TubePlaces } from "./ready-order.ts";

/** Cost of a job in the order Weighted: small weights divide it, so that their turns coincide. */
const JOB_COST = 5040;
/** The turn of a tube that has not begun: before any floor. */
const NOT_BEGUN = -1;
/**
 * Cost of a job in the order WeightedTime, besides its microseconds: each job advances the turn.
 */
const MINIMUM_COST = 1;
/** Expected time of a job of a tube whose jobs have not ended yet, in microseconds. */
const FIRST_GUESS_MICROS = 1000;
/** After this many jobs, the mean of their times forgets half of them. */
const MEAN_JOBS = 64;
/**
 * Maximum number of tubes with held jobs that a choice looks at. With more, the next choices look
 * at the others.
 */
export const HELD_LOOKS_MAX = 1000;

/** The share of one tube. */
export class Share {
  weight = 1;
  turn: number = NOT_BEGUN;
  /** Remainder of the division by the weight. */
  remainder = 0;
  isWatched = true;
  /** Jobs of the tube that the session holds. */
  held = 0;
  /** Microseconds that these jobs have taken by `settledAt`, together. */
  underWay = 0;
  /** In microseconds. */
  settledAt = 0;
  /** Number of jobs that have ended, and their microseconds. */
  ended = 0;
  endedMicros = 0;
  /** Position among the tubes that are looked at in each choice; -1 for none. */
  heldAt = -1;

  charge(cost: number): void {
    if (CHECKED) assert(cost > 0 && this.weight > 0 && this.remainder >= 0, "a turn is postponed by a cost");
    const total = this.remainder + cost;
    this.turn += Math.floor(total / this.weight);
    this.remainder = total % this.weight;
  }

  /**
   * Charges the time of the held jobs up to now. A tube that was ignored and is watched again while
   * jobs of it are held has not begun: their earlier time counts only for their mean.
   */
  settle(nowMs: number): void {
    const now = Math.floor(nowMs * 1000);
    const micros = this.held * (now - this.settledAt);
    if (CHECKED) assert(!Number.isNaN(micros) && this.held >= 0, "held jobs take time");
    this.settledAt = now;
    if (micros <= 0) return;
    this.underWay += micros;
    if (this.turn !== NOT_BEGUN) this.charge(micros);
  }

  /**
   * The expected remaining time of the held jobs, divided by the weight. Without it, all jobs of a
   * batch would come from one tube.
   */
  get expected(): number {
    if (this.held === 0) return 0;
    const mean = this.ended === 0 ? FIRST_GUESS_MICROS : Math.floor(this.endedMicros / this.ended);
    return Math.floor(Math.max(0, this.held * mean - this.underWay) / this.weight);
  }

  /** Notes that one of the held jobs has ended; its time is taken to be their mean. */
  noteEnd(): void {
    assert(this.held > 0 && this.underWay >= 0, "a job that ends was held");
    const micros = Math.floor(this.underWay / this.held);
    this.underWay -= micros;
    this.held--;
    this.endedMicros += micros;
    if (++this.ended < MEAN_JOBS) return;
    this.ended >>= 1;
    this.endedMicros = Math.floor(this.endedMicros / 2);
  }

  /** Returns a copy that may be charged without effect. */
  copy(): Share {
    return Object.assign(new Share(), this, { heldAt: -1 });
  }

  /** Restarts the count. */
  restart(nowMs: number): void {
    this.heldAt = -1;
    this.turn = NOT_BEGUN;
    this.remainder = 0;
    this.underWay = 0;
    this.settledAt = Math.floor(nowMs * 1000);
    this.ended = 0;
    this.endedMicros = 0;
  }
}

/** Counts the shares of all sessions of a shard. */
interface ShareCount {
  shares: number;
}

export class TubeTurns implements TubePlaces {
  order: ReserveOrder = ReserveOrder.Strict;
  /** Earliest turn of the tubes that had a job at the last choice, as far as it is known here. */
  floor = 0;
  /** Earliest turn of the tubes that have a job in the present choice; Infinity for none. */
  earliest: number = Number.POSITIVE_INFINITY;
  /**
   * The place of the chosen tube in the order: its turn plus the expected time of its held jobs.
   */
  place: number = Number.POSITIVE_INFINITY;
  readonly #count: ShareCount;
  readonly #shares = new Map<Tube, Share>();
  readonly #held: Tube[] = [];
  /** Where the next choice begins among them. */
  #heldNext = 0;
  #nowMs = 0;

  constructor(count: ShareCount) {
    this.#count = count;
  }

  /** Whether it determines the choice of jobs, or only remembers weights. */
  get decides(): boolean {
    return this.order !== ReserveOrder.Strict;
  }

  /** The shares of watched tubes, and of others if the session holds jobs of them. */
  get shares(): ReadonlyMap<Tube, Share> {
    return this.#shares;
  }

  /** In an order by time: tubes with held jobs, as far as the order has found them. */
  get held(): readonly Tube[] {
    return this.#held;
  }

  shareOf(tube: Tube): Share {
    let share = this.#shares.get(tube);
    if (share === undefined) {
      share = new Share();
      share.isWatched = false;
      this.#shares.set(tube, share);
      this.#count.shares++;
    }
    return share;
  }

  watch(tube: Tube): void {
    const share = this.shareOf(tube);
    share.isWatched = true;
    share.turn = NOT_BEGUN;
    share.remainder = 0;
  }

  /** Gives a tube a weight, which counts from now on. */
  weigh(tube: Tube, weight: number, nowMs: number): void {
    assert(weight > 0, "a tube has a weight");
    const share = this.shareOf(tube);
    if (this.order === ReserveOrder.WeightedTime) share.settle(nowMs);
    share.weight = weight;
    share.remainder = 0;
  }

  /** Forgets a tube that is no longer watched, as soon as the session holds no job of it. */
  unwatch(tube: Tube): void {
    const share = this.shareOf(tube);
    share.isWatched = false;
    share.weight = 1;
    share.remainder = 0;
    this.#forgetUnused(tube, share);
  }

  #forgetUnused(tube: Tube, share: Share): void {
    if (share.isWatched || share.held > 0) return;
    this.#leaveHeld(share);
    this.#shares.delete(tube);
    this.#count.shares--;
    assert(this.#count.shares >= 0, "shares are counted");
  }

  /** Forgets all tubes, at the end of the session. */
  end(): void {
    this.#count.shares -= this.#shares.size;
    assert(this.#count.shares >= 0, "the shares of a session were counted");
    this.#shares.clear();
    this.#held.length = 0;
  }

  /** Begins an order, from the same turn for all tubes. */
  begin(order: ReserveOrder, nowMs: number): void {
    this.order = order;
    this.floor = 0;
    this.#held.length = 0;
    for (const share of this.#shares.values()) share.restart(nowMs);
  }

  // --- a choice -------------------------------------------------------------------------------

  beginChoice(nowMs: number): void {
    this.#nowMs = nowMs;
    this.earliest = Number.POSITIVE_INFINITY;
    this.place = Number.POSITIVE_INFINITY;
  }

  /** Lets a tube that has a job to give take part in the choice; returns its place in the order. */
  enter(tube: Tube): number {
    const share = this.shareOf(tube);
    this.#bringUp(share, this.#nowMs);
    assert(share.turn >= this.floor, "no tube takes part before the floor");
    if (share.turn < this.earliest) this.earliest = share.turn;
    return this.placeOf(share);
  }

  placeOf(share: Share): number {
    return this.order === ReserveOrder.WeightedTime ? share.turn + share.expected : share.turn;
  }

  #bringUp(share: Share, nowMs: number): void {
    if (this.order === ReserveOrder.WeightedTime) share.settle(nowMs);
    if (share.turn >= this.floor) return;
    const isByJobs = this.order === ReserveOrder.Weighted;
    share.turn = this.floor + (isByJobs ? Math.floor(JOB_COST / 2 / share.weight) : 0);
  }

  raiseFloor(floor: number): void {
    if (CHECKED) assert(!Number.isNaN(floor), "a floor is a turn");
    if (floor > this.floor) this.floor = floor;
  }

  /** Ends a choice that this shard makes alone. */
  endChoice(): void {
    if (this.earliest < Number.POSITIVE_INFINITY) this.raiseFloor(this.earliest);
  }

  /** Notes that a wait ends with a job of this tube, the only tube with a job. */
  waited(tube: Tube, nowMs: number): void {
    if (!this.decides) return;
    const share = this.shareOf(tube);
    this.#bringUp(share, nowMs);
    this.raiseFloor(share.turn);
  }

  // --- an order of many tubes -----------------------------------------------------------------

  placeAtLeast(tube: Tube): number {
    return this.shareOf(tube).turn;
  }

  placeNow(tube: Tube): number {
    const share = this.shareOf(tube);
    this.#bringUp(share, this.#nowMs);
    if (share.held === 0 || this.order === ReserveOrder.Weighted) return share.turn;
    if (CHECKED)
      assert(share.heldAt < 0 || this.#held[share.heldAt] === tube, "a tube is at its position in the list");
    if (share.heldAt < 0) {
      share.heldAt = this.#held.length;
      this.#held.push(tube);
    }
    return Number.NaN;
  }

  #leaveHeld(share: Share): void {
    const { heldAt } = share;
    if (heldAt < 0) return;
    if (CHECKED)
      assert(this.#shares.get(this.#held[heldAt]!) === share, "a tube leaves the list that it is in");
    share.heldAt = -1;
    const last = this.#held.pop();
    assert(last !== undefined, "a tube with held jobs is listed once");
    if (heldAt === this.#held.length) return;
    this.#held[heldAt] = last;
    this.shareOf(last).heldAt = heldAt;
  }

  /**
   * Calls `visit` for the tubes that the order has left to the choice, and returns the number of
   * looks. Those that have no job to give leave the list. The order adds them when they have one.
   */
  eachHeld(gives: (tube: Tube) => boolean, visit: (tube: Tube) => void): number {
    let looks = 0;
    let visits = 0;
    let left = this.#held.length;
    assert(left <= this.#shares.size, "a tube is listed once");
    if (left <= HELD_LOOKS_MAX) this.#heldNext = 0;
    for (; left > 0 && visits < HELD_LOOKS_MAX; left--) {
      if (this.#heldNext >= this.#held.length) this.#heldNext = 0;
      const tube = this.#held[this.#heldNext]!;
      looks++;
      const share = this.shareOf(tube);
      if (share.isWatched && gives(tube)) {
        visit(tube);
        visits++;
        this.#heldNext++;
      } else this.#leaveHeld(share);
    }
    return looks;
  }

  // --- jobs -----------------------------------------------------------------------------------

  /** Charges a job to its tube; it is held from now on. */
  took(tube: Tube, nowMs: number): void {
    const share = this.shareOf(tube);
    if (this.decides) {
      this.#bringUp(share, nowMs);
      this.charge(share);
    }
    share.held++;
  }

  /** Charges a job that is reserved, whose time is not known yet. */
  charge(share: Share): void {
    share.charge(this.order === ReserveOrder.Weighted ? JOB_COST : MINIMUM_COST);
  }

  /** Counts a job as held whose transfer was cancelled, or that was held before the shares. */
  holdsAgain(tube: Tube, nowMs: number): void {
    const share = this.shareOf(tube);
    if (this.order === ReserveOrder.WeightedTime) share.settle(nowMs);
    share.held++;
  }

  /** Notes that a job is no longer held. Returns whether the tube goes back into an order. */
  gaveBack(tube: Tube, nowMs: number): boolean {
    const share = this.shareOf(tube);
    assert(share.held > 0, "a job that is given back was held");
    if (this.order === ReserveOrder.WeightedTime) share.settle(nowMs);
    share.noteEnd();
    this.#forgetUnused(tube, share);
    if (share.held > 0 || !share.isWatched || this.order !== ReserveOrder.WeightedTime) return false;
    this.#leaveHeld(share);
    return true;
  }
}

// The tubes of one batch of a session that picks by weight, in the order of their turns.

export interface TubeInTurn {
  readonly tube: Tube;
  /** The share of the tube, or a copy that a list charges. */
  readonly share: Share;
  /** Place in the order: see `TubeTurns.placeOf`. */
  place: number;
  /** The tube's next job. */
  slot: number;
}

/** Among tubes in the same place, the one with the better job comes first. */
export class TurnHeap<Entry extends TubeInTurn> extends BestHeap<Entry> {
  readonly #jobs: JobTable;

  constructor(jobs: JobTable) {
    super((a, b) => isBefore(jobs, a, b.place, b.slot));
    this.#jobs = jobs;
  }

  /** Returns whether the first entry comes before a tube in this place with this job. */
  isBefore(place: number, slot: number): boolean {
    return this.first !== undefined && isBefore(this.#jobs, this.first, place, slot);
  }
}

function isBefore(jobs: JobTable, a: TubeInTurn, place: number, slot: number): boolean {
  if (CHECKED) assert(!Number.isNaN(a.place + place), "a tube has a place in the order");
  return a.place < place || (a.place === place && betterJob(jobs, a.slot, slot));
}
