// The state machine of one shard: its tubes, jobs and sessions, and every change that a command or
// a timer makes.
//
// The engine is pure: time comes in as a number (monotonic ms, never decreasing), and effects go
// out through two interfaces. It never reads a clock, a random number, a file or a socket. Each
// public method first runs what is due, so a command that arrives exactly at a deadline sees the
// state after it. README.md describes the life of a job and the invariants, which `checkInvariants`
// tests. `JobQueues` keeps the queues, `Waiters` the waiting sessions.

import { assert } from "../base/assert.ts";
import { JobChanges } from "./job-changes.ts";
import { Batch, type BatchLimits, type ListedJob, wasLost } from "./jobs/batch.ts";
import { BodyArena } from "./jobs/body-arena.ts";
import { BodySearch } from "./jobs/body-search.ts";
import type { JobAttributes } from "./jobs/job-attributes.ts";
import { JobIndex } from "./jobs/job-index.ts";
import { betterJob, JobState, JobTable, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { ChangedFacts, JobChange, JobFacts, NewJob, RestoredJob } from "./jobs/new-job.ts";
import { Outcome } from "./jobs/outcome.ts";
import { type Grown, memoryUse } from "./memory-use.ts";
import { JobQueues } from "./policies/job-queues.ts";
import { Policies, PutVerdict } from "./policies/policies.ts";
import { EarliestTime } from "./queues/earliest-time.ts";
import { TimerHeap } from "./queues/timer-heap.ts";
import { type Arrival, JobTravel } from "./transfer/job-travel.ts";
import { ReadyWalk } from "./tubes/ready-walk.ts";
import { ResumedTubes } from "./tubes/resumed-tubes.ts";
import type { RetiredLimiters } from "./tubes/retired-limiters.ts";
import type { Tube } from "./tubes/tube.ts";
import { TubeSetting } from "./tubes/tube-setting.ts";
import { type SettingValues, TubeSettings } from "./tubes/tube-settings.ts";
import { type Tubes, TubeTable } from "./tubes/tube-table.ts";
import { type ClientEffects, type Meter, NO_RECORDS, type RecordSink } from "./waiting/effects.ts";
import { ReadyOrder } from "./waiting/ready-order.ts";
import { Session, Waiting, type Watch } from "./waiting/session.ts";
import { inMargin, isOver, SessionTimers } from "./waiting/session-timers.ts";
import { Waiters } from "./waiting/waiters.ts";
import { type JobFilter, JobWalk } from "./walks/job-walk.ts";
import { TubeClearing } from "./walks/tube-clearing.ts";
import type { MoveOutcome } from "./walks/tube-moving.ts";

export { Outcome } from "./jobs/outcome.ts";

/** Result of a reserve that returns no job; a job's slot is 0 or more. */
export const ReserveOutcome = { Waits: -1, TimedOut: -2, DeadlineSoon: -3 } as const;

export interface EngineOptions {
  effects: ClientEffects;
  records?: RecordSink;
  /** Measures how long jobs wait and are held; optional. */
  meter?: Meter;
  arena?: BodyArena;
  /** Whether this shard owns `default`, which always exists. */
  ownsDefaultTube: boolean;
  /** Maximum number of due events to run between two calls of `beginTurn`; unlimited by default. */
  turnDueMax?: number;
  /** Returns whether this shard owns a tube; by default it owns all. */
  ownsTube?: (name: string) => boolean;
  /** A session with more tubes to choose from keeps them in a ReadyOrder. */
  orderedTubesMin?: number;
  /** Random seed for the hash of unique keys, so that clients can't construct collisions. */
  keySeed?: readonly [number, number];
}

/** Up to this many tubes, checking each one costs less than keeping an order. */
const ORDERED_TUBES_MIN = 64;
/** Maximum number of groups that one slice of cleaning forgets. */
const TIDIED_GROUPS_MAX = 500;

/** Outcomes of a put by PutVerdict. */
const OUTCOME_OF: Readonly<Record<number, Outcome>> = {
  [PutVerdict.Duplicate]: Outcome.Duplicate,
  [PutVerdict.TubeFull]: Outcome.TubeFull,
  [PutVerdict.NoRoom]: Outcome.NoRoom,
};

export class Engine {
  readonly jobs: JobTable = new JobTable();
  readonly bodies: BodyArena;
  totalJobs = 0;
  jobReserves = 0;
  jobDeletes = 0;
  jobReleases = 0;
  jobBuries = 0;
  jobKicks = 0;
  jobTouches = 0;
  jobTimeouts = 0;
  /** Number of tubes, waiters and groups examined since the caller set it to 0; one takes 50 ns. */
  looks = 0;
  /** Called, maybe amid a change, for a job that is no longer going to another shard. */
  onSettled: (id: number) => void = () => {};

  readonly #effects: ClientEffects;
  readonly #records: RecordSink;
  readonly #meter: Meter | undefined;
  readonly #index = new JobIndex();
  readonly #tubes: TubeTable;
  readonly #defaultTube: Tube | undefined;
  readonly #queues: JobQueues;
  readonly settings = new TubeSettings();
  readonly policies: Policies;
  readonly #changes: JobChanges;
  readonly #travel: JobTravel;
  readonly #ownsTube: (name: string) => boolean;
  readonly waiters: Waiters;
  readonly #search: BodySearch;
  readonly #grown: Grown;
  readonly #sessions: (Session | undefined)[] = [];
  /** The earliest rare deadline: of an expiry, a unique key, a pause or a rate limiter. */
  readonly #seldom = new EarliestTime();
  readonly #pauseTimers = new TimerHeap<Tube>(this.#seldom);
  readonly #gateTimers = new TimerHeap<Tube>(this.#seldom);
  readonly #sessionTimers = new SessionTimers();
  /** When more jobs were due to expire than a turn allows, ms; 0 if none are left over. */
  #expiryBehindAtMs = 0;
  readonly #turnDueMax: number;
  readonly #orderedTubesMin: number;
  /** Number of due events that may still run in this turn. */
  #dueLeft: number;

  constructor(options: EngineOptions) {
    const { effects } = options;
    this.#effects = effects;
    this.#records = options.records ?? NO_RECORDS;
    this.#meter = options.meter;
    this.bodies = options.arena ?? new BodyArena();
    this.#search = new BodySearch(this.bodies);
    this.#tubes = new TubeTable(this.jobs, () => effects.nextTubeSequence(), this.settings, this.#seldom);
    const onSettled = (id: number): void => this.onSettled(id);
    this.#queues = new JobQueues(this.jobs, this.#tubes, this.#seldom, onSettled);
    this.#ownsTube = options.ownsTube ?? (() => true);
    this.policies = new Policies({
      jobs: this.jobs,
      bodies: this.bodies,
      queues: this.#queues,
      tubes: this.#tubes,
      records: this.#records,
      find: (id) => this.find(id),
      end: (slot, tube) => this.#end(slot, tube),
      ownsTube: this.#ownsTube,
      keySeed: options.keySeed ?? [0, 0],
      seldom: this.#seldom,
      onSettled,
    });
    this.waiters = new Waiters(effects);
    const { bodies, jobs, policies, waiters, settings } = this;
    this.#grown = { bodies, jobs, tubes: this.#tubes, waiters, policies, settings };
    this.#changes = new JobChanges({
      jobs: this.jobs,
      queues: this.#queues,
      tubes: this.#tubes,
      policies: this.policies,
      records: this.#records,
      meter: this.#meter,
      ownsTube: this.#ownsTube,
      hasPolicy: (slot, tube) => this.#hasPolicy(slot, tube),
      leave: (slot) => this.#leave(slot),
      kick: (slot, tube, nowMs) => this.#kickOne(slot, tube, nowMs),
      offer: (tube, nowMs) => this.#offer(tube, nowMs),
      freed: (tube, nowMs) => this.#freed(tube, nowMs),
      drop: (tube) => this.#dropIfUnreferenced(tube),
      retime: (session) => this.#sessionTimers.set(session),
      countRelease: () => {
        this.jobReleases++;
      },
    });
    this.#travel = this.#makeTravel();
    this.#turnDueMax = options.turnDueMax ?? Number.MAX_SAFE_INTEGER;
    this.#dueLeft = this.#turnDueMax;
    this.#orderedTubesMin = options.orderedTubesMin ?? ORDERED_TUBES_MIN;
    if (options.ownsDefaultTube) this.#defaultTube = this.#tubes.open("default");
  }

  #makeTravel(): JobTravel {
    return new JobTravel({
      jobs: this.jobs,
      queues: this.#queues,
      tubes: this.#tubes,
      policies: this.policies,
      records: this.#records,
      find: (id) => this.find(id),
      leave: (slot) => this.#leave(slot),
      insert: (tube, job, body) => this.#insertKnown(tube, job, body),
      remove: (slot, tube) => this.#remove(slot, this.jobs.pageOf(slot).id[rowOf(slot)]!, tube),
      end: (slot, tube) => this.#end(slot, tube),
      handedOn: (slot, tube, nowMs) => this.#changes.handedOn(slot, tube, nowMs),
      delay: (slot, tube, delayMs, nowMs) => this.#changes.delay(slot, tube, delayMs, nowMs),
      offer: (tube, nowMs) => this.#offer(tube, nowMs),
      freed: (tube, nowMs) => this.#freed(tube, nowMs),
      drop: (tube) => this.#dropIfUnreferenced(tube),
      session: (index) => this.#sessions[index],
      retime: (session) => this.#sessionTimers.set(session),
    });
  }

  // --- counts ---------------------------------------------------------------------------------

  /** Tubes by name, in the order in which they were made. */
  get tubes(): Tubes {
    return this.#tubes;
  }

  /** Bytes that clients make the shard keep. */
  get memoryBytes(): number {
    return memoryUse(this.#grown);
  }

  /** Rate limiters of deleted tubes. */
  get keptGates(): RetiredLimiters {
    return this.#tubes.keptGates;
  }

  /** Number of jobs by JobState, over all tubes. */
  get jobCounts(): Int32Array {
    return this.#queues.counts;
  }

  get urgentJobs(): number {
    return this.#queues.urgentJobs;
  }

  /** Number of reserved jobs. */
  get jobsReserved(): number {
    return this.jobCounts[JobState.Reserved]!;
  }

  /** Number of jobs on their way to other shards. */
  get jobsMoving(): number {
    return this.jobCounts[JobState.Moving]!;
  }

  /** Returns whether a session holds a job of the tube. */
  hasReserved(tube: Tube): boolean {
    return tube.jobsIn(JobState.Reserved) > 0;
  }

  /** Number of sessions that wait on this shard alone. */
  get waitingAlone(): number {
    return this.waiters.alone;
  }

  /** Returns the number of connections that wait for a job of this tube. */
  waitingOn(tube: Tube): number {
    const count = this.waiters.count(tube);
    this.looks += count + (this.waiters.of(tube)?.wide?.size ?? 0);
    return count;
  }

  // --- time -----------------------------------------------------------------------------------

  /** When `runDue` next has something to do, or Infinity. */
  get nextDueAtMs(): number {
    return Math.min(this.#queues.nextDelayedAtMs, this.#sessionTimers.nextAtMs, this.#seldom.nextAtMs);
  }

  /** Begins a turn and renews its allowance of due events. */
  beginTurn(): void {
    this.#dueLeft = this.#turnDueMax;
  }

  /** Whether there is cleaning to do that nothing waits for. */
  get isUntidy(): boolean {
    return this.#queues.untidy.size > 0;
  }

  /** Cleans up for about a fifth of a millisecond. */
  tidy(): void {
    this.#queues.tidy(TIDIED_GROUPS_MAX);
  }

  /**
   * Runs everything that is due: first expiring jobs and keys to forget, then, in the C server's
   * order, delayed jobs, ending pauses and sessions.
   *
   * If more is due than one turn allows, the following turns run the rest, and nothing later
   * happens before it. Clients meanwhile see a slightly older state, as if the clock were slow.
   * `nextDueAtMs` stays in the past until then, so that the shard does not sleep.
   */
  runDue(nowMs: number): void {
    if (this.nextDueAtMs <= nowMs) this.#runAllDue(nowMs);
  }

  /** Separate, so that V8 inlines `runDue`, which every command calls. */
  #runAllDue(nowMs: number): void {
    if (this.policies.nextAtMs <= nowMs) this.#expiryBehindAtMs = nowMs;
    while (this.policies.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const tube = this.policies.runOne(nowMs);
      if (tube === undefined) continue;
      this.#serve(tube, nowMs);
      this.#dropIfUnreferenced(tube);
    }
    this.#expiryBehindAtMs = 0;
    while (this.#queues.nextDelayedAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const slot = this.#queues.nextDelayed;
      const tube = this.tubeOf(slot);
      this.#queues.leave(slot);
      this.#queues.becomeReady(slot, tube, nowMs);
      this.#serve(tube, nowMs);
    }
    if (this.#pauseTimers.nextAtMs <= nowMs) this.#endPauses(nowMs);
    if (this.#gateTimers.nextAtMs <= nowMs) this.#openGates(nowMs);
    this.#forgetFullGates(nowMs);
    while (this.#sessionTimers.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const session = this.#sessionTimers.first;
      assert(session !== undefined, "a timer that is due has a session");
      this.#sessionDue(session, nowMs);
    }
  }

  /** Returns whether the tube's best job is overdue, so that the tube gives none this turn. */
  #isStale(tube: Tube): boolean {
    return this.#expiryBehindAtMs > 0 && tube.topExpiresAtMs <= this.#expiryBehindAtMs;
  }

  #mayRunDue(): boolean {
    if (this.#dueLeft === 0) return false;
    this.#dueLeft--;
    return true;
  }

  /** Serves all tubes that resume now, best job first: a client of several gets the best one. */
  #endPauses(nowMs: number): void {
    const resumed = new ResumedTubes(this.jobs);
    while (this.#pauseTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.#pauseTimers.first;
      assert(tube !== undefined, "a timer that is due has a tube");
      this.#pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
      tube.pauseSeconds = 0;
      this.#setOpen(tube, nowMs);
      if (tube.open && tube.ready.top !== NO_SLOT && this.waiters.longest(tube) !== undefined)
        resumed.push(tube);
    }
    for (let tube = resumed.best; tube !== undefined; tube = resumed.best) {
      if (this.#serveOne(tube, nowMs)) resumed.bestServed();
      else resumed.removeBest();
    }
  }

  /** Serves tubes whose rate limiters have a token again. */
  #openGates(nowMs: number): void {
    while (this.#gateTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.#gateTimers.first;
      assert(tube !== undefined, "a timer that is due has a tube");
      this.#serve(tube, nowMs);
    }
  }

  #forgetFullGates(nowMs: number): void {
    const { keptGates } = this.#tubes;
    while (keptGates.nextAtMs <= nowMs && this.#mayRunDue()) keptGates.forgetNext();
  }

  #sessionDue(session: Session, nowMs: number): void {
    const warns = inMargin(session, nowMs);
    for (let slot = session.held.top; slot !== NO_SLOT; slot = session.held.top) {
      const page = this.jobs.pageOf(slot);
      const row = rowOf(slot);
      if (!isOver(page.deadlineAtMs[row]!, nowMs)) break;
      if (!this.#mayRunDue()) {
        // The next turn returns to this session, which is still in its margin then.
        this.#sessionTimers.set(session);
        return;
      }
      page.timeouts[row] = page.timeouts[row]! + 1;
      this.jobTimeouts++;
      this.tubeOf(slot).timeouts++;
      this.#takeBack(slot, session, nowMs, true);
    }
    if (session.waiting === Waiting.Alone && (warns || session.timeoutAtMs <= nowMs)) {
      this.waiters.end(session);
      if (warns) this.#effects.deadlineSoon(session);
      else this.#effects.timedOut(session);
    } else if (session.waiting === Waiting.Shared && (warns || session.timeoutAtMs <= nowMs)) {
      // Report it once: the acceptor either ends the wait or sets a new deadline.
      session.timeoutAtMs = Number.POSITIVE_INFINITY;
      this.#sessionTimers.setForExpiry(session);
      this.#effects.waitDue(session);
      return;
    }
    this.#sessionTimers.set(session);
  }

  // --- sessions and tubes ---------------------------------------------------------------------

  /** Returns the session with this index; creates it at its first use. */
  session(index: number): Session {
    return (this.#sessions[index] ??= new Session(index, this.jobs));
  }

  /** Removes a session whose connection ended; its jobs become ready at once. */
  closeSession(session: Session, nowMs: number): void {
    this.giveBack(session, Number.POSITIVE_INFINITY, nowMs);
    assert(this.#sessions[session.index] === session, "a session is closed once");
    this.#endOrder(session);
    this.#sessionTimers.clear(session);
    this.unuse(session);
    this.#sessions[session.index] = undefined;
  }

  /** Removes an idle session from its index; it continues to use and watch its tubes. */
  detachSession(session: Session): void {
    assert(
      session.held.size === 0 && session.waiting === Waiting.No,
      "only an idle session changes its place",
    );
    this.#sessions[session.index] = undefined;
  }

  /** Gives a detached session another index. */
  adoptSession(session: Session, index: number): void {
    assert((this.#sessions[index]?.watches.size ?? 0) === 0, "a place has one session");
    session.index = index;
    this.#sessions[index] = session;
  }

  /**
   * Makes the jobs of an ending session ready in the order of reservation, and offers each to
   * waiting clients before the next. Then removes the session from the tubes that it watches. Does
   * up to `stepsMax` of both; returns whether nothing is left.
   */
  giveBack(session: Session, stepsMax: number, nowMs: number): boolean {
    this.runDue(nowMs);
    if (session.waiting !== Waiting.No) this.waiters.end(session);
    const { heldInOrder } = session;
    let steps = 0;
    for (; heldInOrder.first !== NO_SLOT && steps < stepsMax; steps++)
      this.#takeBack(heldInOrder.first, session, nowMs, false);
    this.#sessionTimers.set(session);
    session.unwatching ??= session.watches.values();
    for (; session.watches.size > 0; steps++) {
      if (steps >= stepsMax) return false;
      const watch = session.unwatching.next();
      assert(watch.done !== true, "each watch is ended once");
      this.#unwatch(watch.value);
    }
    return heldInOrder.first === NO_SLOT;
  }

  /**
   * Ends a reservation without its holder: unless a policy says otherwise, the job becomes ready
   * and is offered. The log treats reserved jobs as ready, so it need not record the end of a
   * connection, only other changes.
   */
  #takeBack(slot: number, session: Session, nowMs: number, logged: boolean): void {
    const tube = this.tubeOf(slot);
    this.#queues.leaveHolder(slot, session);
    if (this.#hasPolicy(slot, tube)) {
      this.#endReservation(slot, tube, 0, nowMs);
      return;
    }
    this.#queues.becomeReady(slot, tube, nowMs);
    if (logged) this.#records.updated(slot);
    this.#serve(tube, nowMs);
  }

  /** Returns whether policies apply to a job. */
  #hasPolicy(slot: number, tube: Tube): boolean {
    const { extras } = this.jobs.pageOf(slot);
    return tube.policy !== undefined || (extras !== undefined && !extras.isPlain(rowOf(slot)));
  }

  /** Ends a reservation of a job that left its holder; the policies decide where the job goes. */
  #endReservation(slot: number, tube: Tube, delayMs: number, nowMs: number): void {
    const readyIn = this.policies.reservationEnded(slot, tube, delayMs, nowMs);
    if (readyIn !== undefined) this.#serve(readyIn, nowMs);
    if (readyIn === tube) return;
    this.#freed(tube, nowMs);
    this.#dropIfUnreferenced(tube);
  }

  /** Ends the wait of a session whose connection is gone, without an effect. */
  abandonWait(session: Session): void {
    if (session.waiting !== Waiting.No) this.waiters.end(session);
    this.#sessionTimers.set(session);
  }

  /** Returns the tube of this name, if it exists. */
  findTube(name: string): Tube | undefined {
    return this.#tubes.get(name);
  }

  use(session: Session, name: string): void {
    const tube = this.#tubes.open(name);
    if (session.used === tube) return;
    tube.using++;
    this.unuse(session);
    session.used = tube;
  }

  unuse(session: Session): void {
    const tube = session.used;
    if (tube === undefined) return;
    assert(tube.using > 0, "who uses a tube is counted");
    session.used = undefined;
    tube.using--;
    this.#dropIfUnreferenced(tube);
  }

  watch(session: Session, name: string): void {
    const tube = this.#tubes.open(name);
    if (session.watches.has(tube)) return;
    this.waiters.watch(session, tube);
    session.order?.add(tube, session.watches.size);
  }

  ignore(session: Session, name: string): void {
    const tube = this.findTube(name);
    const watch = tube === undefined ? undefined : session.watches.get(tube);
    if (watch === undefined) return;
    this.#unwatch(watch);
    session.order?.trim(session.watches.size);
  }

  #unwatch(watch: Watch): void {
    this.waiters.unwatch(watch);
    this.#dropIfUnreferenced(watch.tube);
  }

  /** Pauses a tube; returns false if the tube does not exist. */
  pause(name: string, seconds: number, nowMs: number): boolean {
    this.runDue(nowMs);
    const tube = this.findTube(name);
    if (tube === undefined) return false;
    tube.pauses++;
    tube.pauseSeconds = seconds;
    if (seconds > 0) {
      this.#pauseTimers.set(tube.pauseTimer, nowMs + seconds * 1000);
      this.#setOpen(tube, nowMs);
    } else {
      this.#pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
      this.#setOpen(tube, nowMs);
      this.#serve(tube, nowMs);
    }
    return true;
  }

  /** Updates whether the tube gives jobs now, and the timer of its rate limiter. */
  #setOpen(tube: Tube, nowMs: number): void {
    const { gate, paused } = tube;
    const wasOpen = tube.open;
    tube.open = !paused && (gate === undefined || gate.isOpen(tube.inWork, nowMs));
    if (tube.open && !wasOpen) this.#queues.improved(tube);
    if (gate !== undefined)
      this.#gateTimers.set(tube.gateTimer, paused ? Number.POSITIVE_INFINITY : gate.tokenAtMs(nowMs));
  }

  /** Serves a tube after a reservation ended: under a limit, another job may now be available. */
  #freed(tube: Tube, nowMs: number): void {
    if (tube.gate !== undefined || tube.groups !== undefined) this.#serve(tube, nowMs);
  }

  /** Replaces all settings of a tube pattern from now on; no values remove the pattern. */
  setTubes(pattern: string, values: Partial<SettingValues>, nowMs: number): void {
    this.beginSetting(pattern, values).step(Number.POSITIVE_INFINITY, nowMs);
  }

  /** Does the same for new tubes at once; the result's steps apply it to existing tubes. */
  beginSetting(pattern: string, values: Partial<SettingValues>): TubeSetting {
    this.settings.set(pattern, values);
    return new TubeSetting(this, pattern);
  }

  /** Applies its settings to a tube and its groups; returns what is left of `looks`. */
  applySettings(tube: Tube, looks: number, nowMs: number): number {
    const { policy } = this.#tubes.applySettings(tube, nowMs);
    if (tube.gate === undefined) this.#gateTimers.set(tube.gateTimer, Number.POSITIVE_INFINITY);
    tube.groups?.limit(policy?.groupMaxReserved ?? Number.POSITIVE_INFINITY);
    return this.settleGroups(tube, looks, nowMs);
  }

  /** Continues with a tube whose groups lack its settings; returns what is left of `looks`. */
  settleGroups(tube: Tube, looks: number, nowMs: number): number {
    const left = tube.groups?.settle(looks) ?? looks;
    this.#setOpen(tube, nowMs);
    this.#serve(tube, nowMs);
    return left;
  }

  #dropIfUnreferenced(tube: Tube): void {
    if (!tube.referenced && tube !== this.#defaultTube) this.#drop(tube);
  }

  #drop(tube: Tube): void {
    if (tube.groups !== undefined) this.#queues.untidy.delete(tube);
    if (tube.paused) this.#pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
    if (tube.gate !== undefined) this.#gateTimers.set(tube.gateTimer, Number.POSITIVE_INFINITY);
    this.#tubes.remove(tube);
  }

  /** Returns the tube of a job. */
  tubeOf(slot: number): Tube {
    return this.#queues.tubeOf(slot);
  }

  // --- put ------------------------------------------------------------------------------------

  /**
   * Stores a job whose body is in the arena, and serves a client that waits for it. The job goes to
   * the tube of this name, which is created if necessary, or for "" to the one that the session
   * uses. Throws RangeError when memory is exhausted, before anything has changed. In that case,
   * and with NoRoom, the caller still owns the body.
   */
  // put 6/10
  put(
    session: Session,
    job: NewJob,
    body: number,
    nowMs: number,
    tubeName = "",
    attributes?: JobAttributes,
  ): Outcome {
    this.runDue(nowMs);
    return tubeName === ""
      ? this.#put(session.tubeInUse, job, body, nowMs, attributes)
      : this.#putInNamed(tubeName, job, body, nowMs, attributes);
  }

  #putInNamed(
    tubeName: string,
    job: NewJob,
    body: number,
    nowMs: number,
    attributes: JobAttributes | undefined,
  ): Outcome {
    const tube = this.#tubes.open(tubeName);
    try {
      return this.#put(tube, job, body, nowMs, attributes);
    } finally {
      // Without the job, the tube may be unused.
      this.#dropIfUnreferenced(tube);
    }
  }

  #put(tube: Tube, job: NewJob, body: number, nowMs: number, attributes: JobAttributes | undefined): Outcome {
    const delayMs = job.delaySeconds * 1000 + job.delayMillis;
    const isPlain = attributes === undefined && tube.policy === undefined;
    const refusal = isPlain ? Outcome.Done : this.#judge(tube, job, attributes);
    if (refusal !== Outcome.Done) return refusal;
    if (!this.#records.roomForPut()) return Outcome.NoRoom;
    (delayMs > 0 ? tube.delayed : tube.ready).makeRoom();
    const slot = this.#insert(tube, job, body);
    if (!isPlain) this.#beginPolicies(slot, tube, job, attributes, nowMs);
    // `nowMs` is when this turn began. If that was before the put arrived, the delay must not start
    // earlier than the put.
    if (delayMs > 0) this.#queues.becomeDelayed(slot, tube, Math.max(nowMs, job.atMs) + delayMs);
    else this.#queues.becomeReady(slot, tube, nowMs);
    if (!this.#records.put(slot)) return this.#undoPut(slot, tube, job);
    tube.totalJobs++;
    this.totalJobs++;
    this.#meter?.stored(job.bodyBytes);
    if (delayMs === 0) this.#serve(tube, nowMs);
    return Outcome.Done;
  }

  /** Returns Done if the put is accepted, else the reason for its refusal. */
  #judge(tube: Tube, job: NewJob, attributes: JobAttributes | undefined): Outcome {
    const verdict = this.policies.judge(tube, job.bodyBytes, attributes);
    return verdict === PutVerdict.Welcome ? Outcome.Done : OUTCOME_OF[verdict]!;
  }

  #undoPut(slot: number, tube: Tube, job: NewJob): Outcome {
    this.#queues.leave(slot);
    this.#remove(slot, job.id, tube);
    return Outcome.NoRoom;
  }

  /** Creates the extras of a new job; if memory runs out, removes the job. */
  #beginPolicies(
    slot: number,
    tube: Tube,
    job: NewJob,
    attributes: JobAttributes | undefined,
    nowMs: number,
  ): void {
    try {
      this.policies.begin(slot, tube, attributes, Math.max(nowMs, job.atMs));
    } catch (error) {
      this.#remove(slot, job.id, tube);
      throw error;
    }
  }

  /** Creates a row for a job, in no queue. */
  #insert(tube: Tube, job: JobFacts, body: number): number {
    const { id } = job;
    this.#index.makeRoom(id);
    const slot = this.jobs.allocate();
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.id[row] = id;
    page.createdAtMs[row] = job.atMs;
    page.pri[row] = job.pri;
    page.delaySeconds[row] = job.delaySeconds;
    page.ttrSeconds[row] = job.ttrSeconds;
    page.reserves[row] = 0;
    page.timeouts[row] = 0;
    page.releases[row] = 0;
    page.buries[row] = 0;
    page.kicks[row] = 0;
    page.tube[row] = tube.index;
    page.body[row] = body;
    page.bodyBytes[row] = job.bodyBytes;
    page.file[row] = 0;
    tube.bytes += job.bodyBytes;
    this.#index.set(id, slot);
    return slot;
  }

  /** Creates a row for a job that existed elsewhere, in no queue. */
  #insertKnown(tube: Tube, job: RestoredJob, body: number): number {
    const slot = this.#insert(tube, job, body);
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.reserves[row] = job.reserves;
    page.timeouts[row] = job.timeouts;
    page.releases[row] = job.releases;
    page.buries[row] = job.buries;
    page.kicks[row] = job.kicks;
    page.file[row] = job.file;
    return slot;
  }

  /** Restores a job from the log without serving clients; buried jobs in the order of burial. */
  restore(job: RestoredJob, body: number, attributes?: JobAttributes): void {
    const tube = this.#tubes.open(job.tube);
    const slot = this.#insertKnown(tube, job, body);
    if (attributes !== undefined) this.policies.restore(slot, tube, attributes);
    if (job.state === JobState.Buried) this.#queues.becomeBuried(slot, tube, job.deadlineAtMs);
    else if (job.state === JobState.Delayed) this.#queues.becomeDelayed(slot, tube, job.deadlineAtMs);
    else this.#queues.becomeReady(slot, tube, job.deadlineAtMs);
  }

  /** Completes the restore after all jobs of the log are back. */
  endRestore(): void {
    for (const tube of this.#queues.readyTubes) tube.ready.sortOrder();
    this.policies.keys.endRestore();
  }

  // --- reserve --------------------------------------------------------------------------------

  /**
   * Gives the session the best ready job of its watched tubes. This shard must own all of these
   * tubes, and all jobs that the session holds. Returns the job's slot, or a ReserveOutcome; after
   * `Waits` the answer comes as an effect.
   */
  reserve(session: Session, timeoutMs: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session);
    if (slot !== NO_SLOT) {
      this.#assign(slot, session, nowMs);
      return slot;
    }
    if (inMargin(session, nowMs)) return ReserveOutcome.DeadlineSoon;
    if (timeoutMs <= 0 || session.halfClosed) return ReserveOutcome.TimedOut;
    this.#startWaiting(session, Waiting.Alone, nowMs + timeoutMs);
    return ReserveOutcome.Waits;
  }

  /** Returns the best ready job for the session, or NO_SLOT; the job stays in its queue. */
  bestReady(session: Session): number {
    const { readyTubes } = this.#queues;
    if (readyTubes.length === 0) return NO_SLOT;
    const { watches } = session;
    if (this.#isOrdered(session)) return this.#firstInOrder(session)?.ready.top ?? NO_SLOT;
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
   * While jobs wait to expire, the order is unusable: it ignores which tubes give none.
   */
  #isOrdered(session: Session): boolean {
    const tubes = Math.min(session.watches.size, this.#queues.readyTubes.length);
    if (tubes > this.#orderedTubesMin) return this.#expiryBehindAtMs === 0;
    if (session.order !== undefined && tubes <= this.#orderedTubesMin >> 1) this.#endOrder(session);
    return false;
  }

  /** Returns the watched tube whose available job is best. */
  #firstInOrder(session: Session): Tube | undefined {
    const { better, readyTubes } = this.#queues;
    const order = (session.order ??= new ReadyOrder(this.jobs, better));
    const tube = order.best(session.watches, readyTubes);
    this.looks += order.looks;
    order.looks = 0;
    return tube;
  }

  #endOrder(session: Session): void {
    session.order?.end();
    session.order = undefined;
  }

  /** Returns the tube's best job if it is available and better than `best`; otherwise `best`. */
  #better(tube: Tube, best: number): number {
    const { top } = tube.ready;
    return tube.open && betterJob(this.jobs, top, best) && !this.#isStale(tube) ? top : best;
  }

  /** Gives the session a job at least as good as (pri, id); returns its slot or NO_SLOT. */
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

  // --- batches --------------------------------------------------------------------------------

  /**
   * Gives the session as many of the best ready jobs of its watched tubes as one batch allows, and
   * adds them to `into`. The result is the same as that of as many reserves without another client
   * in between. Returns their number. If there are none, acts like `reserve` and returns its
   * ReserveOutcome.
   */
  reserveBatch(
    session: Session,
    limits: BatchLimits,
    timeoutMs: number,
    nowMs: number,
    into: number[],
  ): number {
    this.runDue(nowMs);
    const batch = new Batch(this.jobs, limits);
    if (this.#isOrdered(session)) {
      for (let slot = this.bestReady(session); slot !== NO_SLOT; slot = this.bestReady(session)) {
        if (!batch.takes(slot)) break;
        this.#assign(slot, session, nowMs);
        into.push(slot);
      }
    } else this.#takeOneByOne(session, batch, nowMs, into);
    if (into.length > 0) return into.length;
    const outcome = this.reserve(session, timeoutMs, nowMs);
    assert(outcome < 0, "what a batch has not found no reserve finds");
    return outcome;
  }

  #takeOneByOne(session: Session, batch: Batch, nowMs: number, into: number[]): void {
    const tubes = new ResumedTubes(this.jobs);
    this.#eachServing(session, (tube) => tubes.push(tube));
    for (let tube = tubes.best; tube !== undefined; tube = tubes.best) {
      if (this.#isStale(tube)) {
        tubes.removeBest();
        continue;
      }
      const slot = tube.ready.top;
      if (!batch.takes(slot)) break;
      this.#assign(slot, session, nowMs);
      into.push(slot);
      tubes.bestServed();
    }
  }

  /**
   * Adds to `into` this shard's candidates for a batch over several shards, including the job that
   * would end the batch. All jobs stay in their queues. Returns whether there may be more, which
   * depends on the jobs taken before.
   */
  listBatch(session: Session, limits: BatchLimits, nowMs: number, into: number[]): boolean {
    this.runDue(nowMs);
    const walk = new ReadyWalk(this.jobs);
    if (!this.#isOrdered(session)) {
      this.#eachServing(session, (tube) => walk.add(tube, this.#givesNow(tube, nowMs)));
      return this.#listWalk(walk, limits, into, () => {});
    }
    // Tubes join the walk when their turn in the order comes, and return to the order at the end.
    const joined = new Set<Tube>();
    const join = (): void => {
      for (let tube = this.#firstInOrder(session); tube !== undefined; tube = this.#firstInOrder(session)) {
        if (!joined.has(tube)) {
          if (!betterJob(this.jobs, tube.ready.top, walk.top)) return;
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

  /** Adds to `into` what fits into a batch; calls `join` before each step. See `listBatch`. */
  #listWalk(walk: ReadyWalk, limits: BatchLimits, into: number[], join: () => void): boolean {
    const batch = new Batch(this.jobs, limits);
    while (into.length < limits.jobsMax && !walk.isUnsure) {
      join();
      const slot = walk.next();
      if (slot === NO_SLOT) return false;
      into.push(slot);
      if (!batch.takes(slot) || batch.isOver) return false;
    }
    return walk.isUnsure;
  }

  /** Returns how many jobs of the tube its rate limiter and limits allow now. */
  #givesNow({ gate, inWork }: Tube, nowMs: number): number {
    return gate === undefined ? Number.POSITIVE_INFINITY : gate.gives(inWork, nowMs);
  }

  /**
   * Gives the session those of the `listed` jobs that are still available, as part of a batch over
   * several shards, or as the whole batch if `isAlone`. Adds their slots to `into`, and NO_SLOT for
   * the others. Returns their number.
   */
  takeBatch(
    session: Session,
    listed: readonly ListedJob[],
    isAlone: boolean,
    nowMs: number,
    into: number[],
  ): number {
    this.runDue(nowMs);
    let taken = 0;
    for (const job of listed) {
      const slot = this.#takeable(session, job, isAlone, nowMs);
      into.push(slot);
      if (slot === NO_SLOT) continue;
      this.#assign(slot, session, nowMs);
      taken++;
    }
    return taken;
  }

  /** Returns the slot of a ready job that the session may have, or NO_SLOT. */
  #takeable(session: Session, { id, pri }: ListedJob, isAlone: boolean, nowMs: number): number {
    const slot = this.find(id);
    if (slot === NO_SLOT || this.jobs.pageOf(slot).state[rowOf(slot)] !== JobState.Ready) return NO_SLOT;
    // Its priority has changed since it was listed, so other jobs may be better now.
    if (this.jobs.pageOf(slot).pri[rowOf(slot)] !== pri) return NO_SLOT;
    const tube = this.tubeOf(slot);
    if (!tube.open || !session.watches.has(tube)) return NO_SLOT;
    // Among groups, only the group whose turn it is gives a job.
    if (tube.groups !== undefined && tube.ready.top !== slot) return NO_SLOT;
    if (this.#expiryBehindAtMs > 0 && this.jobs.pageOf(slot).extras?.isOver(rowOf(slot), nowMs) === true)
      return NO_SLOT;
    // The job was lost by a worker after it was listed, so it must travel alone.
    return isAlone || !wasLost(this.jobs, slot) ? slot : NO_SLOT;
  }

  /** Calls `visit` for each watched tube that has a job to give now. */
  #eachServing(session: Session, visit: (tube: Tube) => void): void {
    const { readyTubes } = this.#queues;
    const { watches } = session;
    this.looks += Math.min(watches.size, readyTubes.length);
    const serves = (tube: Tube): boolean =>
      tube.open && tube.jobsIn(JobState.Ready) > 0 && tube.ready.top !== NO_SLOT && !this.#isStale(tube);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (serves(tube)) visit(tube);
    } else {
      for (const tube of readyTubes) if (watches.has(tube) && serves(tube)) visit(tube);
    }
  }

  /**
   * Renews the TTR of up to `jobsMax` jobs that the session holds and that this command has not
   * reached yet; `begins` starts at the first. Returns whether that was all.
   */
  touchSome(session: Session, begins: boolean, jobsMax: number, nowMs: number): boolean {
    if (begins) session.nextToTouch = session.heldInOrder.first;
    this.runDue(nowMs);
    let slot = session.nextToTouch;
    for (let left = jobsMax; slot !== NO_SLOT && left > 0; left--) {
      this.#queues.renew(slot, session, nowMs);
      slot = session.heldInOrder.behind(slot);
    }
    session.nextToTouch = slot;
    this.#sessionTimers.set(session);
    return slot === NO_SLOT;
  }

  // --- waits ----------------------------------------------------------------------------------

  /**
   * Lets the session wait here for its share of the watched tubes. If a job is ready by now, the
   * session gets it as an effect, unless another shard claims the wait first. `timeoutAtMs` is
   * Infinity on all shards but one.
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

  /** Ends this shard's part of a shared wait that ended elsewhere. */
  stopSharedWait(session: Session): void {
    if (session.waiting === Waiting.Shared) this.waiters.end(session);
    this.#sessionTimers.set(session);
  }

  /** The client can't send any more: its wait ends with a timeout, and no other begins. */
  halfClose(session: Session, nowMs: number): void {
    this.runDue(nowMs);
    session.halfClosed = true;
    if (session.waiting !== Waiting.Alone) return;
    this.waiters.end(session);
    this.#sessionTimers.set(session);
    this.#effects.timedOut(session);
  }

  /** Ends a wait on this shard alone, without an effect; false if a job has just ended it. */
  abortWait(session: Session, nowMs: number): boolean {
    this.runDue(nowMs);
    if (session.waiting !== Waiting.Alone) return false;
    this.waiters.end(session);
    this.#sessionTimers.set(session);
    return true;
  }

  #startWaiting(session: Session, waiting: Waiting, timeoutAtMs: number): void {
    this.waiters.begin(session, waiting, timeoutAtMs);
    this.#sessionTimers.set(session);
  }

  /** Gives ready jobs of the tube to waiting clients. */
  #serve(tube: Tube, nowMs: number): void {
    if (tube.gate !== undefined) this.#setOpen(tube, nowMs);
    while (tube.open && tube.ready.top !== NO_SLOT && this.#serveOne(tube, nowMs)) {
      // while there are a job and a waiter
    }
  }

  /** Gives the tube's best job to the longest-waiting session; returns false if none waits. */
  #serveOne(tube: Tube, nowMs: number): boolean {
    if (this.#isStale(tube)) return false;
    for (;;) {
      const session = this.waiters.longest(tube);
      if (session === undefined) return false;
      const shared = session.waiting === Waiting.Shared;
      this.waiters.end(session);
      if (shared && !this.#effects.claim(session)) {
        this.#sessionTimers.set(session);
        continue;
      }
      const slot = tube.ready.top;
      this.#assign(slot, session, nowMs);
      this.#effects.reserved(session, slot);
      return true;
    }
  }

  #meterWait(meter: Meter, slot: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Ready) meter.waited(nowMs - page.deadlineAtMs[row]!);
  }

  /** Gives the session a job that is not reserved. */
  #assign(slot: number, session: Session, nowMs: number): void {
    this.jobReserves++;
    if (this.#meter !== undefined) this.#meterWait(this.#meter, slot, nowMs);
    this.#queues.leave(slot);
    const mayMatter = this.#queues.becomeReserved(slot, session, nowMs);
    this.#sessionTimers.set(session);
    if (mayMatter) this.#passGate(slot, nowMs);
  }

  /** Handles side effects of a reservation on the job's key and the tube's rate limiter. */
  #passGate(slot: number, nowMs: number): void {
    if (this.jobs.pageOf(slot).extras !== undefined) this.policies.keys.reserved(slot, nowMs);
    const tube = this.tubeOf(slot);
    if (tube.gate === undefined) return;
    tube.gate.took(nowMs);
    this.#setOpen(tube, nowMs);
  }

  /** Moves a reservation to another session, at once or later; its deadline stays. */
  hand(slot: number, from: Session, to: Session): void {
    this.#queues.hand(slot, from, to);
    this.#sessionTimers.set(from);
    this.#sessionTimers.set(to);
  }

  /** Returns one job that the session holds, as the end of its connection would. */
  giveBackOne(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.#heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.#takeBack(slot, session, nowMs, false);
    this.#sessionTimers.set(session);
    return Outcome.Done;
  }

  /** Ends any session's reservation as its timeout would; NotFound if the job isn't reserved. */
  expire(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) return Outcome.NotFound;
    const holder = this.#holderOf(page.holder[row]!);
    page.timeouts[row] = page.timeouts[row]! + 1;
    this.jobTimeouts++;
    this.tubeOf(slot).timeouts++;
    this.#takeBack(slot, holder, nowMs, true);
    this.#sessionTimers.set(holder);
    return Outcome.Done;
  }

  /** Returns the session with this index, if there is one. */
  sessionAt(index: number): Session | undefined {
    return this.#sessions[index];
  }

  // --- commands on a job ----------------------------------------------------------------------

  /** Returns the slot of a job, or NO_SLOT. */
  find(id: number): number {
    return this.#index.get(id);
  }

  reserveJob(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state === JobState.Reserved || state === JobState.Moving) return Outcome.NotFound;
    if (this.#expiryBehindAtMs > 0 && this.jobs.pageOf(slot).extras?.isOver(rowOf(slot), nowMs) === true)
      return Outcome.NotFound;
    this.#assign(slot, session, nowMs);
    // The log treats reserved jobs as ready; this one must not return as buried or delayed after a
    // restart.
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
      this.#meter?.held(page.deadlineAtMs[row]!, page.ttrSeconds[row]!, nowMs);
      this.#queues.leaveHolder(slot, session);
      this.#sessionTimers.set(session);
    } else if (page.state[row] === JobState.Moving) return Outcome.NotFound;
    else this.#queues.leave(slot);
    if (page.extras === undefined || !this.policies.keys.end(slot, nowMs)) this.#records.deleted(id);
    this.#endDeleted(slot, nowMs);
    return Outcome.Done;
  }

  /**
   * Deletes a job in any state, whichever session holds it, and its tube if that is unused. Forgets
   * its key at once, so that another put can use it.
   */
  discard(slot: number, nowMs: number): void {
    this.#leave(slot);
    this.#records.deleted(this.jobs.pageOf(slot).id[rowOf(slot)]!);
    this.#endDeleted(slot, nowMs);
  }

  /** Takes a job out of its queue, in any state. */
  #leave(slot: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) {
      this.#queues.leave(slot);
      return;
    }
    const holder = this.#holderOf(page.holder[row]!);
    this.#queues.leaveHolder(slot, holder);
    this.#sessionTimers.set(holder);
  }

  #endDeleted(slot: number, nowMs: number): void {
    const tube = this.tubeOf(slot);
    tube.deletes++;
    this.jobDeletes++;
    this.#end(slot, tube);
    this.#freed(tube, nowMs);
    this.#dropIfUnreferenced(tube);
  }

  #holderOf(index: number): Session {
    const holder = this.#sessions[index];
    assert(holder !== undefined, "who holds a job has a session");
    return holder;
  }

  /** Removes a job that is in no queue, with its body. */
  #end(slot: number, tube: Tube): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.bodies.free(page.body[row]!);
    this.#remove(slot, page.id[row]!, tube);
  }

  /** Removes a job that is in no queue; the caller owns its body. */
  #remove(slot: number, id: number, tube: Tube): void {
    const page = this.jobs.pageOf(slot);
    tube.bytes -= page.bodyBytes[rowOf(slot)]!;
    this.#queues.becomeFree(slot, tube);
    if (page.extras !== undefined) this.policies.forget(slot);
    this.#index.delete(id);
    this.jobs.free(slot);
  }

  release(session: Session, id: number, pri: number, delaySeconds: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.#heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.tubeOf(slot);
    this.#meter?.held(page.deadlineAtMs[row]!, page.ttrSeconds[row]!, nowMs);
    tube.releases++;
    this.jobReleases++;
    this.#queues.leaveHolder(slot, session);
    this.#sessionTimers.set(session);
    page.pri[row] = pri;
    page.delaySeconds[row] = delaySeconds;
    page.releases[row] = page.releases[row]! + 1;
    if (this.#hasPolicy(slot, tube)) {
      this.#endReservation(slot, tube, delaySeconds * 1000, nowMs);
      return Outcome.Done;
    }
    if (delaySeconds > 0) this.#queues.becomeDelayed(slot, tube, nowMs + delaySeconds * 1000);
    else this.#queues.becomeReady(slot, tube, nowMs);
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
    const tube = this.tubeOf(slot);
    this.#meter?.held(page.deadlineAtMs[row]!, page.ttrSeconds[row]!, nowMs);
    tube.buries++;
    this.jobBuries++;
    this.#queues.leaveHolder(slot, session);
    this.#sessionTimers.set(session);
    page.pri[row] = pri;
    page.buries[row] = page.buries[row]! + 1;
    this.#queues.becomeBuried(slot, tube, nowMs);
    this.#records.updated(slot);
    this.#freed(tube, nowMs);
    return Outcome.Done;
  }

  touch(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.#heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.jobTouches++;
    this.#queues.renew(slot, session, nowMs);
    this.#sessionTimers.set(session);
    return Outcome.Done;
  }

  /** Returns whether a kick takes buried jobs; it takes delayed ones only if none is buried. */
  kicksBuried(session: Session): boolean {
    return session.tubeInUse.buriedJobs > 0;
  }

  /** Kicks up to `bound` buried jobs (oldest first) or delayed ones (soonest first). */
  kick(session: Session, bound: number, nowMs: number, buried: boolean = this.kicksBuried(session)): number {
    this.runDue(nowMs);
    const tube = session.tubeInUse;
    let kicked = 0;
    while (kicked < bound) {
      const slot = buried ? tube.buried.first : tube.delayed.top;
      if (slot === NO_SLOT) break;
      this.#kickOne(slot, tube, nowMs);
      kicked++;
    }
    return kicked;
  }

  kickJob(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state !== JobState.Buried && state !== JobState.Delayed) return Outcome.NotFound;
    this.#kickOne(slot, this.tubeOf(slot), nowMs);
    return Outcome.Done;
  }

  #kickOne(slot: number, tube: Tube, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#queues.leave(slot);
    tube.kicks++;
    this.jobKicks++;
    page.kicks[row] = page.kicks[row]! + 1;
    if (this.#hasPolicy(slot, tube)) this.policies.kicked(slot, tube);
    this.#queues.becomeReady(slot, tube, nowMs);
    this.#records.updated(slot);
    // Buried jobs don't expire, ready ones do, so this job may be long overdue.
    this.#offer(tube, nowMs);
    this.#dropIfUnreferenced(tube);
  }

  /** Runs what is due, since a newly ready job may have expired; then serves the tube. */
  #offer(tube: Tube, nowMs: number): void {
    tube.using++;
    this.runDue(nowMs);
    tube.using--;
    this.#serve(tube, nowMs);
  }

  /**
   * Changes a job that this session or none holds. A delay returns a held job, as ready or delayed;
   * that counts as a release, but not as a lost attempt.
   */
  update(session: Session, id: number, change: JobChange, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    return slot === NO_SLOT ? Outcome.NotFound : this.#changes.update(session, slot, change, nowMs);
  }

  /** See JobChanges. */
  changedFacts(slot: number, change: JobChange, nowMs: number): ChangedFacts {
    return this.#changes.changedFacts(slot, change, nowMs);
  }

  /** Moves a job that isn't reserved within the shard; `asReady` in its own tube means a kick. */
  move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome {
    return this.#changes.move(slot, target, asReady, nowMs);
  }

  // --- transfers to other shards --------------------------------------------------------------

  /** Returns whether a job is on its way to another shard. */
  isMoving(id: number): boolean {
    if (this.jobsMoving === 0) return false;
    const slot = this.find(id);
    return slot !== NO_SLOT && this.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Moving;
  }

  /** See JobTravel. */
  depart(slot: number, shipment: number): void {
    this.#travel.depart(slot, shipment);
  }

  /** Notes that the job has arrived elsewhere, if it is still on its way with this shipment. */
  departed(id: number, shipment: number, nowMs: number): void {
    this.runDue(nowMs);
    const slot = this.#travel.travelling(id, shipment);
    if (slot !== NO_SLOT) this.#travel.departed(slot, nowMs);
  }

  /** Notes that the other shard did not take the job. */
  stay(id: number, shipment: number, nowMs: number): void {
    this.runDue(nowMs);
    const slot = this.#travel.travelling(id, shipment);
    if (slot !== NO_SLOT) this.#travel.stay(slot, nowMs);
  }

  /** Returns the state that a moving job had before. */
  stateBefore(slot: number): JobState {
    return this.#travel.stateBefore(slot);
  }

  /** See JobTravel. */
  arrive(
    job: RestoredJob,
    body: number,
    attributes: JobAttributes | undefined,
    arrival: Arrival,
    nowMs: number,
  ): Outcome {
    this.runDue(nowMs);
    return this.#travel.arrive(job, body, attributes, arrival, nowMs);
  }

  /** Returns whether a dead job that has to leave is still here, or on its way. */
  isLeaving(id: number): boolean {
    const slot = this.find(id);
    return slot !== NO_SLOT && (this.policies.isLeaving(slot) || this.isMoving(id));
  }

  /**
   * Returns the tube of another shard to which a job marked to leave has to go; "" if there is
   * none. If this shard owns the tube, moves the job there.
   */
  leavesFor(id: number, nowMs: number): string {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return "";
    const tube = this.tubeOf(slot);
    const target = this.policies.endLeaving(slot, tube, nowMs);
    if (target === "") return "";
    if (!this.#ownsTube(target)) return target;
    const there = this.policies.bringToDeadLetter(slot, tube, target, nowMs);
    // A dead job has a TTL only if it got one since its death, and that may have passed.
    this.#offer(there, nowMs);
    this.#dropIfUnreferenced(there);
    this.#dropIfUnreferenced(tube);
    return "";
  }

  /** Returns the tube in which a dead job died, or "". */
  originOf(slot: number): string {
    return this.#changes.originOf(slot);
  }

  // --- many jobs ------------------------------------------------------------------------------

  /** Returns a walk through the jobs with ids above `afterId`, up to the highest present id. */
  walk(filter: JobFilter, afterId: number): JobWalk {
    const { jobs, bodies } = this;
    const tubeOf = (slot: number): Tube => this.tubeOf(slot);
    const walked = { jobs, index: this.#index, bodies, search: this.#search, tubeOf };
    return new JobWalk(walked, filter, afterId, this.#index.highestId);
  }

  /** Begins to clear a tube of up to `limit` jobs that exist now; deletes nothing yet. */
  clearing(tube: string, filter: JobFilter, limit: number): TubeClearing {
    return new TubeClearing(this, tube, this.walk(filter, 0), limit);
  }

  /** Deletes up to `jobsMax` jobs of a clearing; returns whether it is done. */
  clear(clearing: TubeClearing, jobsMax: number, nowMs: number): boolean {
    this.runDue(nowMs);
    return clearing.step(jobsMax, nowMs);
  }

  /** Returns the slot of a job that the session holds, or NO_SLOT. */
  #heldBy(session: Session, id: number): number {
    const slot = this.find(id);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    return page.state[row] === JobState.Reserved && page.holder[row] === session.index ? slot : NO_SLOT;
  }
}
