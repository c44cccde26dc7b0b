// Commands that reserve jobs, wait for them, and end waits and reservations without a release.

import { assert, CHECKED } from "../base/assert.ts";
import { ReserveOrder } from "../protocol/request.ts";
import { Timers } from "./delivery.ts";
import { ENDS, Outcome } from "./jobs/ends.ts";
import { betterJob, JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import { ReadyOrder } from "./state/ready-order.ts";
import { inMargin, type Session, Waiting } from "./state/session.ts";
import { TubeTurns } from "./state/tube-turns.ts";
import type { Tube } from "./tubes/tube.ts";

/** Result of a reserve that returns no job; a job's slot is 0 or more. */
export const ReserveOutcome = { Waits: -1, TimedOut: -2, DeadlineSoon: -3 } as const;

/**
 * With this many times the tubes that a session keeps in an order, it is prepared in steps. To look
 * at 2048 tubes takes a millisecond.
 */
const AT_ONCE = 32;

/** Cost of comparing the turn of a tube, in looks at tubes. */
export const TURN_LOOKS = 4;

export class Reservations extends Timers {
  /**
   * Gives the session the best ready job of its watched tubes. This shard must own all of these
   * tubes, and all jobs that the session holds. Returns the job's slot, or a ReserveOutcome; after
   * `Waits` the answer comes as an effect.
   */
  reserve(session: Session, timeoutMs: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot !== NO_SLOT) {
      session.turns?.endChoice();
      this.assign(slot, session, nowMs);
      return slot;
    }
    if (inMargin(session, nowMs)) return ReserveOutcome.DeadlineSoon;
    if (timeoutMs <= 0 || session.halfClosed) return ReserveOutcome.TimedOut;
    this.#startWaiting(session, Waiting.Alone, nowMs + timeoutMs);
    return ReserveOutcome.Waits;
  }

  reserveJob(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state === JobState.Reserved || state === JobState.Moving) return Outcome.NotFound;
    if (this.batches.waits(slot)) return Outcome.NotFound;
    if (this.isOverdue(slot, nowMs)) return Outcome.NotFound;
    this.assign(slot, session, nowMs);
    // The log treats reserved jobs as ready; this one must not return as buried or delayed after a
    // restart.
    if (state !== JobState.Ready) this.records?.updated(slot);
    return Outcome.Done;
  }

  /** Gives the session a job at least as good as (pri, id); returns its slot or NO_SLOT. */
  takeUpTo(session: Session, pri: number, id: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.pri[row]! > pri || (page.pri[row]! === pri && page.id[row]! > id)) return NO_SLOT;
    this.assign(slot, session, nowMs);
    return slot;
  }

  /**
   * Gives a session that picks by weight the job whose turn it is, unless its place in the order is
   * after `place`, or is equal and the job is worse than (pri, id). Returns its slot or NO_SLOT.
   */
  takeInTurn(session: Session, place: number, pri: number, id: number, nowMs: number): number {
    const { turns } = session;
    assert(turns?.decides === true, "a session that takes turns picks by weight");
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot === NO_SLOT || turns.place > place) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const isWorse = page.pri[row]! > pri || (page.pri[row]! === pri && page.id[row]! > id);
    if (turns.place === place && isWorse) return NO_SLOT;
    this.assign(slot, session, nowMs);
    return slot;
  }

  // --- the best ready job ------------------------------------------------------------------------

  /**
   * Returns the best ready job for the session, by weight if it has chosen so, or NO_SLOT; the job
   * stays in its queue.
   */
  bestReady(session: Session, nowMs: number): number {
    const { turns } = session;
    return turns?.decides === true ? this.#firstInTurn(session, turns, nowMs) : this.#best(session);
  }

  #best(session: Session): number {
    const { readyTubes } = this.queues;
    if (readyTubes.length === 0) return NO_SLOT;
    const { watches } = session;
    if (this.isOrdered(session)) return this.firstInOrder(session)?.ready.top ?? NO_SLOT;
    let best: number = NO_SLOT;
    this.looks += Math.min(watches.size, readyTubes.length);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (tube.readyAt >= 0) best = this.#better(tube, best);
    } else {
      for (const tube of readyTubes) if (watches.has(tube)) best = this.#better(tube, best);
    }
    return best;
  }

  /**
   * Returns whether the session has so many tubes to choose from that it keeps them in an order.
   * While jobs are overdue to expire, the order is unusable: it ignores that their tubes give none.
   */
  protected isOrdered(session: Session): boolean {
    const tubes = Math.min(session.watches.size, this.queues.readyTubes.length);
    if (tubes > this.orderedTubesMin) return this.expiryBehindAtMs === 0;
    if (session.order !== undefined && tubes <= this.orderedTubesMin >> 1) this.endOrder(session);
    return false;
  }

  /** Returns the watched tube whose available job is best. */
  protected firstInOrder(session: Session): Tube | undefined {
    const { readyTubes } = this.queues;
    const order = (session.order ??= this.#newOrder(session));
    const tube = order.best(session.watches, readyTubes);
    assert(tube === undefined || tube.readyAt >= 0, "the first tube in order has a ready job");
    this.looks += order.looks;
    order.looks = 0;
    return tube;
  }

  /** Returns whether the session's next reserve would look at very many tubes. */
  needsOrder(session: Session): boolean {
    const tubes = Math.min(session.watches.size, this.queues.readyTubes.length);
    return (
      tubes > AT_ONCE * this.orderedTubesMin &&
      this.isOrdered(session) &&
      session.order?.isStale(tubes) !== false
    );
  }

  /** Prepares for that reserve, with up to `tubesMax` tubes. Returns whether that was all. */
  prepareOrder(session: Session, tubesMax: number, nowMs: number): boolean {
    assert(tubesMax > 0, "a step looks at a tube");
    this.runDue(nowMs);
    if (!this.needsOrder(session)) return true;
    session.turns?.beginChoice(nowMs);
    const order = (session.order ??= this.#newOrder(session));
    const isComplete = order.build(session.watches, this.queues.readyTubes, tubesMax);
    this.looks += order.looks;
    order.looks = 0;
    return isComplete;
  }

  #newOrder({ turns }: Session): ReadyOrder {
    return new ReadyOrder(this.jobs, this.queues.better, turns?.decides === true ? turns : undefined);
  }

  protected endOrder(session: Session): void {
    session.order?.end();
    session.order = undefined;
  }

  /** Returns the job whose turn it is; `turns` then has its place in the order. */
  #firstInTurn(session: Session, turns: TubeTurns, nowMs: number): number {
    turns.beginChoice(nowMs);
    if (this.isOrdered(session)) return this.#firstOfMany(session, turns);
    const { readyTubes } = this.queues;
    const { watches } = session;
    let best: number = NO_SLOT;
    this.looks += TURN_LOOKS * Math.min(watches.size, readyTubes.length);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (this.gives(tube)) best = this.#sooner(turns, tube, best);
    } else {
      for (const tube of readyTubes)
        if (watches.has(tube) && this.gives(tube)) best = this.#sooner(turns, tube, best);
    }
    return best;
  }

  #firstOfMany(session: Session, turns: TubeTurns): number {
    const tube = this.firstInOrder(session);
    let best = tube === undefined ? NO_SLOT : this.#sooner(turns, tube, NO_SLOT);
    const looks = turns.eachHeld(
      (held) => this.gives(held),
      (held) => (best = this.#sooner(turns, held, best)),
    );
    this.looks += TURN_LOOKS * looks;
    return best;
  }

  /** Returns the tube's best job if its turn comes before that of `best`; otherwise `best`. */
  #sooner(turns: TubeTurns, tube: Tube, best: number): number {
    const place = turns.enter(tube);
    const { top } = tube.ready;
    assert(place >= turns.earliest, "the earliest turn is that of a tube in the choice");
    if (place > turns.place || (place === turns.place && !betterJob(this.jobs, top, best))) return best;
    turns.place = place;
    return top;
  }

  /** Returns whether the tube has a job to give now. */
  protected gives(tube: Tube): boolean {
    return tube.open && tube.readyAt >= 0 && tube.ready.top !== NO_SLOT && !this.isStale(tube);
  }

  /** Returns the tube's best job if it is available and better than `best`; otherwise `best`. */
  #better(tube: Tube, best: number): number {
    const { top } = tube.ready;
    return tube.open && betterJob(this.jobs, top, best) && !this.isStale(tube) ? top : best;
  }

  // --- shares of tubes ---------------------------------------------------------------------------

  /**
   * Returns the shares of the session's tubes. From the beginning, they count the jobs that it
   * holds.
   */
  #turnsOf(session: Session, nowMs: number): TubeTurns {
    if (session.turns !== undefined) return session.turns;
    const turns = new TubeTurns(this.waiters);
    for (const tube of session.watches.keys()) turns.watch(tube);
    const { heldInOrder } = session;
    for (let slot = heldInOrder.first; slot !== NO_SLOT; slot = heldInOrder.behind(slot))
      turns.holdsAgain(this.tubeOf(slot), nowMs);
    this.looks += TURN_LOOKS * (session.watches.size + session.held.size);
    assert(turns.shares.size >= session.watches.size, "each watched tube has a share");
    session.turns = turns;
    return turns;
  }

  /** Gives a weight to a tube that the session watches. */
  weigh(session: Session, name: string, weight: number, nowMs: number): void {
    const tube = this.tubes.get(name);
    assert(tube !== undefined && session.watches.has(tube), "a tube that gets a weight is watched");
    this.#turnsOf(session, nowMs).weigh(tube, weight, nowMs);
  }

  /**
   * Raises the floor of a session with turns to one that another shard or the acceptor has found.
   */
  raiseFloor(session: Session, floor: number): void {
    session.turns?.raiseFloor(floor);
  }

  /** Sets how the session picks jobs, and restarts the counts. */
  setOrder(session: Session, order: ReserveOrder, nowMs: number): void {
    this.runDue(nowMs);
    if (order === ReserveOrder.Strict && session.turns === undefined) return;
    this.endOrder(session);
    const turns = this.#turnsOf(session, nowMs);
    turns.begin(order, nowMs);
    this.looks += turns.shares.size;
  }

  // --- waits -------------------------------------------------------------------------------------

  /**
   * Lets the session wait here for its share of the watched tubes. If a job is ready by now, the
   * session gets it as an effect, unless another shard claims the wait first. `timeoutAtMs` is
   * Infinity on all shards but one.
   */
  waitShared(session: Session, timeoutAtMs: number, nowMs: number): void {
    assert(session.waiting === Waiting.No, "a session begins to wait once");
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot === NO_SLOT) {
      this.#startWaiting(session, Waiting.Shared, timeoutAtMs);
    } else if (this.effects.claim(session)) {
      session.turns?.waited(this.tubeOf(slot), nowMs);
      this.assign(slot, session, nowMs);
      this.effects.reserved(session, slot);
    }
  }

  /** Ends this shard's part of a shared wait that ended elsewhere. */
  stopSharedWait(session: Session): void {
    if (session.waiting === Waiting.Shared) this.waiters.end(session);
    this.sessionTimers.set(session);
  }

  /**
   * Handles a client that can't send any more: its wait ends with a timeout, and no other begins.
   */
  halfClose(session: Session, nowMs: number): void {
    this.runDue(nowMs);
    session.halfClosed = true;
    if (session.waiting !== Waiting.Alone) return;
    this.waiters.end(session);
    this.sessionTimers.set(session);
    this.effects.timedOut(session);
  }

  /** Ends a wait on this shard alone, without an effect; false if a job has just ended it. */
  abortWait(session: Session, nowMs: number): boolean {
    this.runDue(nowMs);
    if (session.waiting !== Waiting.Alone) return false;
    this.waiters.end(session);
    this.sessionTimers.set(session);
    return true;
  }

  /** Ends the wait of a session whose connection is gone, without an effect. */
  abandonWait(session: Session): void {
    if (session.waiting !== Waiting.No) this.waiters.end(session);
    this.sessionTimers.set(session);
  }

  #startWaiting(session: Session, waiting: Waiting, timeoutAtMs: number): void {
    assert(
      waiting === Waiting.Shared || !session.halfClosed,
      "a client that can't send never waits here alone",
    );
    this.waiters.begin(session, waiting, timeoutAtMs);
    this.sessionTimers.set(session);
    assert(session.timer.atMs <= timeoutAtMs, "a wait ends at its timeout at the latest");
  }

  // --- reservations ------------------------------------------------------------------------------

  touch(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.jobTouches++;
    this.queues.renew(slot, session, nowMs);
    this.sessionTimers.set(session);
    return Outcome.Done;
  }

  /**
   * Renews the TTR of up to `jobsMax` jobs that the session holds and that this command has not
   * reached yet; `begins` starts at the first. Returns whether that was all.
   */
  touchSome(session: Session, begins: boolean, jobsMax: number, nowMs: number): boolean {
    assert(jobsMax > 0, "a slice touches a job");
    if (begins) session.nextToTouch = session.heldInOrder.first;
    this.runDue(nowMs);
    let slot = session.nextToTouch;
    for (let left = jobsMax; slot !== NO_SLOT && left > 0; left--) {
      this.queues.renew(slot, session, nowMs);
      slot = session.heldInOrder.behind(slot);
    }
    session.nextToTouch = slot;
    this.sessionTimers.set(session);
    return slot === NO_SLOT;
  }

  /** Moves a reservation to another session, at once or later; its deadline stays. */
  hand(slot: number, from: Session, to: Session): void {
    assert(from !== to, "a reservation is handed to another session");
    this.queues.hand(slot, from, to);
    this.sessionTimers.set(from);
    this.sessionTimers.set(to);
  }

  /** Returns one job that the session holds but that its client never received. */
  giveBackOne(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.takeBack(slot, session, ENDS.Unreceived, nowMs);
    this.sessionTimers.set(session);
    return Outcome.Done;
  }

  /** Ends any session's reservation as its timeout would; NotFound if the job isn't reserved. */
  timeOutNow(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) return Outcome.NotFound;
    const holder = this.holderOf(page.holder[row]!);
    if (CHECKED)
      assert(holder.held.at(page.heapPosition[row]!) === slot, "a reserved job is among those of its holder");
    this.timeOut(slot, holder, nowMs);
    this.sessionTimers.set(holder);
    return Outcome.Done;
  }
}
