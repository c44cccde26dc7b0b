// A batch as one shard knows it.

import { assert } from "../../base/assert.ts";
import type { BatchCounts } from "../../schema/batch.ts";
import { type BatchFacts, BatchOutcome, BatchState } from "../../schema/batch.ts";
import { SortedNumbers } from "../jobs/job-index.ts";
import { FlowFlag, type JobPage, JobState, type JobTable, rowOf } from "../jobs/job-table.ts";
import type { JobAttributes } from "../jobs/new-job.ts";
import { Timer, TimerHeap } from "../queues/heaps.ts";
import { JobList } from "../queues/job-heaps.ts";

export class BatchRow implements BatchFacts, BatchCounts {
  readonly number: number;
  readonly name: string;
  state: BatchState;
  outcome: BatchOutcome = BatchOutcome.None;
  keepMs: number;
  openedAtMs: number;
  completeAtMs = 0;
  allDone = 0;
  allFailed = 0;
  open = 0;
  dead = 0;
  moving = 0;
  done = 0;
  failed = 0;
  buried = 0;
  waitingJobs = 0;
  arrivals = 0;
  /** The jobs of this shard that wait for the batch. */
  readonly waiting: JobList;
  /** Members that ended on shards that the server no longer has. */
  formerDone = 0;
  formerFailed = 0;
  /** When its home forgets it, once it is complete. */
  readonly timer: Timer<BatchRow> = new Timer<BatchRow>(this);
  /** Whether it is among `BatchTable.idle`. */
  isIdle = false;
  /** The state under which `BatchTotals` counts it. */
  counted: BatchState = BatchState.Forgotten;

  constructor(jobs: JobTable, { number, name, state, keepMs, openedAtMs }: Readonly<BatchFacts>) {
    this.number = number;
    this.name = name;
    this.state = state;
    this.keepMs = keepMs;
    this.openedAtMs = openedAtMs;
    this.waiting = new JobList(jobs);
  }

  /** Takes over what the home of the batch has decided. */
  assume(facts: Readonly<BatchFacts>): void {
    assert(facts.number === this.number, "a decision about a batch names the batch");
    this.state = facts.state;
    this.outcome = facts.outcome;
    this.keepMs = facts.keepMs;
    this.completeAtMs = facts.completeAtMs;
    this.allDone = facts.allDone;
    this.allFailed = facts.allFailed;
  }

  /** Whether it takes no more members, but is not complete. */
  get isEnding(): boolean {
    return this.state === BatchState.Committed || this.state === BatchState.Cancelled;
  }
}

// Sums over the batches that a shard knows. They are kept up to date, because 100,000 batches are
// too many to count each second.

const zeros = (): [number, number, number, number, number] => [0, 0, 0, 0, 0];

class BatchTotals {
  /** Batches by BatchState. As every shard knows all batches, this is the same on all of them. */
  readonly inState: number[] = zeros();
  /**
   * Batches that take members, in the order in which this shard learned that. It is the order of
   * their opening, except that news of several homes may overtake each other.
   */
  readonly #open = new Set<BatchRow>();
  /** Batches that are not complete, in the same order. */
  readonly #unfinished = new Set<BatchRow>();

  /** Batches that homes on this shard opened, and batches that they completed, by BatchOutcome. */
  opened = 0;
  readonly completed: number[] = zeros();

  /** Members on this shard that have not ended, and jobs on it that wait. */
  openMembers = 0;
  waiting = 0;
  /** Members that have ended on this shard. */
  done = 0;
  failed = 0;
  /** Jobs on this shard whose wait was ended by a batch: ready or delayed; buried. */
  released = 0;
  buried = 0;

  /** Notes the state of a batch that is new or may have changed. */
  changed(batch: BatchRow): void {
    const { state, counted } = batch;
    // A batch is not reported before all shards know it.
    if (state === counted || state === BatchState.Opening) return;
    assert(
      counted === BatchState.Forgotten || this.inState[counted]! > 0,
      "a batch was counted in its state",
    );
    if (counted !== BatchState.Forgotten) this.inState[counted]!--;
    else if (state === BatchState.Open) this.#open.add(batch);
    if (counted === BatchState.Open) this.#open.delete(batch);
    if (state === BatchState.Complete) this.#unfinished.delete(batch);
    else if (state === BatchState.Forgotten) {
      this.#unfinished.delete(batch);
      // A complete batch no longer counts its members.
      this.openMembers -= batch.open;
      assert(this.openMembers >= 0, "the members of a batch were counted");
    } else this.#unfinished.add(batch);
    if (state !== BatchState.Forgotten) this.inState[state]!++;
    batch.counted = state;
  }

  /** Counts a member that was open and has ended. */
  ended(done: boolean): void {
    this.openMembers--;
    assert(this.openMembers >= 0, "a member that ends was counted");
    if (done) this.done++;
    else this.failed++;
  }

  /** The batches that are not complete, the oldest first. */
  get unfinished(): IterableIterator<BatchRow> {
    return this.#unfinished.values();
  }

  /** When the oldest batch that takes members was opened; Infinity without one. */
  get openSinceMs(): number {
    return sinceMs(this.#open);
  }

  /** When the oldest batch that is not complete was opened; Infinity without one. */
  get unfinishedSinceMs(): number {
    return sinceMs(this.#unfinished);
  }
}

function sinceMs(batches: ReadonlySet<BatchRow>): number {
  for (const { openedAtMs } of batches) return openedAtMs;
  return Number.POSITIVE_INFINITY;
}

// The server's batches as one shard knows them. For each, the shard counts the members here and the
// jobs here that wait for it.
//
// Every shard knows every batch. Its home, one of the shards, decides what becomes of it
// (shard/commands/batch-homes.ts); see docs/architecture/flows.md.

/** Maximum number of batches. */
export const BATCHES_MAX = 100_000;
/** The deadline of a delayed job that waits for a batch: further away than any delay. */
export const WAITS_UNTIL_MS: number = 2 ** 43;

export class BatchTable {
  /** Whether a batch needs attention. A plain field, because each turn of the shard reads it. */
  hasNews = false;
  /** Number of batches. Each put reads it. */
  size = 0;
  /** When the homes here forget complete batches. The shard does that, since it needs the log. */
  readonly timers: TimerHeap<BatchRow> = new TimerHeap<BatchRow>();
  /** Batches whose last member here has ended, for their homes. */
  readonly idle: BatchRow[] = [];
  /** Complete batches with jobs here that wait for them. */
  readonly releasing = new Set<BatchRow>();
  /** Cancelled batches whose members here are removed by the pass under way. */
  readonly sweeping = new Set<BatchRow>();
  /** Those that were cancelled since it began. */
  readonly toSweep = new Set<BatchRow>();
  readonly counts = new BatchTotals();
  readonly #jobs: JobTable;
  readonly #byNumber = new Map<number, BatchRow>();
  readonly #byName = new Map<string, BatchRow>();
  readonly #numbers = new SortedNumbers(this.#byNumber);

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  /** The batches, in no particular order. */
  get all(): IterableIterator<BatchRow> {
    return this.#byNumber.values();
  }

  of(number: number): BatchRow | undefined {
    return this.#byNumber.get(number);
  }

  /** Returns the batch that was opened first of those with a number of at least `low`. */
  from(low: number): BatchRow | undefined {
    const number = this.#numbers.from(low);
    return number === undefined ? undefined : this.#byNumber.get(number);
  }

  /** Returns the batch that was opened last of those with a number below `high`. */
  before(high: number): BatchRow | undefined {
    const number = this.#numbers.before(high);
    return number === undefined ? undefined : this.#byNumber.get(number);
  }

  /** Returns the cost of `from` and `before` since the last call, in Engine.looks. */
  takeLooks(): number {
    const { looks } = this.#numbers;
    this.#numbers.looks = 0;
    return looks;
  }

  named(name: string): BatchRow | undefined {
    return this.#byName.get(name);
  }

  /** Takes over what the home of a batch has decided; returns the batch, if it still exists. */
  assume(facts: Readonly<BatchFacts>): BatchRow | undefined {
    if (facts.state === BatchState.Forgotten) {
      this.#forget(facts.number);
      return undefined;
    }
    let batch = this.#byNumber.get(facts.number);
    const before = batch?.state ?? BatchState.Open;
    if (batch === undefined) {
      batch = new BatchRow(this.#jobs, facts);
      this.#byNumber.set(batch.number, batch);
      this.#numbers.add(batch.number);
      this.size++;
      assert(!this.#byName.has(batch.name), "a name has one batch");
      this.#byName.set(batch.name, batch);
    }
    batch.assume(facts);
    this.counts.changed(batch);
    if (batch.state === before) return batch;
    this.hasNews = true;
    // At a restart, its members are restored later.
    if (batch.state === BatchState.Cancelled) this.toSweep.add(batch);
    else this.#endSweep(batch);
    if (batch.state === BatchState.Complete && batch.waitingJobs > 0) this.releasing.add(batch);
    return batch;
  }

  #forget(number: number): void {
    const batch = this.#byNumber.get(number);
    if (batch === undefined) return;
    assert(batch.waitingJobs === 0, "no job waits for a batch that is forgotten");
    this.#byNumber.delete(number);
    this.#numbers.noteLoss();
    this.size--;
    this.#byName.delete(batch.name);
    this.releasing.delete(batch);
    this.#endSweep(batch);
    batch.state = BatchState.Forgotten;
    this.counts.changed(batch);
  }

  /** Begins a pass for all batches with members here; returns whether there are any. */
  beginSweep(): boolean {
    assert(this.sweeping.size === 0, "a pass begins when the one before has ended");
    for (const batch of this.toSweep) if (batch.open > 0) this.sweeping.add(batch);
    this.toSweep.clear();
    return this.sweeping.size > 0;
  }

  #endSweep(batch: BatchRow): void {
    this.sweeping.delete(batch);
    this.toSweep.delete(batch);
  }

  // --- jobs that come and go ---------------------------------------------------------------------

  /** Returns the batch that a job waits for, or undefined. */
  awaitedBy(slot: number): BatchRow | undefined {
    const number = this.#jobs.pageOf(slot).extras?.flows?.after[rowOf(slot)] ?? 0;
    return number === 0 ? undefined : this.#byNumber.get(number);
  }

  waits(slot: number): boolean {
    return (this.#jobs.pageOf(slot).extras?.flows?.after[rowOf(slot)] ?? 0) !== 0;
  }

  /** Counts a job that is new here: put, from the log, or from another shard. */
  enter(slot: number, arrived: boolean): void {
    const page = this.#jobs.pageOf(slot);
    const flows = page.extras?.flows;
    if (flows === undefined) return;
    const row = rowOf(slot);
    const batch = this.#byNumber.get(flows.batch[row]!);
    if (batch === undefined) flows.batch[row] = 0;
    else {
      if ((flows.flags[row]! & FlowFlag.Ended) === 0) {
        batch.open++;
        this.counts.openMembers++;
      } else batch.dead++;
      if (arrived) {
        batch.arrivals++;
        this.spare(slot);
      }
    }
    if (!arrived) return;
    const awaited = this.#byNumber.get(flows.after[row]!);
    if (awaited !== undefined) awaited.arrivals++;
  }

  /**
   * Gives a job without a queue the batches that a put names, if it doesn't have them. The page has
   * its columns.
   */
  join(slot: number, { batch: number, after, afterName, afterAny }: JobAttributes): void {
    const { flows } = this.#jobs.pageOf(slot).extras!;
    const row = rowOf(slot);
    assert(flows !== undefined, "the page of a job that joins a batch has the columns");
    const batch = this.#byNumber.get(number);
    if (batch !== undefined && flows.batch[row] !== number) {
      assert(batch.state === BatchState.Open, "only an open batch takes members");
      flows.batch[row] = number;
      flows.flags[row]! &= ~(FlowFlag.Ended | FlowFlag.Spared);
      batch.open++;
      this.counts.openMembers++;
    }
    if (afterName === "") return;
    if (flows.after[row] === 0) flows.after[row] = after;
    if (afterAny) flows.flags[row]! |= FlowFlag.Any;
    else flows.flags[row]! &= ~FlowFlag.Any;
  }

  /**
   * Lets a member outlive its cancelled batch, whatever passes come, also after a restart. Returns
   * whether this is new, and has to be logged.
   */
  spare(slot: number): boolean {
    const flows = this.#jobs.pageOf(slot).extras?.flows;
    const row = rowOf(slot);
    if (flows === undefined || (flows.flags[row]! & (FlowFlag.Ended | FlowFlag.Spared)) !== 0) return false;
    if (this.#byNumber.get(flows.batch[row]!)?.state !== BatchState.Cancelled) return false;
    flows.flags[row]! |= FlowFlag.Spared;
    return true;
  }

  /**
   * Stops counting a job that is removed here. If it was a member, it has ended, or is elsewhere.
   */
  exit(page: JobPage, row: number): void {
    const { flows } = page.extras!;
    if (flows === undefined) return;
    const batch = this.#byNumber.get(flows.batch[row]!);
    if (batch !== undefined) {
      if ((flows.flags[row]! & FlowFlag.Ended) === 0) {
        batch.open--;
        this.counts.openMembers--;
      } else batch.dead--;
      assert(batch.open >= 0 && batch.dead >= 0, "a member that is removed was counted");
      this.#noteIdle(batch);
    }
    flows.clear(row);
  }

  /** Counts a job that is in transit to another shard (1), or no longer is (-1). */
  travels(slot: number, change: 1 | -1): void {
    const flows = this.#jobs.pageOf(slot).extras?.flows;
    if (flows === undefined) return;
    const row = rowOf(slot);
    for (const number of [flows.batch[row]!, flows.after[row]!]) {
      const batch = number === 0 ? undefined : this.#byNumber.get(number);
      if (batch === undefined) continue;
      batch.moving += change;
      assert(batch.moving >= 0, "a member in transit was counted");
      this.#noteIdle(batch);
    }
  }

  // --- members that end --------------------------------------------------------------------------

  /**
   * Ends the membership of a job that is about to be removed. Returns its batch if the record of
   * the removal has to name it; otherwise undefined.
   */
  end(slot: number, done: boolean): BatchRow | undefined {
    const page = this.#jobs.pageOf(slot);
    const flows = page.extras?.flows;
    if (flows === undefined) return undefined;
    const row = rowOf(slot);
    const batch = flows.batch[row] === 0 ? undefined : this.#byNumber.get(flows.batch[row]!);
    if (batch === undefined || batch.state === BatchState.Complete) return undefined;
    flows.batch[row] = 0;
    if ((flows.flags[row]! & FlowFlag.Ended) !== 0) {
      batch.dead--;
      batch.failed++;
    } else {
      batch.open--;
      if (done) batch.done++;
      else batch.failed++;
      this.counts.ended(done);
      if (page.state[row] === JobState.Buried) batch.buried--;
    }
    assert(batch.open >= 0 && batch.dead >= 0 && batch.buried >= 0, "a member that ends was counted");
    this.#noteIdle(batch);
    return batch;
  }

  /** Ends the membership of a job that dies, and its wait. The job is in no queue. */
  died(slot: number): void {
    const page = this.#jobs.pageOf(slot);
    const flows = page.extras?.flows;
    if (flows === undefined) return;
    const row = rowOf(slot);
    assert(page.state[row] !== JobState.Buried, "a job that dies is not buried yet");
    flows.after[row] = 0;
    const batch = flows.batch[row] === 0 ? undefined : this.#byNumber.get(flows.batch[row]!);
    if (batch === undefined || (flows.flags[row]! & FlowFlag.Ended) !== 0) return;
    flows.flags[row]! |= FlowFlag.Ended;
    batch.open--;
    batch.dead++;
    this.counts.ended(false);
    assert(batch.open >= 0, "a member that dies was counted");
    this.#noteIdle(batch);
  }

  /** Notes a batch that may be complete. */
  #noteIdle(batch: BatchRow): void {
    if (!batch.isEnding || batch.open > 0 || batch.moving > 0 || batch.isIdle) return;
    batch.isIdle = true;
    this.hasNews = true;
    this.idle.push(batch);
  }

  // --- queues ------------------------------------------------------------------------------------

  /** Adds a job that becomes delayed to those that wait for its batch; returns its deadline. */
  beginWait(slot: number, deadlineAtMs: number): number {
    const batch = this.awaitedBy(slot);
    if (batch === undefined) return deadlineAtMs;
    batch.waiting.append(slot);
    batch.waitingJobs++;
    this.counts.waiting++;
    if (batch.state === BatchState.Complete) {
      this.releasing.add(batch);
      this.hasNews = true;
    }
    return WAITS_UNTIL_MS;
  }

  /** Stops the wait of a job that is no longer delayed. */
  endWait(slot: number): void {
    const batch = this.awaitedBy(slot);
    if (batch === undefined) return;
    batch.waiting.remove(slot);
    batch.waitingJobs--;
    this.counts.waiting--;
    assert(batch.waitingJobs >= 0, "a job that waits is counted");
    assert(
      this.counts.waiting >= batch.waitingJobs,
      "the jobs that wait for a batch are included in the total",
    );
  }

  /** Counts a member that becomes buried (1), or is no longer buried (-1). */
  countBuried(page: JobPage, row: number, change: 1 | -1): void {
    const { flows } = page.extras!;
    if (flows === undefined || flows.batch[row] === 0 || (flows.flags[row]! & FlowFlag.Ended) !== 0) return;
    const batch = this.#byNumber.get(flows.batch[row]!);
    if (batch === undefined) return;
    batch.buried += change;
    assert(batch.buried >= 0 && batch.buried <= batch.open, "a buried member is an open one");
  }
}
