// Reserves of several jobs by one command, on this shard or over several.

import { assert } from "../base/assert.ts";
import { ReserveOrder } from "../protocol/request.ts";
import { JobCounter } from "../schema/job.ts";
import { betterJob, JobState, type JobTable, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import { type QueueCore, ResumedTubes, TURN_LOOKS } from "./queue-core.ts";
import { BestHeap } from "./queues/heaps.ts";
import { groupOf } from "./queues/job-groups.ts";
import type { Session } from "./state/session.ts";
import { type TubeInTurn, type TubeTurns, TurnHeap } from "./state/tube-turns.ts";
import type { Tube } from "./tubes/tube.ts";

// The rules of a batch: how many of the next best jobs go together.

/** A job as listed for a batch over several shards. */
export interface ListedJob {
  readonly id: number;
  readonly pri: number;
  readonly bodyBytes: number;
}

export interface BatchLimits {
  readonly jobsMax: number;
  /** Maximum bytes of all bodies; the first job goes whatever its size. */
  readonly bytesMax: number;
  /** Whether all jobs belong to the tube and group of the first. */
  readonly oneGroup?: boolean;
}

/**
 * Returns whether a reservation of the job ended by its TTR or with its holder's connection. Such a
 * job travels alone: if it kills its workers, it must not take other jobs down with it again and
 * again.
 */
export function wasLost(jobs: JobTable, slot: number): boolean {
  const page = jobs.pageOf(slot);
  const row = rowOf(slot);
  return (
    page.count(row, JobCounter.reserves) >
    page.count(row, JobCounter.releases) + page.count(row, JobCounter.buries)
  );
}

/** Judges jobs one after another, best first. */
class ReserveBatch {
  readonly #jobs: JobTable;
  readonly #limits: BatchLimits;
  #count = 0;
  #bytes = 0;
  /** Whether no further job fits. */
  isOver = false;

  constructor(jobs: JobTable, limits: BatchLimits) {
    this.#jobs = jobs;
    this.#limits = limits;
  }

  /** Returns whether the job goes with those before it. If not, the batch ends before it. */
  takes(slot: number): boolean {
    assert(slot !== NO_SLOT, "a batch takes jobs");
    if (this.isOver || this.#count === this.#limits.jobsMax) return false;
    const isLost = wasLost(this.#jobs, slot);
    this.#bytes += this.#jobs.pageOf(slot).bodyBytes[rowOf(slot)]!;
    if (this.#count > 0 && (isLost || this.#bytes > this.#limits.bytesMax)) return false;
    this.#count++;
    assert(this.#count <= this.#limits.jobsMax, "a batch has no more jobs than its limit");
    this.isOver = isLost || this.#bytes > this.#limits.bytesMax;
    return true;
  }
}

// Visits the ready jobs of some tubes, best first, without taking any of them out of its queue.

/**
 * A candidate for the next job: all other jobs of its tube come after it or after another
 * candidate.
 */
interface Cursor {
  readonly source: Source;
  /** Position in the heap of the tube's ready jobs. */
  readonly position: number;
  readonly slot: number;
}

/** A tube, and what those of its jobs may cost that still follow. */
interface Source {
  readonly tube: Tube;
  left: number;
}

/**
 * A walk takes log(n + tubes) for its nth job. It is valid only while no job becomes ready or is
 * taken, that is, within one call.
 */
class ReadyWalk {
  readonly #jobs: JobTable;
  readonly #heap: BestHeap<Cursor>;
  /**
   * Whether the next job depends on what becomes of the last one: that job's tube has groups, which
   * take turns.
   */
  isUnsure = false;

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
    this.#heap = new BestHeap((a, b) => betterJob(jobs, a.slot, b.slot));
  }

  /**
   * Adds jobs of a tube that may give its best one now, and others that cost up to `left` with it.
   */
  add(tube: Tube, left: number): void {
    const slot = tube.ready.top;
    assert(slot !== NO_SLOT, "a tube that is walked has a job to give");
    // A job that costs more than a limit has it to itself.
    if (left > 0)
      this.#heap.push({ source: { tube, left: Math.max(left, this.#jobs.costOf(slot)) }, position: 0, slot });
  }

  /** The next job without advancing, or NO_SLOT. */
  get top(): number {
    for (let { first } = this.#heap; first !== undefined; { first } = this.#heap) {
      if (this.#fits(first)) return first.slot;
      this.#heap.pop();
    }
    return NO_SLOT;
  }

  /** Returns whether the job may be given. The first of a tube that may not ends its part. */
  #fits({ source, slot }: Cursor): boolean {
    if (this.#jobs.costOf(slot) <= source.left) return true;
    source.left = 0;
    return false;
  }

  /** Returns the next best job, or NO_SLOT. */
  next(): number {
    for (;;) {
      const best = this.#heap.pop();
      if (best === undefined) return NO_SLOT;
      if (!this.#fits(best)) continue;
      const { source, position, slot } = best;
      source.left -= this.#jobs.costOf(slot);
      assert(slot !== NO_SLOT, "a walk gives jobs");
      const { ready, groups } = source.tube;
      if (groups !== undefined) this.isUnsure = true;
      else
        for (let child = position * 2 + 1; child <= position * 2 + 2 && child < ready.size; child++)
          this.#heap.push({ source, position: child, slot: ready.at(child) });
      return slot;
    }
  }
}

export class BatchReserves {
  readonly #core: QueueCore;

  constructor(core: QueueCore) {
    this.#core = core;
  }

  /**
   * Gives the session as many of the best ready jobs of its watched tubes as one batch allows, and
   * adds them to `into`. The result is the same as that of equally many reserves with no other
   * client in between. Returns their number. If there are none, acts like `reserve` and returns its
   * ReserveOutcome.
   */
  reserve(session: Session, limits: BatchLimits, timeoutMs: number, nowMs: number, into: number[]): number {
    this.#core.runDue(nowMs);
    this.#takeNow(session, limits, nowMs, into);
    if (into.length > 0) return into.length;
    const outcome = this.#core.reserve(session, timeoutMs, nowMs);
    assert(outcome < 0, "a reserve finds no job that the batch missed");
    return outcome;
  }

  /**
   * Gives a session that waits for a batch to fill the same, unless fewer than `min` jobs are ready
   * for it. Returns their number; the wait goes on.
   */
  takeFull(session: Session, limits: BatchLimits, min: number, nowMs: number, into: number[]): number {
    this.#core.runDue(nowMs);
    if (this.#core.readyFor(session) >= min) this.#takeNow(session, limits, nowMs, into);
    return into.length;
  }

  #takeNow(session: Session, limits: BatchLimits, nowMs: number, into: number[]): void {
    assert(into.length === 0, "a batch begins empty");
    const batch = new ReserveBatch(this.#core.jobs, limits);
    const { turns } = session;
    if (limits.oneGroup === true) {
      const slot = this.#core.bestReady(session, nowMs);
      if (slot !== NO_SLOT) session.turns?.endChoice();
      this.#takeFrom(slot, session, batch, nowMs, into);
    } else if (this.#core.isOrdered(session)) this.#takeInOrder(session, batch, nowMs, into);
    else if (turns?.decides === true) {
      this.#takeInTurns(session, turns, batch, nowMs, into);
    } else this.#takeOneByOne(session, batch, nowMs, into);
    assert(into.length <= limits.jobsMax, "a batch has no more jobs than its limit");
  }

  /** Gives the session this job, and those that follow it in its tube and group. */
  #takeFrom(first: number, session: Session, batch: ReserveBatch, nowMs: number, into: number[]): void {
    if (first === NO_SLOT) return;
    const tube = this.#core.tubeOf(first);
    const group = groupOf(this.#core.jobs, first);
    for (let slot = first; slot !== NO_SLOT && batch.takes(slot); slot = this.#nextOf(tube, group, nowMs)) {
      this.#core.assign(slot, session, nowMs);
      into.push(slot);
    }
  }

  /** Returns the next job of a group that may be given now, regardless of turns, or NO_SLOT. */
  #nextOf({ ready, groups, limiter, inWork }: Tube, group: number, nowMs: number): number {
    const slot = groups === undefined ? ready.top : groups.nextOf(group);
    if (slot === NO_SLOT || this.#core.isOverdue(slot, nowMs)) return NO_SLOT;
    return limiter?.isOpen(inWork, nowMs, this.#core.jobs.costOf(slot)) === false ? NO_SLOT : slot;
  }

  #takeInOrder(session: Session, batch: ReserveBatch, nowMs: number, into: number[]): void {
    const turns = session.turns?.decides === true ? session.turns : undefined;
    for (
      let slot = this.#core.bestReady(session, nowMs);
      slot !== NO_SLOT;
      slot = this.#core.bestReady(session, nowMs)
    ) {
      if (!batch.takes(slot)) return;
      if (into.length === 0 || turns?.order === ReserveOrder.Weighted) turns?.endChoice();
      this.#core.assign(slot, session, nowMs);
      into.push(slot);
    }
  }

  #takeOneByOne(session: Session, batch: ReserveBatch, nowMs: number, into: number[]): void {
    const tubes = new ResumedTubes(this.#core.jobs);
    this.#eachServing(session, (tube) => tubes.push(tube));
    for (let tube = tubes.first; tube !== undefined; tube = tubes.first) {
      if (this.#core.isStale(tube)) {
        tubes.pop();
        continue;
      }
      const slot = tube.ready.top;
      assert(slot !== NO_SLOT, "a serving tube has a job");
      if (!batch.takes(slot)) break;
      this.#core.assign(slot, session, nowMs);
      into.push(slot);
      tubes.firstServed();
    }
  }

  /**
   * Adds this shard's candidates for a batch over several shards to `into`, including the job that
   * would end the batch. If the session picks by weight, adds their places in the order to
   * `places`. All jobs stay in their queues. Returns whether there may be more, which depends on
   * the jobs taken before.
   */
  list(session: Session, limits: BatchLimits, nowMs: number, into: number[], places?: number[]): boolean {
    this.#core.runDue(nowMs);
    if (places !== undefined) return this.#listInTurns(session, limits, nowMs, into, places);
    const walk = new ReadyWalk(this.#core.jobs);
    if (!this.#core.isOrdered(session)) {
      this.#eachServing(session, (tube) => walk.add(tube, this.#givesNow(tube, nowMs)));
      return this.#listWalk(walk, limits, into, () => {});
    }
    // Tubes join the walk when their turn in the order comes, and return to the order at the end.
    const joined = new Set<Tube>();
    const join = (): void => {
      for (
        let tube = this.#core.firstInOrder(session);
        tube !== undefined;
        tube = this.#core.firstInOrder(session)
      ) {
        if (!joined.has(tube)) {
          if (!betterJob(this.#core.jobs, tube.ready.top, walk.top)) return;
          joined.add(tube);
          walk.add(tube, this.#givesNow(tube, nowMs));
        }
        session.order!.removeBest();
      }
    };
    const isCut = this.#listWalk(walk, limits, into, join);
    for (const tube of joined) session.order!.add(tube, session.watches.size);
    return isCut;
  }

  /** Adds to `into` what fits into a batch; calls `join` before each step. See `list`. */
  #listWalk(walk: ReadyWalk, limits: BatchLimits, into: number[], join: () => void): boolean {
    const batch = new ReserveBatch(this.#core.jobs, limits);
    while (into.length < limits.jobsMax && !walk.isUnsure) {
      join();
      const slot = walk.next();
      if (slot === NO_SLOT) return false;
      into.push(slot);
      if (!batch.takes(slot) || batch.isOver) return false;
    }
    assert(into.length <= limits.jobsMax, "a batch lists no more jobs than its limit");
    return walk.isUnsure;
  }

  // --- by weight ------------------------------------------------------------------------------

  #takeInTurns(session: Session, turns: TubeTurns, batch: ReserveBatch, nowMs: number, into: number[]): void {
    const heap = new TurnHeap<TubeInTurn>(this.#core.jobs);
    turns.beginChoice(nowMs);
    this.#eachServing(session, (tube) => {
      const place = turns.enter(tube);
      heap.push({ tube, share: turns.shareOf(tube), place, slot: tube.ready.top });
    });
    turns.endChoice();
    for (let entry = heap.first; entry !== undefined; entry = heap.first) {
      const { tube, share, slot } = entry;
      if (!this.#core.gives(tube)) {
        heap.pop();
        continue;
      }
      if (!batch.takes(slot)) break;
      if (turns.order === ReserveOrder.Weighted) turns.raiseFloor(share.turn);
      this.#core.assign(slot, session, nowMs);
      into.push(slot);
      if (!this.#core.gives(tube)) heap.pop();
      else {
        entry.place = turns.placeOf(share);
        entry.slot = tube.ready.top;
        heap.firstChanged();
      }
    }
  }

  /** Lists jobs as if they were taken one after another, and charges copies of the shares. */
  #listInTurns(
    session: Session,
    limits: BatchLimits,
    nowMs: number,
    into: number[],
    places: number[],
  ): boolean {
    const { turns } = session;
    assert(turns?.decides === true, "only a session that picks by weight lists places");
    const heap = new TurnHeap<TubeInTurn & { readonly walk: ReadyWalk }>(this.#core.jobs);
    turns.beginChoice(nowMs);
    const enter = (tube: Tube): void => {
      const walk = new ReadyWalk(this.#core.jobs);
      const givesNow = this.#givesNow(tube, nowMs);
      if (givesNow <= 0) return;
      walk.add(tube, givesNow);
      const place = turns.enter(tube);
      heap.push({ tube, share: turns.shareOf(tube).copy(), walk, place, slot: walk.top });
    };
    if (!this.#core.isOrdered(session)) {
      this.#eachServing(session, enter);
      return this.#listHeap(turns, heap, limits, into, places, () => {});
    }
    // As in `list`. Tubes that the order leaves to the choice join at once.
    const joined = new Set<Tube>();
    let heldSeen = Number.POSITIVE_INFINITY;
    const join = (): void => {
      for (
        let tube = this.#core.firstInOrder(session);
        tube !== undefined;
        tube = this.#core.firstInOrder(session)
      ) {
        if (!joined.has(tube)) {
          if (heap.isBefore(turns.enter(tube), tube.ready.top)) break;
          joined.add(tube);
          enter(tube);
        }
        session.order!.removeBest();
      }
      for (; heldSeen < turns.held.length; heldSeen++)
        if (this.#core.gives(turns.held[heldSeen]!)) enter(turns.held[heldSeen]!);
    };
    join();
    this.#core.looks += TURN_LOOKS * turns.eachHeld((tube) => this.#core.gives(tube), enter);
    heldSeen = turns.held.length;
    const isCut = this.#listHeap(turns, heap, limits, into, places, join);
    for (const tube of joined) session.order!.add(tube, session.watches.size);
    return isCut;
  }

  /** Adds to `into` what fits into a batch; calls `join` before each step. See `list`. */
  #listHeap(
    turns: TubeTurns,
    heap: TurnHeap<TubeInTurn & { readonly walk: ReadyWalk }>,
    limits: BatchLimits,
    into: number[],
    places: number[],
    join: () => void,
  ): boolean {
    const batch = new ReserveBatch(this.#core.jobs, limits);
    while (into.length < limits.jobsMax) {
      join();
      const entry = heap.first;
      if (entry === undefined) return false;
      const { share, walk } = entry;
      const slot = walk.next();
      assert(slot === entry.slot, "a walk returns the job that it has shown");
      into.push(slot);
      places.push(entry.place);
      if (!batch.takes(slot) || batch.isOver) return false;
      if (walk.isUnsure) return true;
      turns.charge(share);
      share.held++;
      entry.slot = walk.top;
      if (entry.slot === NO_SLOT) heap.pop();
      else {
        entry.place = turns.placeOf(share);
        heap.firstChanged();
      }
    }
    return false;
  }

  /** Returns what jobs of the tube may cost now, by its rate limiter and limits. */
  #givesNow({ limiter, inWork }: Tube, nowMs: number): number {
    return limiter === undefined ? Number.POSITIVE_INFINITY : limiter.gives(inWork, nowMs);
  }

  /**
   * Gives the session those of the `listed` jobs that are still available, as part of a batch over
   * several shards, or as the whole batch if `isAlone`. Adds their slots to `into`, and NO_SLOT for
   * the others. Returns their number.
   */
  take(
    session: Session,
    listed: readonly ListedJob[],
    isAlone: boolean,
    nowMs: number,
    into: number[],
  ): number {
    this.#core.runDue(nowMs);
    let taken = 0;
    for (const job of listed) {
      const slot = this.#takeable(session, job, isAlone, nowMs);
      into.push(slot);
      if (slot === NO_SLOT) continue;
      this.#core.assign(slot, session, nowMs);
      taken++;
    }
    assert(into.length === listed.length, "each listed job has an answer");
    return taken;
  }

  /**
   * Gives the session the `listed` job and those that follow it in its tube and group, as a whole
   * batch. Adds them to `into`; none if the listed one is no longer available.
   */
  takeGroup(session: Session, listed: ListedJob, limits: BatchLimits, nowMs: number, into: number[]): void {
    this.#core.runDue(nowMs);
    const slot = this.#takeable(session, listed, true, nowMs);
    this.#takeFrom(slot, session, new ReserveBatch(this.#core.jobs, limits), nowMs, into);
  }

  /** Returns the slot of a ready job that the session may have, or NO_SLOT. */
  #takeable(session: Session, { id, pri, bodyBytes }: ListedJob, isAlone: boolean, nowMs: number): number {
    const slot = this.#core.find(id);
    if (slot === NO_SLOT || this.#core.jobs.pageOf(slot).state[rowOf(slot)] !== JobState.Ready)
      return NO_SLOT;
    // Its priority has changed since it was listed, so other jobs may be better now.
    if (this.#core.jobs.pageOf(slot).pri[rowOf(slot)] !== pri) return NO_SLOT;
    // A put has replaced its body by a larger one, for which the batch has no room.
    if (this.#core.jobs.pageOf(slot).bodyBytes[rowOf(slot)]! > bodyBytes) return NO_SLOT;
    const tube = this.#core.tubeOf(slot);
    if (!tube.open || !session.watches.has(tube)) return NO_SLOT;
    // It may cost more than the job that is next now.
    const cost = this.#core.jobs.costOf(slot);
    if (tube.limiter?.isOpen(tube.inWork, nowMs, cost) === false) return NO_SLOT;
    // Among groups, only the group whose turn it is gives a job.
    if (tube.groups !== undefined && tube.ready.top !== slot) return NO_SLOT;
    if (this.#core.isOverdue(slot, nowMs)) return NO_SLOT;
    // A worker lost the job after it was listed, so it must travel alone.
    return isAlone || !wasLost(this.#core.jobs, slot) ? slot : NO_SLOT;
  }

  /** Calls `visit` for each watched tube that has a job to give now. */
  #eachServing(session: Session, visit: (tube: Tube) => void): void {
    const { readyTubes } = this.#core.queues;
    const { watches, turns } = session;
    const looksPerTube = turns?.decides === true ? TURN_LOOKS : 1;
    this.#core.looks += looksPerTube * Math.min(watches.size, readyTubes.length);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (this.#core.gives(tube)) visit(tube);
    } else {
      for (const tube of readyTubes) if (watches.has(tube) && this.#core.gives(tube)) visit(tube);
    }
  }
}
