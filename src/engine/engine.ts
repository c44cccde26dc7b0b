// The state machine of one shard: its tubes, jobs and sessions, and every change that a command or a timer makes.
//
// It is pure: time comes in as a number (monotonic ms, never going back), effects go out through two interfaces, and
// it never reads a clock, a random number, a file or a socket. Each public method first runs what is due, so a command
// that arrives at the very moment of a deadline sees the world after it. README.md tells a job's life and the
// invariants; `checkInvariants` tests them.

import { assert } from "../base/assert.ts";
import { DEADLINE_MARGIN_MS, URGENT_PRI_LIMIT } from "../protocol/limits.ts";
import { BodyArena } from "./body-arena.ts";
import { type ClientEffects, NO_RECORDS, type RecordSink } from "./effects.ts";
import { JobIndex } from "./job-index.ts";
import { betterJob, type JobPage, JobState, JobTable, NO_SLOT, rowOf } from "./job-table.ts";
import { ResumedTubes } from "./resumed-tubes.ts";
import { Session, Waiting, Watch } from "./session.ts";
import { TimerHeap } from "./timer-heap.ts";
import { Tube } from "./tube.ts";
import { WideWaiters } from "./wide-waiters.ts";

/** Outcome of a command on a job; only a put may find no room in the log. */
export const Outcome = { Done: 0, NotFound: 1, NoRoom: 2 } as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/** Outcome of a reserve, when it is not the slot of a job (a number from 0). */
export const ReserveOutcome = { Waits: -1, TimedOut: -2, DeadlineSoon: -3 } as const;

/** A session that watches more tubes than this is not linked into the list of each of them when it waits. */
const NARROW_WATCHES_MAX = 8;
/** How many of the wide waiters are looked at in the order of their waits before the tube's own are put in order. */
const WIDE_GLANCES = 16;
/** A reservation ends when now > deadline (not at it); timers fire when now >= their time. */
const AFTER_DEADLINE_MS = 0.001;

export interface EngineOptions {
  effects: ClientEffects;
  records?: RecordSink;
  arena?: BodyArena;
  /** Whether `default`, which never goes, lives on this shard. */
  ownsDefaultTube: boolean;
  /** How many of the things that are due may happen between two calls of `beginTurn`; no limit if it is left out. */
  turnDueMax?: number;
}

export class Engine {
  readonly jobs: JobTable = new JobTable();
  readonly bodies: BodyArena;
  readonly tubes: Map<string, Tube> = new Map();
  /** Jobs by JobState, over all tubes. */
  readonly jobCounts: Int32Array = new Int32Array(5);
  urgentJobs = 0;
  totalJobs = 0;
  jobTimeouts = 0;
  /** Tubes that reserves have looked at for their best jobs in this turn: what a turn with few messages may still cost. */
  tubesLookedAt = 0;
  /** Sessions that wait on this shard alone. */
  waitingAlone = 0;

  readonly #effects: ClientEffects;
  readonly #records: RecordSink;
  readonly #index = new JobIndex();
  readonly #sessions: (Session | undefined)[] = [];
  readonly #tubesByIndex: (Tube | undefined)[] = [];
  readonly #freeTubeIndexes: number[] = [];
  readonly #defaultTube: Tube | undefined;
  /** Tubes that have a ready job, paused or not, in no order. */
  readonly #readyTubes: Tube[] = [];
  readonly #delayTimers = new TimerHeap<Tube>();
  readonly #pauseTimers = new TimerHeap<Tube>();
  readonly #sessionTimers = new TimerHeap<Session>();
  #wideFirst: Session | undefined;
  #wideLast: Session | undefined;
  #waitOrder = 0;
  readonly #turnDueMax: number;
  /** How many of the things that are due may still happen in this turn. */
  #dueLeft: number;

  constructor(options: EngineOptions) {
    this.#effects = options.effects;
    this.#records = options.records ?? NO_RECORDS;
    this.bodies = options.arena ?? new BodyArena();
    this.#turnDueMax = options.turnDueMax ?? Number.MAX_SAFE_INTEGER;
    this.#dueLeft = this.#turnDueMax;
    if (options.ownsDefaultTube) this.#defaultTube = this.#tube("default");
  }

  // --- time -------------------------------------------------------------------------------------------------------

  /** When `runDue` has something to do next, or Infinity. */
  get nextDueAtMs(): number {
    return Math.min(this.#delayTimers.nextAtMs, this.#pauseTimers.nextAtMs, this.#sessionTimers.nextAtMs);
  }

  /** Allows as many things that are due as a turn may take. */
  beginTurn(): void {
    this.#dueLeft = this.#turnDueMax;
    this.tubesLookedAt = 0;
  }

  /**
   * Runs all that is due, in the C server's order: delayed jobs, then pauses that end, then sessions.
   *
   * Where more is due than one turn may take, the rest follows in the next turns, and nothing later happens before it:
   * what clients see meanwhile is the world of a moment ago, as if the clock were a little slow. `nextDueAtMs` stays in
   * the past until then, so that the shard does not sleep.
   */
  runDue(nowMs: number): void {
    if (this.nextDueAtMs > nowMs) return;
    while (this.#delayTimers.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const tube = this.#delayTimers.first!;
      const slot = tube.delayed.top;
      tube.delayed.remove(slot);
      this.#retimeDelayed(tube);
      this.#becomeReady(slot, tube);
      this.#serve(tube, nowMs);
    }
    if (this.#pauseTimers.nextAtMs <= nowMs) this.#endPauses(nowMs);
    while (this.#sessionTimers.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      this.#sessionDue(this.#sessionTimers.first!, nowMs);
    }
  }

  #mayRunDue(): boolean {
    if (this.#dueLeft === 0) return false;
    this.#dueLeft--;
    return true;
  }

  /** Jobs of the tubes that are resumed now are handed out best first: who watches two of them gets the better one. */
  #endPauses(nowMs: number): void {
    const resumed = new ResumedTubes(this.jobs);
    while (this.#pauseTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.#pauseTimers.first!;
      this.#pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
      tube.pauseSeconds = 0;
      if (tube.ready.size > 0 && this.#longestWaiting(tube) !== undefined) resumed.push(tube);
    }
    for (let tube = resumed.best; tube !== undefined; tube = resumed.best) {
      if (this.#serveOne(tube, nowMs)) resumed.bestServed();
      else resumed.removeBest();
    }
  }

  #sessionDue(session: Session, nowMs: number): void {
    const inMargin = this.#inMargin(session, nowMs);
    for (let slot = session.held.top; slot !== NO_SLOT; slot = session.held.top) {
      const page = this.jobs.pageOf(slot);
      const row = rowOf(slot);
      if (page.deadlineAtMs[row]! + AFTER_DEADLINE_MS > nowMs) break;
      if (!this.#mayRunDue()) {
        // The next turn comes back to it, and as a reservation is over it is still in its margin then.
        this.#retimeSession(session);
        return;
      }
      page.timeouts[row] = page.timeouts[row]! + 1;
      this.jobTimeouts++;
      this.#unhold(slot, session);
      const tube = this.#tubeOf(page, row);
      this.#becomeReady(slot, tube);
      this.#records.updated(slot);
      this.#serve(tube, nowMs);
    }
    if (session.waiting === Waiting.Alone && (inMargin || session.timeoutAtMs <= nowMs)) {
      this.#stopWaiting(session);
      if (inMargin) this.#effects.deadlineSoon(session);
      else this.#effects.timedOut(session);
    } else if (session.waiting === Waiting.Shared && (inMargin || session.timeoutAtMs <= nowMs)) {
      // Told once: the acceptor either ends the wait or arms it anew.
      session.timeoutAtMs = Number.POSITIVE_INFINITY;
      this.#sessionTimers.set(session.timer, this.#expiryAtMs(session));
      this.#effects.waitDue(session);
      return;
    }
    this.#retimeSession(session);
  }

  /** The deadline of the reservation of the session that ends first here, or Infinity. */
  soonestDeadlineMs(session: Session): number {
    const slot = session.held.top;
    return slot === NO_SLOT ? Number.POSITIVE_INFINITY : this.jobs.pageOf(slot).deadlineAtMs[rowOf(slot)]!;
  }

  #inMargin(session: Session, nowMs: number): boolean {
    return nowMs >= this.soonestDeadlineMs(session) - DEADLINE_MARGIN_MS;
  }

  #expiryAtMs(session: Session): number {
    return this.soonestDeadlineMs(session) + AFTER_DEADLINE_MS;
  }

  #retimeSession(session: Session): void {
    let atMs = this.#expiryAtMs(session);
    if (session.waiting !== Waiting.No) {
      atMs = Math.min(session.timeoutAtMs, this.soonestDeadlineMs(session) - DEADLINE_MARGIN_MS, atMs);
    }
    this.#sessionTimers.set(session.timer, atMs);
  }

  #retimeDelayed(tube: Tube): void {
    const slot = tube.delayed.top;
    const atMs =
      slot === NO_SLOT ? Number.POSITIVE_INFINITY : this.jobs.pageOf(slot).deadlineAtMs[rowOf(slot)]!;
    this.#delayTimers.set(tube.delayTimer, atMs);
  }

  // --- sessions and tubes -----------------------------------------------------------------------------------------

  /** The session with this index, made at its first use. */
  session(index: number): Session {
    return (this.#sessions[index] ??= new Session(index, this.jobs));
  }

  /** Forgets a session whose connection ended: its jobs become ready at once, its tubes lose it. */
  closeSession(session: Session, nowMs: number): void {
    this.giveBack(session, Number.POSITIVE_INFINITY, nowMs);
    this.#sessionTimers.set(session.timer, Number.POSITIVE_INFINITY);
    this.unuse(session);
    this.#sessions[session.index] = undefined;
  }

  /**
   * Makes jobs that an ending session holds ready, in the order of their reservation, each offered to waiting clients before
   * the next; then takes it from the tubes that it watches. Up to `stepsMax` of both; returns whether none is left.
   */
  giveBack(session: Session, stepsMax: number, nowMs: number): boolean {
    this.runDue(nowMs);
    if (session.waiting !== Waiting.No) this.#stopWaiting(session);
    let steps = 0;
    for (; session.heldFirst !== NO_SLOT && steps < stepsMax; steps++) {
      const slot = session.heldFirst;
      this.#unhold(slot, session);
      const tube = this.#tubeOf(this.jobs.pageOf(slot), rowOf(slot));
      this.#becomeReady(slot, tube);
      this.#serve(tube, nowMs);
    }
    this.#retimeSession(session);
    for (const watch of session.watches.values()) {
      if (steps++ >= stepsMax) return false;
      this.#unwatch(watch);
    }
    return session.heldFirst === NO_SLOT;
  }

  /** Ends the wait of a session whose connection is gone without a word: no job is given to it from now on. */
  abandonWait(session: Session): void {
    if (session.waiting !== Waiting.No) this.#stopWaiting(session);
    this.#retimeSession(session);
  }

  /** The tube of this name, if it exists. */
  findTube(name: string): Tube | undefined {
    return this.tubes.get(name);
  }

  use(session: Session, name: string): void {
    const tube = this.#tube(name);
    if (session.used === tube) return;
    tube.using++;
    this.unuse(session);
    session.used = tube;
  }

  unuse(session: Session): void {
    const tube = session.used;
    if (tube === undefined) return;
    session.used = undefined;
    tube.using--;
    this.#dropIfUnreferenced(tube);
  }

  watch(session: Session, name: string): void {
    assert(session.waiting === Waiting.No, "a session that waits keeps its watches");
    const tube = this.#tube(name);
    if (session.watches.has(tube)) return;
    const watch = new Watch(session, tube);
    session.watches.set(tube, watch);
    tube.watching++;
    // At once, so that the first wait of a session with very many tubes has nothing left to link.
    if (session.watches.size > NARROW_WATCHES_MAX) this.#linkWide(watch);
    else session.remember(watch);
  }

  ignore(session: Session, name: string): void {
    const tube = this.tubes.get(name);
    const watch = tube === undefined ? undefined : session.watches.get(tube);
    if (watch !== undefined) this.#unwatch(watch);
  }

  #unwatch(watch: Watch): void {
    const { session, tube } = watch;
    assert(session.waiting === Waiting.No, "a session that waits keeps its watches");
    session.watches.delete(tube);
    if (watch.linkedWide) tube.wideWaiters!.remove(watch);
    else session.forget(watch);
    tube.watching--;
    this.#dropIfUnreferenced(tube);
  }

  /** Pauses a tube; false if there is none of that name. */
  pause(name: string, seconds: number, nowMs: number): boolean {
    this.runDue(nowMs);
    const tube = this.tubes.get(name);
    if (tube === undefined) return false;
    tube.pauses++;
    tube.pauseSeconds = seconds;
    if (seconds > 0) {
      this.#pauseTimers.set(tube.pauseTimer, nowMs + seconds * 1000);
    } else {
      this.#pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
      this.#serve(tube, nowMs);
    }
    return true;
  }

  /** Jobs that somebody holds here. */
  get jobsReserved(): number {
    return this.jobCounts[JobState.Reserved]!;
  }

  /** Whether somebody holds a job of the tube. */
  hasReserved(tube: Tube): boolean {
    return tube.jobsIn(JobState.Reserved) > 0;
  }

  /** Connections that wait for a job of this tube. */
  waitingOn(tube: Tube): number {
    let count = 0;
    for (let watch = tube.waiterFirst; watch !== undefined; watch = watch.next)
      if (this.#waits(watch.session)) count++;
    const wide = tube.wideWaiters;
    for (let position = 0; wide !== undefined && position < wide.size; position++) {
      const { session } = wide.at(position);
      if (!session.linkedInTubes && this.#waits(session)) count++;
    }
    return count;
  }

  /** Whether the session waits here, and nobody else has ended its wait. */
  #waits(session: Session): boolean {
    return (
      session.waiting === Waiting.Alone ||
      (session.waiting === Waiting.Shared && this.#effects.stillWaiting(session))
    );
  }

  #tube(name: string): Tube {
    const existing = this.tubes.get(name);
    if (existing !== undefined) return existing;
    const index = this.#freeTubeIndexes.pop() ?? this.#tubesByIndex.length;
    const sequence = name === "default" ? 0 : this.#effects.nextTubeSequence();
    const tube = new Tube(name, sequence, index, this.jobs);
    this.#tubesByIndex[index] = tube;
    this.tubes.set(name, tube);
    return tube;
  }

  #dropIfUnreferenced(tube: Tube): void {
    if (tube.referenced || tube === this.#defaultTube) return;
    if (tube.paused) this.#pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
    this.tubes.delete(tube.name);
    this.#tubesByIndex[tube.index] = undefined;
    this.#freeTubeIndexes.push(tube.index);
  }

  /** The tube of a job. */
  tubeOf(slot: number): Tube {
    return this.#tubeOf(this.jobs.pageOf(slot), rowOf(slot));
  }

  #tubeOf(page: JobPage, row: number): Tube {
    return this.#tubesByIndex[page.tube[row]!]!;
  }

  // --- put --------------------------------------------------------------------------------------------------------

  /**
   * Stores a job whose body is in the arena, in the tube that the session uses, and serves a client that waits for it. Throws
   * RangeError when memory is exhausted, before anything has changed; then, and with NoRoom, the body is still the caller's.
   */
  // put 6/10
  put(
    session: Session,
    id: number,
    pri: number,
    delaySeconds: number,
    ttrSeconds: number,
    createdAtMs: number,
    body: number,
    bodyBytes: number,
    nowMs: number,
  ): Outcome {
    this.runDue(nowMs);
    const tube = session.used;
    assert(tube !== undefined, "a put goes to the shard of the tube in use");
    if (!this.#records.roomForPut()) return Outcome.NoRoom;
    (delaySeconds > 0 ? tube.delayed : tube.ready).makeRoom();
    const slot = this.#insert(tube, id, pri, delaySeconds, ttrSeconds, createdAtMs, body, bodyBytes);
    // A long turn began before the put was sent: its delay must not.
    if (delaySeconds > 0) this.#becomeDelayed(slot, tube, delaySeconds, Math.max(nowMs, createdAtMs));
    else this.#becomeReady(slot, tube);
    if (!this.#records.put(slot)) {
      this.#leaveQueue(slot, this.jobs.pageOf(slot), rowOf(slot));
      this.#remove(slot);
      return Outcome.NoRoom;
    }
    tube.totalJobs++;
    this.totalJobs++;
    if (delaySeconds === 0) this.#serve(tube, nowMs);
    return Outcome.Done;
  }

  #insert(
    tube: Tube,
    id: number,
    pri: number,
    delaySeconds: number,
    ttrSeconds: number,
    createdAtMs: number,
    body: number,
    bodyBytes: number,
  ): number {
    this.#index.makeRoom(id);
    const slot = this.jobs.allocate();
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.id[row] = id;
    page.createdAtMs[row] = createdAtMs;
    page.deadlineAtMs[row] = 0;
    page.pri[row] = pri;
    page.delaySeconds[row] = delaySeconds;
    page.ttrSeconds[row] = ttrSeconds;
    page.reserves[row] = 0;
    page.timeouts[row] = 0;
    page.releases[row] = 0;
    page.buries[row] = 0;
    page.kicks[row] = 0;
    page.tube[row] = tube.index;
    page.body[row] = body;
    page.bodyBytes[row] = bodyBytes;
    page.file[row] = 0;
    this.#index.set(id, slot);
    return slot;
  }

  /**
   * Brings back a job from the log, without serving anyone; buried jobs in the order of their burial. The caller fills
   * in the counts. A deadline counts for a delayed job only.
   */
  restore(
    tubeName: string,
    id: number,
    state: JobState,
    pri: number,
    delaySeconds: number,
    ttrSeconds: number,
    createdAtMs: number,
    deadlineAtMs: number,
    body: number,
    bodyBytes: number,
  ): number {
    const tube = this.#tube(tubeName);
    const slot = this.#insert(tube, id, pri, delaySeconds, ttrSeconds, createdAtMs, body, bodyBytes);
    if (state === JobState.Buried) {
      this.#becomeBuried(slot, tube);
    } else if (state === JobState.Delayed) {
      this.jobs.pageOf(slot).deadlineAtMs[rowOf(slot)] = deadlineAtMs;
      this.#enqueueDelayed(slot, tube);
    } else {
      this.#becomeReady(slot, tube);
    }
    return slot;
  }

  // --- reserve ----------------------------------------------------------------------------------------------------

  /**
   * Gives the session the best ready job of its watched tubes, which all live here, as do all jobs that it holds.
   * Returns the job's slot, or a ReserveOutcome; after `Waits` the answer comes as an effect.
   */
  reserve(session: Session, timeoutMs: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session);
    if (slot !== NO_SLOT) {
      this.#assign(slot, session, nowMs);
      return slot;
    }
    if (this.#inMargin(session, nowMs)) return ReserveOutcome.DeadlineSoon;
    if (timeoutMs <= 0 || session.halfClosed) return ReserveOutcome.TimedOut;
    this.#startWaiting(session, Waiting.Alone, nowMs + timeoutMs);
    return ReserveOutcome.Waits;
  }

  /** The best ready job that the session may have here, or NO_SLOT. It stays where it is. */
  bestReady(session: Session): number {
    if (this.#readyTubes.length === 0) return NO_SLOT;
    let best: number = NO_SLOT;
    this.tubesLookedAt += Math.min(session.watches.size, this.#readyTubes.length);
    if (session.watches.size <= this.#readyTubes.length) {
      for (const tube of session.watches.keys()) {
        if (!tube.paused && tube.ready.size > 0 && this.#better(tube.ready.top, best)) best = tube.ready.top;
      }
    } else {
      for (const tube of this.#readyTubes) {
        if (!tube.paused && this.#better(tube.ready.top, best) && session.watches.has(tube))
          best = tube.ready.top;
      }
    }
    return best;
  }

  /** Gives the session the best job, if it is at least as good as (pri, id); returns its slot or NO_SLOT. */
  takeUpTo(session: Session, pri: number, id: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.pri[row]! > pri || (page.pri[row]! === pri && page.id[row]! > id)) return NO_SLOT;
    this.#assign(slot, session, nowMs);
    return slot;
  }

  /**
   * Lets the session wait here for a share of its watched tubes. A job that is ready by now is given to it as an
   * effect, if nobody claimed it first. `timeoutAtMs` is Infinity on all shards but one.
   */
  waitShared(session: Session, timeoutAtMs: number, nowMs: number): void {
    this.runDue(nowMs);
    const slot = this.bestReady(session);
    if (slot === NO_SLOT) {
      this.#startWaiting(session, Waiting.Shared, timeoutAtMs);
    } else if (this.#effects.claim(session)) {
      this.#assign(slot, session, nowMs);
      this.#effects.reserved(session, slot);
    }
  }

  /** Ends a wait over several shards on this one, because it ended elsewhere. */
  stopSharedWait(session: Session): void {
    if (session.waiting === Waiting.Shared) this.#stopWaiting(session);
    this.#retimeSession(session);
  }

  /** The client can't send any more: a wait ends with a timeout, and none begins. */
  halfClose(session: Session, nowMs: number): void {
    this.runDue(nowMs);
    session.halfClosed = true;
    if (session.waiting !== Waiting.Alone) return;
    this.#stopWaiting(session);
    this.#retimeSession(session);
    this.#effects.timedOut(session);
  }

  #startWaiting(session: Session, waiting: Waiting, timeoutAtMs: number): void {
    // Linked a second time it would close the lists of waiters to circles, and who walks them would never end.
    assert(session.waiting === Waiting.No, "a session waits once");
    session.waiting = waiting;
    if (waiting === Waiting.Alone) this.waitingAlone++;
    session.timeoutAtMs = timeoutAtMs;
    session.waitOrder = this.#waitOrder++;
    session.linkedInTubes = session.watches.size <= NARROW_WATCHES_MAX;
    if (session.linkedInTubes) {
      for (const watch of session.watches.values()) {
        const tube = watch.tube;
        watch.previous = tube.waiterLast;
        watch.next = undefined;
        if (tube.waiterLast === undefined) tube.waiterFirst = watch;
        else tube.waiterLast.next = watch;
        tube.waiterLast = watch;
      }
    } else {
      for (let watch = session.unlinked.pop(); watch !== undefined; watch = session.unlinked.pop())
        this.#linkWide(watch);
      session.previousWide = this.#wideLast;
      session.nextWide = undefined;
      if (this.#wideLast === undefined) this.#wideFirst = session;
      else this.#wideLast.nextWide = session;
      this.#wideLast = session;
    }
    this.#retimeSession(session);
  }

  /** Puts a watch among its tube's wide waiters, behind all who wait now. */
  #linkWide(watch: Watch): void {
    const { session, tube } = watch;
    const order = session.waiting === Waiting.No ? this.#waitOrder : session.waitOrder;
    if (tube.wideWaiters === undefined) tube.wideWaiters = new WideWaiters(watch, order);
    else tube.wideWaiters.add(watch, order);
  }

  /** Takes a session out of all waiters' lists; the caller sets its timer again. */
  #stopWaiting(session: Session): void {
    if (session.waiting === Waiting.Alone) this.waitingAlone--;
    session.waiting = Waiting.No;
    session.timeoutAtMs = Number.POSITIVE_INFINITY;
    if (session.linkedInTubes) {
      for (const watch of session.watches.values()) {
        const tube = watch.tube;
        if (watch.previous === undefined) tube.waiterFirst = watch.next;
        else watch.previous.next = watch.next;
        if (watch.next === undefined) tube.waiterLast = watch.previous;
        else watch.next.previous = watch.previous;
      }
      return;
    }
    if (session.previousWide === undefined) this.#wideFirst = session.nextWide;
    else session.previousWide.nextWide = session.nextWide;
    if (session.nextWide === undefined) this.#wideLast = session.previousWide;
    else session.nextWide.previousWide = session.previousWide;
    session.nextWide = undefined;
    session.previousWide = undefined;
  }

  /** The session that has waited longest for a job of the tube. */
  #longestWaiting(tube: Tube): Session | undefined {
    const narrow = tube.waiterFirst?.session;
    const wide = tube.wideWaiters === undefined ? undefined : this.#longestWide(tube, tube.wideWaiters);
    return wide === undefined || (narrow !== undefined && narrow.waitOrder < wide.waitOrder) ? narrow : wide;
  }

  /**
   * Where all workers watch the same tubes, however many, the first of the waits is the right one, and finding it so costs
   * less than to put the tube's own waiters in order, who have all waited anew since its last job.
   */
  #longestWide(tube: Tube, waiters: WideWaiters): Session | undefined {
    if (waiters.size === 0) return undefined;
    let wide = this.#wideFirst;
    for (let glances = 0; wide !== undefined && glances < WIDE_GLANCES; glances++) {
      if (wide.watches.has(tube)) return wide;
      wide = wide.nextWide;
    }
    return wide === undefined ? undefined : waiters.longestWaiting();
  }

  /** Gives ready jobs of the tube to those who wait for them. */
  #serve(tube: Tube, nowMs: number): void {
    if (tube.paused) return;
    while (tube.ready.size > 0 && this.#serveOne(tube, nowMs)) {
      // as long as there is a job and a waiter
    }
  }

  /** Gives the tube's best job to the session that has waited longest; false if nobody waits. */
  #serveOne(tube: Tube, nowMs: number): boolean {
    for (;;) {
      const session = this.#longestWaiting(tube);
      if (session === undefined) return false;
      const shared = session.waiting === Waiting.Shared;
      this.#stopWaiting(session);
      if (shared && !this.#effects.claim(session)) {
        this.#retimeSession(session);
        continue;
      }
      const slot = tube.ready.top;
      this.#assign(slot, session, nowMs);
      this.#effects.reserved(session, slot);
      return true;
    }
  }

  #assign(slot: number, session: Session, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#leaveQueue(slot, page, row);
    this.#hold(slot, page, row, session, nowMs);
  }

  #hold(slot: number, page: JobPage, row: number, session: Session, nowMs: number): void {
    this.#setState(page, row, JobState.Reserved);
    page.reserves[row] = page.reserves[row]! + 1;
    page.holder[row] = session.index;
    page.deadlineAtMs[row] = nowMs + page.ttrSeconds[row]! * 1000;
    session.held.push(slot);
    page.previous[row] = session.heldLast;
    page.next[row] = NO_SLOT;
    if (session.heldLast === NO_SLOT) session.heldFirst = slot;
    else this.jobs.pageOf(session.heldLast).next[rowOf(session.heldLast)] = slot;
    session.heldLast = slot;
    this.#retimeSession(session);
  }

  /** Takes a job from its holder; the caller sets its next state and the session's timer. */
  #unhold(slot: number, session: Session): void {
    session.held.remove(slot);
    const page = this.jobs.pageOf(slot);
    const previous = page.previous[rowOf(slot)]!;
    const next = page.next[rowOf(slot)]!;
    if (previous === NO_SLOT) session.heldFirst = next;
    else this.jobs.pageOf(previous).next[rowOf(previous)] = next;
    if (next === NO_SLOT) session.heldLast = previous;
    else this.jobs.pageOf(next).previous[rowOf(next)] = previous;
  }

  // --- commands on a job ------------------------------------------------------------------------------------------

  /** The slot of a job, or NO_SLOT. */
  find(id: number): number {
    return this.#index.get(id);
  }

  reserveJob(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const state = page.state[row];
    if (state === JobState.Reserved) return Outcome.NotFound;
    this.#leaveQueue(slot, page, row);
    this.#hold(slot, page, row, session, nowMs);
    // The log knows reserved jobs as ready; a buried or delayed one must not come back as such.
    if (state !== JobState.Ready) this.#records.updated(slot);
    return Outcome.Done;
  }

  delete(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Reserved) {
      if (page.holder[row] !== session.index) return Outcome.NotFound;
      this.#unhold(slot, session);
      this.#retimeSession(session);
    } else {
      this.#leaveQueue(slot, page, row);
    }
    const tube = this.#tubeOf(page, row);
    tube.deletes++;
    this.#records.deleted(id);
    this.bodies.free(page.body[row]!);
    this.#remove(slot);
    this.#dropIfUnreferenced(tube);
    return Outcome.Done;
  }

  /** Forgets a job that is in no queue; its body is the caller's. */
  #remove(slot: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#setState(page, row, JobState.Free);
    this.#index.delete(page.id[row]!);
    this.jobs.free(slot);
  }

  release(session: Session, id: number, pri: number, delaySeconds: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.#heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.#tubeOf(page, row);
    this.#unhold(slot, session);
    this.#retimeSession(session);
    page.pri[row] = pri;
    page.delaySeconds[row] = delaySeconds;
    page.releases[row] = page.releases[row]! + 1;
    if (delaySeconds > 0) this.#becomeDelayed(slot, tube, delaySeconds, nowMs);
    else this.#becomeReady(slot, tube);
    this.#records.updated(slot);
    if (delaySeconds === 0) this.#serve(tube, nowMs);
    return Outcome.Done;
  }

  bury(session: Session, id: number, pri: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.#heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#unhold(slot, session);
    this.#retimeSession(session);
    page.pri[row] = pri;
    page.buries[row] = page.buries[row]! + 1;
    this.#becomeBuried(slot, this.#tubeOf(page, row));
    this.#records.updated(slot);
    return Outcome.Done;
  }

  touch(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.#heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    session.held.remove(slot);
    page.deadlineAtMs[row] = nowMs + page.ttrSeconds[row]! * 1000;
    session.held.push(slot);
    this.#retimeSession(session);
    return Outcome.Done;
  }

  /** Whether a kick in the tube that the session uses takes buried jobs; delayed ones it takes only if none is buried. */
  kicksBuried(session: Session): boolean {
    return this.#kickTube(session).buriedFirst !== NO_SLOT;
  }

  /**
   * Kicks up to `bound` jobs of the tube in use, buried ones (oldest burial first) or delayed ones (soonest first).
   * Returns how many.
   */
  kick(session: Session, bound: number, nowMs: number, buried: boolean = this.kicksBuried(session)): number {
    this.runDue(nowMs);
    const tube = this.#kickTube(session);
    let kicked = 0;
    while (kicked < bound) {
      const slot = buried ? tube.buriedFirst : tube.delayed.top;
      if (slot === NO_SLOT) break;
      this.#kickOne(slot, tube, nowMs);
      kicked++;
    }
    return kicked;
  }

  #kickTube(session: Session): Tube {
    const tube = session.used;
    assert(tube !== undefined, "a kick goes to the shard of the tube in use");
    return tube;
  }

  kickJob(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const state = page.state[rowOf(slot)];
    if (state !== JobState.Buried && state !== JobState.Delayed) return Outcome.NotFound;
    this.#kickOne(slot, this.#tubeOf(page, rowOf(slot)), nowMs);
    return Outcome.Done;
  }

  #kickOne(slot: number, tube: Tube, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#leaveQueue(slot, page, row);
    page.kicks[row] = page.kicks[row]! + 1;
    this.#becomeReady(slot, tube);
    this.#records.updated(slot);
    this.#serve(tube, nowMs);
  }

  #heldBy(session: Session, id: number): number {
    const slot = this.find(id);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    return page.state[row] === JobState.Reserved && page.holder[row] === session.index ? slot : NO_SLOT;
  }

  // --- states -----------------------------------------------------------------------------------------------------

  /** Whether job `a` goes before job `b`; either may be NO_SLOT, which goes last. */
  #better(a: number, b: number): boolean {
    return betterJob(this.jobs, a, b);
  }

  #setState(page: JobPage, row: number, state: JobState): void {
    const tube = this.#tubeOf(page, row);
    const before = page.state[row]!;
    const urgent = page.pri[row]! < URGENT_PRI_LIMIT;
    if (before !== JobState.Free) this.jobCounts[before] = this.jobCounts[before]! - 1;
    if (before === JobState.Reserved) tube.reservedJobs--;
    else if (before === JobState.Buried) tube.buriedJobs--;
    if (state !== JobState.Free) this.jobCounts[state] = this.jobCounts[state]! + 1;
    if (state === JobState.Reserved) tube.reservedJobs++;
    else if (state === JobState.Buried) tube.buriedJobs++;
    if (urgent && state === JobState.Ready) {
      tube.urgentJobs++;
      this.urgentJobs++;
    } else if (urgent && before === JobState.Ready) {
      tube.urgentJobs--;
      this.urgentJobs--;
    }
    page.state[row] = state;
  }

  /** Takes a ready, delayed or buried job out of its queue; the caller sets its next state. */
  #leaveQueue(slot: number, page: JobPage, row: number): void {
    const tube = this.#tubeOf(page, row);
    const state = page.state[row];
    if (state === JobState.Ready) {
      tube.ready.remove(slot);
      if (tube.ready.size === 0) this.#leaveReadyTubes(tube);
    } else if (state === JobState.Delayed) {
      tube.delayed.remove(slot);
      this.#retimeDelayed(tube);
    } else {
      assert(state === JobState.Buried, "only a reserved job is in no queue");
      const previous = page.previous[row]!;
      const next = page.next[row]!;
      if (previous === NO_SLOT) tube.buriedFirst = next;
      else this.jobs.pageOf(previous).next[rowOf(previous)] = next;
      if (next === NO_SLOT) tube.buriedLast = previous;
      else this.jobs.pageOf(next).previous[rowOf(next)] = previous;
    }
  }

  #becomeReady(slot: number, tube: Tube): void {
    this.#setState(this.jobs.pageOf(slot), rowOf(slot), JobState.Ready);
    tube.ready.push(slot);
    if (tube.readyAt < 0) {
      tube.readyAt = this.#readyTubes.length;
      this.#readyTubes.push(tube);
    }
  }

  #leaveReadyTubes(tube: Tube): void {
    const last = this.#readyTubes.pop()!;
    if (last !== tube) {
      this.#readyTubes[tube.readyAt] = last;
      last.readyAt = tube.readyAt;
    }
    tube.readyAt = -1;
  }

  #becomeDelayed(slot: number, tube: Tube, delaySeconds: number, nowMs: number): void {
    this.jobs.pageOf(slot).deadlineAtMs[rowOf(slot)] = nowMs + delaySeconds * 1000;
    this.#enqueueDelayed(slot, tube);
  }

  #enqueueDelayed(slot: number, tube: Tube): void {
    this.#setState(this.jobs.pageOf(slot), rowOf(slot), JobState.Delayed);
    tube.delayed.push(slot);
    this.#retimeDelayed(tube);
  }

  #becomeBuried(slot: number, tube: Tube): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#setState(page, row, JobState.Buried);
    page.previous[row] = tube.buriedLast;
    page.next[row] = NO_SLOT;
    if (tube.buriedLast === NO_SLOT) tube.buriedFirst = slot;
    else this.jobs.pageOf(tube.buriedLast).next[rowOf(tube.buriedLast)] = slot;
    tube.buriedLast = slot;
  }
}
