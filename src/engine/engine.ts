// The state machine of one shard: its tubes, jobs and sessions, and every change that a command or
// a timer makes.
//
// The engine is pure: time comes in as a number (monotonic ms, never decreasing), and effects go
// out through two interfaces. It never reads a clock, a random number, a file or a socket. Each
// public method first runs due timers, so a command that arrives exactly at a deadline sees the
// state after it. README.md describes the life of a job, docs/architecture/engine-invariants.md the
// invariants, which `checkInvariants` tests. This file has sessions, tubes and settings; the
// classes that it extends have the commands on jobs.

import { assert, CHECKED } from "../base/assert.ts";
import { FlowWork } from "./flow-work.ts";
import { BodySearch } from "./jobs/body-search.ts";
import { ENDS } from "./jobs/ends.ts";
import type { JobAttributes } from "./jobs/job-attributes.ts";
import { JobState, NO_SLOT } from "./jobs/job-table.ts";
import { BYTES_OF } from "./memory-use.ts";
import { NO_ROW } from "./policies/key-table.ts";
import { Schedules } from "./schedules/schedules.ts";
import { SettingChange } from "./tubes/setting-change.ts";
import type { Tube } from "./tubes/tube.ts";
import type { SettingValues } from "./tubes/tube-settings.ts";
import { Session, Waiting, type Watch } from "./waiting/session.ts";
import { type JobFilter, JobWalk } from "./walks/job-walk.ts";
import { TubeClearing } from "./walks/tube-clearing.ts";

export { Outcome } from "./jobs/outcome.ts";
export { ReserveOutcome } from "./reservations.ts";

/** Maximum number of groups that one slice of cleaning forgets. */
const TIDIED_GROUPS_MAX = 500;

export class Engine extends FlowWork {
  /** Number of jobs by JobState, over all tubes. */
  readonly jobCounts: Int32Array = this.queues.counts;
  readonly search: BodySearch = new BodySearch(this.bodies);
  readonly schedules: Schedules = new Schedules(this);

  // --- counts ------------------------------------------------------------------------------------

  /** Bytes that clients make the shard keep. */
  get memoryBytes(): number {
    const { jobs, tubes } = this;
    if (CHECKED)
      assert(
        jobs.live >= 0 && jobs.groups >= 0 && this.waiters.watches >= 0,
        "counts of what takes memory are not negative",
      );
    return (
      this.bodies.usedBytes +
      jobs.live * BYTES_OF.job +
      jobs.spareExtras.rows * BYTES_OF.extras +
      jobs.failurePages * BYTES_OF.failurePage +
      tubes.size * BYTES_OF.tube +
      tubes.retiredLimiters.size * BYTES_OF.retiredLimiter +
      jobs.groups * BYTES_OF.group +
      this.waiters.watches * BYTES_OF.watch +
      this.waiters.shares * BYTES_OF.share +
      this.policies.keys.table.size * BYTES_OF.key +
      this.settings.size * BYTES_OF.setting +
      this.schedules.table.size * BYTES_OF.schedule +
      this.schedules.table.textBytes +
      jobs.spareExtras.flowPages * BYTES_OF.flowPage +
      this.batches.size * BYTES_OF.batch
    );
  }

  get urgentJobs(): number {
    return this.queues.urgentJobs;
  }

  /** Number of reserved jobs. */
  get jobsReserved(): number {
    return this.jobCounts[JobState.Reserved]!;
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
    assert(count <= tube.watching, "only sessions that watch a tube wait for it");
    this.looks += count + (this.waiters.of(tube)?.wide?.size ?? 0);
    return count;
  }

  /** Does cleanup that nothing waits for, for about a fifth of a millisecond. */
  tidy(): void {
    this.queues.tidy(TIDIED_GROUPS_MAX);
  }

  // --- sessions ----------------------------------------------------------------------------------

  /** Returns the session with this index; creates it at its first use. */
  session(index: number): Session {
    return (this.sessions[index] ??= new Session(index, this.jobs));
  }

  /** Returns the session with this index, if there is one. */
  sessionAt(index: number): Session | undefined {
    return this.sessions[index];
  }

  /** Removes a session whose connection ended; its jobs become ready at once. */
  closeSession(session: Session, nowMs: number): void {
    this.giveBack(session, Number.POSITIVE_INFINITY, nowMs);
    assert(
      session.held.size === 0 && session.watches.size === 0,
      "a closed session holds and watches nothing",
    );
    assert(session.waiting === Waiting.No, "a closed session waits for nothing");
    assert(this.sessions[session.index] === session, "a session is closed once");
    this.endOrder(session);
    session.turns?.end();
    this.sessionTimers.clear(session);
    assert(session.timer.position < 0, "a closed session has no timer");
    this.unuse(session);
    this.sessions[session.index] = undefined;
  }

  /** Removes an idle session from its index; it continues to use and watch its tubes. */
  detachSession(session: Session): void {
    assert(this.sessions[session.index] === session, "a session leaves its own index");
    assert(
      session.held.size === 0 && session.waiting === Waiting.No,
      "only an idle session changes its index",
    );
    this.sessions[session.index] = undefined;
  }

  /** Gives a detached session another index. */
  adoptSession(session: Session, index: number): void {
    assert((this.sessions[index]?.watches.size ?? 0) === 0, "an index has one session");
    assert(session.held.size === 0, "a session that holds a job keeps its index");
    session.index = index;
    this.sessions[index] = session;
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
    const end = session.endsWithServer ? ENDS.Stopped : ENDS.Disconnected;
    let steps = 0;
    for (; heldInOrder.first !== NO_SLOT && steps < stepsMax; steps++)
      this.takeBack(heldInOrder.first, session, end, nowMs);
    assert(
      (heldInOrder.first === NO_SLOT) === (session.held.size === 0),
      "a session's heap and list have the same jobs",
    );
    this.sessionTimers.set(session);
    session.unwatching ??= session.watches.values();
    for (; session.watches.size > 0; steps++) {
      if (steps >= stepsMax) return false;
      const watch = session.unwatching.next();
      assert(watch.done !== true, "each watch is ended once");
      this.#unwatch(watch.value);
    }
    return heldInOrder.first === NO_SLOT;
  }

  // --- tubes -------------------------------------------------------------------------------------

  /** Returns the tube of this name, if it exists. */
  findTube(name: string): Tube | undefined {
    return this.tubes.get(name);
  }

  use(session: Session, name: string): void {
    const tube = this.tubes.open(name);
    if (session.used === tube) return;
    tube.using++;
    this.unuse(session);
    session.used = tube;
    assert(tube.using > 0, "the user of a tube is counted");
    if (CHECKED) assert(this.findTube(name) === tube, "the tube in use is among the tubes");
  }

  unuse(session: Session): void {
    const tube = session.used;
    if (tube === undefined) return;
    assert(tube.using > 0, "each user of a tube is counted");
    session.used = undefined;
    tube.using--;
    this.dropIfUnused(tube);
  }

  watch(session: Session, name: string): void {
    const tube = this.tubes.open(name);
    if (session.watches.has(tube)) return;
    this.waiters.watch(session, tube);
    session.turns?.watch(tube);
    session.order?.add(tube, session.watches.size);
    assert(tube.watching > 0, "the watcher of a tube is counted");
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
    watch.session.turns?.unwatch(watch.tube);
    if (CHECKED) assert(!watch.session.watches.has(watch.tube), "a watch that has ended is forgotten");
    this.dropIfUnused(watch.tube);
  }

  /** Pauses a tube; returns false if the tube does not exist. */
  pause(name: string, seconds: number, nowMs: number): boolean {
    this.runDue(nowMs);
    const tube = this.findTube(name);
    if (tube === undefined) return false;
    tube.pauses++;
    tube.pauseSeconds = seconds;
    const endsAtMs = seconds > 0 ? nowMs + seconds * 1000 : Number.POSITIVE_INFINITY;
    this.pauseTimers.set(tube.pauseTimer, endsAtMs);
    this.setOpen(tube, nowMs);
    assert(tube.paused === seconds > 0, "a tube is paused while its timer runs");
    assert(!tube.paused || !tube.open, "a paused tube gives no job");
    if (seconds === 0) this.serve(tube, nowMs);
    return true;
  }

  // --- settings ----------------------------------------------------------------------------------

  /**
   * Replaces all settings of a tube or pattern for new tubes at once; no values remove the pattern.
   * The result's steps apply it to existing tubes.
   */
  beginSetting(pattern: string, values: Partial<SettingValues>): SettingChange {
    this.settings.set(pattern, values);
    return new SettingChange(this, pattern);
  }

  /** Applies its settings to a tube and its groups; returns the remaining `looks`. */
  applySettings(tube: Tube, looks: number, nowMs: number): number {
    const { policy } = this.tubes.applySettings(tube, nowMs);
    if (tube.limiter === undefined) this.rateTimers.set(tube.limiterTimer, Number.POSITIVE_INFINITY);
    tube.groups?.limit(policy?.groupMaxReserved ?? Number.POSITIVE_INFINITY);
    assert(tube.limiter === undefined || policy !== undefined, "a rate limiter comes from a setting");
    return this.settleGroups(tube, looks, nowMs);
  }

  /** Continues with a tube whose groups lack its settings; returns the remaining `looks`. */
  settleGroups(tube: Tube, looks: number, nowMs: number): number {
    const left = tube.groups?.settle(looks) ?? looks;
    assert(left <= looks, "a budget of looks never grows");
    this.setOpen(tube, nowMs);
    this.serve(tube, nowMs);
    return left;
  }

  /** Returns whether a job of the tube has the unique key of these attributes. */
  hasKey(tubeName: string, attributes: JobAttributes): boolean {
    const tube = this.findTube(tubeName);
    return tube !== undefined && this.policies.keys.rowFor(tube, attributes) !== NO_ROW;
  }

  // --- many jobs ---------------------------------------------------------------------------------

  /** Returns a walk through the jobs with ids above `afterId`, up to the highest present id. */
  walk(filter: JobFilter, afterId: number): JobWalk {
    return new JobWalk(this, filter, afterId, this.index.highestId);
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
}
