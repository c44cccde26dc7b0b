// The queues of jobs, one per state: moves jobs between them, and counts the jobs in each.
//
// The engine decides when a job moves, and serves waiting clients. A job that has left its queue
// keeps its state until it enters the next one; meanwhile only the engine sees it.

import { assert, CHECKED } from "../../base/assert.ts";
import { URGENT_PRI_LIMIT } from "../../protocol/limits.ts";
import { JobCounter } from "../../schema/job.ts";
import { type JobPage, JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { type EarliestTime, TimerHeap } from "../queues/heaps.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { Tube } from "../tubes/tube.ts";
import type { TubeTable } from "../tubes/tube-table.ts";
import type { BatchTable } from "./batch-table.ts";
import { BetterTubes } from "./ready-order.ts";
import type { Session } from "./session.ts";

export class JobQueues {
  /** Number of jobs by JobState, over all tubes; the entry for Free has no meaning. */
  readonly counts: Int32Array = new Int32Array(6);
  urgentJobs = 0;
  /** Tubes with a ready job, paused or not, in no particular order. */
  readonly readyTubes: Tube[] = [];
  /** Tubes whose best job became better. */
  readonly better = new BetterTubes();
  /** Tubes that remember groups needlessly; `tidy` makes them forget these. */
  readonly untidy = new Set<Tube>();
  readonly #jobs: JobTable;
  readonly #batches: BatchTable;
  readonly #tubes: TubeTable;
  /** Tubes by the end of their first delay. */
  readonly delayTimers: TimerHeap<Tube> = new TimerHeap<Tube>();
  readonly #expiryTimers: TimerHeap<Tube>;
  /** Called, possibly in the middle of a change, for a job that is no longer in transit. */
  onSettled: (id: number) => void = () => {};

  /** Keeps `rareDeadlines` up to date with the time when the first job expires. */
  constructor(jobs: JobTable, batches: BatchTable, tubes: TubeTable, rareDeadlines: EarliestTime) {
    this.#jobs = jobs;
    this.#batches = batches;
    this.#tubes = tubes;
    this.#expiryTimers = new TimerHeap<Tube>(rareDeadlines);
  }

  /** The delayed job that becomes ready first, or NO_SLOT. */
  get nextDelayed(): number {
    return this.delayTimers.first?.delayed.top ?? NO_SLOT;
  }

  /** Makes tubes forget groups whose turns have passed, at most this many. */
  tidy(groupsMax: number): void {
    let left = groupsMax;
    for (const tube of this.untidy) {
      assert(tube.groups !== undefined, "an untidy tube has groups");
      left -= tube.groups.forgetPassed(left);
      if (left <= 0) return;
      this.untidy.delete(tube);
    }
  }

  /** When the first ready or delayed job of all tubes expires, or Infinity. */
  get nextExpiryAtMs(): number {
    return this.#expiryTimers.nextAtMs;
  }

  /** The job that expires first, or NO_SLOT. */
  get nextExpiring(): number {
    return this.#expiryTimers.first?.expiry.top ?? NO_SLOT;
  }

  // --- into a queue ---------------------------------------------------------------------------

  /**
   * Makes a job ready. `sinceMs` must not be before that of the tube's latest ready job, except in
   * a restore.
   */
  becomeReady(slot: number, tube: Tube, sinceMs: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    page.deadlineAtMs[row] = sinceMs;
    this.#change(page, row, tube, JobState.Ready);
    if (page.pri[row]! < URGENT_PRI_LIMIT) {
      tube.urgentJobs++;
      this.urgentJobs++;
    }
    const { ready } = tube;
    ready.push(slot);
    if (this.better.followers > 0 && ready.top === slot) this.better.note(tube);
    if (page.extras !== undefined) this.#beginExpiry(slot, tube);
    if (tube.readyAt < 0) {
      tube.readyAt = this.readyTubes.length;
      this.readyTubes.push(tube);
    }
  }

  becomeDelayed(slot: number, tube: Tube, deadlineAtMs: number): void {
    assert(deadlineAtMs < Number.POSITIVE_INFINITY, "a delay has an end");
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    // A moving job keeps its previous state in the column that links jobs waiting for a batch.
    this.#change(page, row, tube, JobState.Delayed);
    page.deadlineAtMs[row] =
      page.extras?.flows === undefined ? deadlineAtMs : this.#batches.beginWait(slot, deadlineAtMs);
    tube.delayed.push(slot);
    this.#setDelayTimer(tube);
    if (page.extras !== undefined) this.#beginExpiry(slot, tube);
  }

  becomeBuried(slot: number, tube: Tube, sinceMs: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    page.deadlineAtMs[row] = sinceMs;
    this.#change(page, row, tube, JobState.Buried);
    tube.buriedJobs++;
    assert(
      tube.buriedJobs <= this.counts[JobState.Buried]!,
      "a tube's buried jobs are included in the total",
    );
    tube.buried.append(slot);
    if (page.extras !== undefined) this.#batches.countBuried(page, row, 1);
  }

  /**
   * Marks a job that has left its queue as moving to another shard, with the transfer of this
   * number.
   */
  becomeMoving(slot: number, tube: Tube, transfer: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(
      page.state[row] !== JobState.Moving && page.state[row] !== JobState.Free,
      "only a job on this shard departs",
    );
    page.previous[row] = page.state[row]!;
    page.next[row] = transfer;
    this.#change(page, row, tube, JobState.Moving);
    this.#startMoving(page, row, tube);
  }

  /**
   * Returns a job that was held, and did not move, to its holder; the caller sets the session's
   * timer.
   */
  becomeHeldAgain(slot: number, tube: Tube, session: Session): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.holder[row] === session.index, "a job goes back to its holder");
    assert(page.state[row] === JobState.Moving, "only a job in transit goes back");
    this.#change(page, row, tube, JobState.Reserved);
    tube.reservedJobs++;
    this.#holdOn(page, row, tube);
    session.held.push(slot);
    session.heldInOrder.append(slot);
  }

  /**
   * Gives the job to a session for its TTR; the caller sets the session's timer. Returns whether a
   * policy may apply.
   */
  becomeReserved(slot: number, session: Session, nowMs: number): boolean {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.#tubes.at(page.tube[row]!);
    tube.reserves++;
    this.#change(page, row, tube, JobState.Reserved);
    tube.reservedJobs++;
    const { extras } = page;
    if (extras !== undefined) tube.extraWork += extras.extraCost[row]!;
    if (tube.groups !== undefined) {
      tube.groups.hold(extras?.groupRow[row] ?? NO_GROUP, 1 + (extras?.extraCost[row] ?? 0));
      if (tube.groups.hasPassed) this.untidy.add(tube);
    }
    page.addTo(row, JobCounter.reserves);
    page.holder[row] = session.index;
    page.deadlineAtMs[row] = nowMs + page.ttrSeconds[row]! * 1000;
    session.held.push(slot);
    session.heldInOrder.append(slot);
    return (
      extras !== undefined ||
      tube.limiter !== undefined ||
      tube.keepFinished > 0 ||
      page.startedAtMs !== undefined
    );
  }

  /** Restarts the TTR of a reserved job; the caller sets the session's timer. */
  renew(slot: number, session: Session, nowMs: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.holder[row] === session.index, "a reservation is renewed for its holder");
    session.held.remove(slot);
    page.deadlineAtMs[row] = nowMs + page.ttrSeconds[row]! * 1000;
    session.held.push(slot);
  }

  /** Changes the priority of a job, which stays in its queue. */
  reprioritise(slot: number, tube: Tube, pri: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Ready) {
      page.pri[row] = pri;
      return;
    }
    const change = Number(pri < URGENT_PRI_LIMIT) - Number(page.pri[row]! < URGENT_PRI_LIMIT);
    tube.urgentJobs += change;
    this.urgentJobs += change;
    tube.ready.changePri(slot, pri);
    assert(tube.urgentJobs >= 0 && this.urgentJobs >= tube.urgentJobs, "urgent jobs are counted");
    this.improved(tube);
  }

  /**
   * Notes that the best job of a tube may be better than before; `becomeReady` does this itself.
   */
  improved(tube: Tube): void {
    if (this.better.followers > 0) this.better.note(tube);
  }

  /**
   * Moves a reservation unchanged from one session to another; the caller sets the timers of both.
   */
  hand(slot: number, from: Session, to: Session): void {
    assert(
      this.#jobs.pageOf(slot).holder[rowOf(slot)] === from.index,
      "only the holder hands a reservation on",
    );
    assert(
      this.#jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved,
      "only a reservation is handed on",
    );
    this.leaveHolder(slot, from);
    this.#jobs.pageOf(slot).holder[rowOf(slot)] = to.index;
    to.held.push(slot);
    to.heldInOrder.append(slot);
  }

  /**
   * Stops counting a job that is in no queue, for good or until it enters a queue of this or
   * another tube.
   */
  becomeFree(slot: number, tube: Tube): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#change(page, row, tube, JobState.Free);
  }

  // --- out of a queue -------------------------------------------------------------------------

  /**
   * Takes a ready, delayed or buried job out of its queue; the caller puts it into the next one.
   */
  leave(slot: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.#tubes.at(page.tube[row]!);
    const state = page.state[row];
    if (state === JobState.Ready) {
      tube.ready.remove(slot);
      if (tube.ready.size === 0) {
        const last = this.readyTubes.pop();
        assert(last !== undefined, "a tube with a ready job is among those that have one");
        if (last !== tube) {
          this.readyTubes[tube.readyAt] = last;
          last.readyAt = tube.readyAt;
        }
        tube.readyAt = -1;
      }
    } else if (state === JobState.Delayed) {
      tube.delayed.remove(slot);
      this.#setDelayTimer(tube);
      if (page.extras?.flows !== undefined) this.#batches.endWait(slot);
    } else {
      assert(state === JobState.Buried, "a reserved job belongs to its holder");
      assert(tube.buriedJobs > 0, "a buried job is counted");
      tube.buried.remove(slot);
      return;
    }
    if (page.extras !== undefined) this.#endExpiry(slot, tube);
  }

  #beginExpiry(slot: number, tube: Tube): void {
    if (this.#jobs.pageOf(slot).extras!.expiresAtMs[rowOf(slot)] === 0) return;
    if (CHECKED)
      assert(
        this.#jobs.pageOf(slot).extras!.expiryPosition[rowOf(slot)]! < 0,
        "a job is among those that expire at most once",
      );
    tube.expiry.push(slot);
    this.#expiryTimers.set(tube.expiryTimer, tube.expiry.soonestMs);
  }

  #endExpiry(slot: number, tube: Tube): void {
    if (this.#jobs.pageOf(slot).extras!.expiryPosition[rowOf(slot)]! < 0) return;
    tube.expiry.remove(slot);
    this.#expiryTimers.set(tube.expiryTimer, tube.expiry.soonestMs);
  }

  /** Sets a job's expiry time; 0 for never. */
  expireAt(slot: number, tube: Tube, atMs: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const extras = page.makeExtras();
    this.#endExpiry(slot, tube);
    extras.expiresAtMs[row] = atMs;
    // The expiry applies only while the job is ready or delayed, and resumes when it is so again.
    if (page.state[row] === JobState.Ready || page.state[row] === JobState.Delayed)
      this.#beginExpiry(slot, tube);
  }

  /**
   * Takes a reserved job from its holder; the caller puts it into the next queue, and sets the
   * session's timer.
   */
  leaveHolder(slot: number, session: Session): void {
    if (session.nextToTouch === slot) session.nextToTouch = session.heldInOrder.behind(slot);
    session.held.remove(slot);
    session.heldInOrder.remove(slot);
  }

  // A held job that moves still counts as held for its group and its tube until it has arrived.

  #startMoving(page: JobPage, row: number, tube: Tube): void {
    tube.movingJobs++;
    assert(
      tube.movingJobs <= this.counts[JobState.Moving]!,
      "a tube's jobs in transit are included in the total",
    );
    if (page.previous[row] !== JobState.Reserved) return;
    tube.handedJobs++;
    this.#holdOn(page, row, tube);
  }

  #stopMoving(page: JobPage, row: number, tube: Tube): void {
    tube.movingJobs--;
    assert(tube.movingJobs >= 0, "a job in transit was counted");
    if (page.previous[row] !== JobState.Reserved) return;
    tube.handedJobs--;
    assert(tube.handedJobs >= 0 && tube.handedJobs <= tube.movingJobs, "a held job in transit was counted");
    this.#unhold(page, row, tube);
  }

  #setDelayTimer(tube: Tube): void {
    this.delayTimers.set(tube.delayTimer, tube.delayed.soonestMs);
  }

  // A job leaves one state where it enters the next. The rare states have functions of their own:
  // in one function, these were too long for V8 to inline, which slowed put, reserve and delete by
  // a seventh.

  /** Counts a job in its next state instead of the one before. */
  #change(page: JobPage, row: number, tube: Tube, state: JobState): void {
    const before = page.state[row]!;
    this.counts[before] = this.counts[before]! - 1;
    if (before === JobState.Ready) {
      if (page.pri[row]! < URGENT_PRI_LIMIT) {
        tube.urgentJobs--;
        this.urgentJobs--;
      }
    } else if (before === JobState.Reserved) this.#stopHolding(page, row, tube);
    else if (before > JobState.Reserved) this.#leaveRare(page, row, tube, before);
    this.counts[state] = this.counts[state]! + 1;
    page.state[row] = state;
  }

  #stopHolding(page: JobPage, row: number, tube: Tube): void {
    tube.reservedJobs--;
    assert(tube.reservedJobs >= 0, "a reserved job was counted");
    if (page.extras !== undefined || tube.groups !== undefined) this.#unhold(page, row, tube);
  }

  /** Counts what a held job costs, again or as one in transit. */
  #holdOn({ extras }: JobPage, row: number, tube: Tube): void {
    const extraCost = extras?.extraCost[row] ?? 0;
    tube.extraWork += extraCost;
    tube.groups?.holdOn(extras?.groupRow[row] ?? NO_GROUP, 1 + extraCost);
  }

  #unhold({ extras }: JobPage, row: number, tube: Tube): void {
    const extraCost = extras?.extraCost[row] ?? 0;
    tube.extraWork -= extraCost;
    assert(tube.extraWork >= 0, "what held jobs cost is counted");
    tube.groups?.unhold(extras?.groupRow[row] ?? NO_GROUP, 1 + extraCost);
  }

  #leaveRare(page: JobPage, row: number, tube: Tube, before: number): void {
    assert(this.counts[before]! >= 0, "a job was counted in its state");
    if (before === JobState.Buried) {
      tube.buriedJobs--;
      if (page.extras !== undefined) this.#batches.countBuried(page, row, -1);
    } else if (before === JobState.Moving) {
      this.#stopMoving(page, row, tube);
      this.onSettled(page.id[row]!);
    }
  }
}
