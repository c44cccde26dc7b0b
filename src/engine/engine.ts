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
import { type BatchFacts, BatchState } from "../protocol/batch-facts.ts";
import type { SettingValues } from "../schema/setting.ts";
import { BodySearch, type JobFilter, JobWalk, TubeClearing } from "./job-walk.ts";
import { ENDS } from "./jobs/ends.ts";
import type { IndexPlace } from "./jobs/job-index.ts";
import { FlowFlag, JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { JobAttributes } from "./jobs/new-job.ts";
import { NOBODY } from "./policies/failures.ts";
import { NO_ROW } from "./policies/key-table.ts";
import { isLostAfter, reasonOf, spanOf } from "./policies/policies.ts";
import { Schedules } from "./schedules.ts";
import type { BatchRow } from "./state/batch-table.ts";
import { Session, Waiting, type Watch } from "./state/session.ts";
import { Transfers } from "./transfers.ts";
import type { Tube } from "./tubes/tube.ts";
import { SettingChange } from "./tubes/tube-table.ts";

// The memory that clients make a shard keep, as --max-memory counts it. src/memory-bounds.md lists
// everything that clients can make grow.
//
// The figure falls whenever something is removed, unlike the memory taken from the system. Each put
// computes it (`Engine.memoryBytes`), at the cost of a few reads.

/** Measured sizes in bytes, rounded up, with names of tubes and groups of about 30 bytes. */
export const BYTES_OF = {
  /** The job's row, index entry and heap position. Body and attributes are in the arena. */
  job: 112,
  /** The job's row in a page where some jobs have attributes. */
  extras: 36,
  /** A page's columns for failures, if a job on it has failed. The failures are in the arena. */
  failurePage: 65536,
  tube: 512,
  watch: 256,
  /** A watched tube's share, besides its watch, if the session has weights. */
  share: 256,
  group: 320,
  /** The key's row and entry. The key itself is in the arena. */
  key: 64,
  retiredLimiter: 200,
  setting: 256,
  /** Without its texts, which are counted separately, and its body, which is in the arena. */
  schedule: 1024,
  /** A page's columns of batches, if a job on it belongs to one or waits for one. */
  flowPage: 139264,
  /** A batch, on each shard, with a name of up to 200 bytes. */
  batch: 768,
} as const;

/** Maximum bytes that one more put may add, besides its body. */
export const PUT_BYTES: number =
  BYTES_OF.job + BYTES_OF.extras + BYTES_OF.tube + BYTES_OF.group + BYTES_OF.key;

// Applies the end of batches to the jobs of this shard, a few at a time. Jobs that waited for a
// batch become ready or are buried; members of a cancelled batch are removed.

/** Number of jobs that a turn may change. */
const TURN_JOBS_MAX = 100;
/** Number of ids that a slice may examine for each job that it may change. */
const LOOKS_PER_JOB = 5;

class FlowWork extends Transfers {
  readonly #place: IndexPlace = { id: 0, looksLeft: 0 };
  /** The last id of the pass under way. */
  #sweptUpTo = 0;

  /** Whether jobs of this shard are affected by the end of a batch. */
  get hasFlowWork(): boolean {
    const { releasing, sweeping, toSweep } = this.batches;
    return releasing.size > 0 || sweeping.size > 0 || toSweep.size > 0;
  }

  /** Changes some of these jobs. */
  workOnFlows(nowMs: number): void {
    this.runDue(nowMs);
    let left = TURN_JOBS_MAX;
    for (const batch of this.batches.releasing) {
      for (; left > 0 && batch.waiting.first !== NO_SLOT; left--)
        this.#release(batch.waiting.first, batch, nowMs);
      if (batch.waiting.first !== NO_SLOT) return;
      this.batches.releasing.delete(batch);
    }
    if (left > 0) this.#sweep(left, nowMs);
  }

  /**
   * Takes over what the home of a batch has decided; returns the batch, if it still exists. Members
   * that workers hold when it is cancelled outlive it, and the log has that before the client gets
   * its answer: a restart may come before the pass does, and then nobody holds them any more.
   */
  assumeBatch(facts: Readonly<BatchFacts>): BatchRow | undefined {
    const before = this.batches.of(facts.number)?.state;
    const batch = this.batches.assume(facts);
    if (batch?.state === BatchState.Cancelled && batch.state !== before) this.#spareHeld(batch);
    return batch;
  }

  #spareHeld({ open }: BatchRow): void {
    let left = open === 0 ? 0 : this.queues.counts[JobState.Reserved]!;
    this.looks += left;
    for (let index = 0; left > 0; index++) {
      assert(index < this.sessions.length, "a reserved job has a session");
      const held = this.sessions[index]?.heldInOrder;
      if (held === undefined) continue;
      for (let slot = held.first; slot !== NO_SLOT; slot = held.behind(slot), left--)
        if (this.batches.spare(slot)) this.records?.updated(slot);
    }
  }

  /** Ends the wait of a job as the outcome of its batch says. */
  #release(slot: number, batch: BatchRow, nowMs: number): void {
    assert(batch.state === BatchState.Complete, "a job waits until its batch is complete");
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const flows = page.extras?.flows;
    assert(flows?.after[row] === batch.number, "a job is released by the batch that it waits for");
    const tube = this.tubeOf(slot);
    this.queues.leave(slot);
    flows.after[row] = 0;
    if (isLostAfter(batch, (flows.flags[row]! & FlowFlag.Any) !== 0)) {
      this.batches.counts.buried++;
      this.policies.failures.add(slot, ENDS.Buried.failure, NOBODY, nowMs, spanOf(reasonOf(batch)));
      this.countBury(slot, tube);
      this.queues.becomeBuried(slot, tube, nowMs);
      this.records?.updated(slot);
      return;
    }
    this.batches.counts.released++;
    const delayMs = page.delaySeconds[row]! * 1000;
    if (delayMs > 0) this.queues.becomeDelayed(slot, tube, nowMs + delayMs);
    else this.queues.becomeReady(slot, tube, nowMs);
    this.records?.updated(slot);
    this.runDueAndServe(tube, nowMs);
  }

  /**
   * Removes the unreserved members of cancelled batches. One pass over the jobs serves all batches:
   * a pass for each would take minutes if many are cancelled on a shard with many jobs.
   */
  #sweep(jobsMax: number, nowMs: number): void {
    const { sweeping } = this.batches;
    const place = this.#place;
    if (sweeping.size === 0) {
      if (!this.batches.beginSweep()) return;
      place.id = 0;
      this.#sweptUpTo = this.index.highestId;
    }
    place.looksLeft = jobsMax * LOOKS_PER_JOB;
    for (let left = jobsMax; left > 0 && sweeping.size > 0; ) {
      const slot = this.index.next(place, this.#sweptUpTo);
      assert(place.looksLeft >= 0 && place.id <= this.#sweptUpTo, "a pass keeps to its ids and its budget");
      if (slot === NO_SLOT) break;
      const batch = this.#sweptBatch(slot);
      if (batch === undefined) continue;
      if (this.#stays(slot)) continue;
      this.discard(slot, ENDS.Cancelled, nowMs);
      if (batch.open === 0) sweeping.delete(batch);
      left--;
    }
    if (place.id >= this.#sweptUpTo) sweeping.clear();
  }

  /** Returns whether a member outlives its batch: a worker took it since, or it is in transit. */
  #stays(slot: number): boolean {
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state === JobState.Reserved && this.batches.spare(slot)) this.records?.updated(slot);
    // A member in transit is spared by the shard where it ends up.
    return state === JobState.Reserved || state === JobState.Moving;
  }

  /** Returns the batch of a member that this pass removes, or spares because a worker has it. */
  #sweptBatch(slot: number): BatchRow | undefined {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const flows = page.extras?.flows;
    if (flows === undefined || flows.batch[row] === 0) return undefined;
    if ((flows.flags[row]! & (FlowFlag.Ended | FlowFlag.Spared)) !== 0) return undefined;
    const batch = this.batches.of(flows.batch[row]!);
    assert(batch === undefined || batch.open > 0, "a member that has not ended is counted");
    return batch !== undefined && this.batches.sweeping.has(batch) ? batch : undefined;
  }
}

export { Outcome } from "./jobs/ends.ts";
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
