// The batches whose home is this shard, and the rounds in which it asks all shards.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { BATCHES_MAX, type BatchRow } from "../../engine/state/batch-table.ts";
import type { LoggedBatch } from "../../message/flow-record.ts";
import type { ReplyPort } from "../../message/response.ts";
import {
  addBatchReport,
  BATCH_IDLE_BYTES,
  BATCH_REPORT_BYTES,
  BATCH_STATE_BYTES,
  batchNumberOf,
  readBatchState,
  TransferMessage,
  writeBatchReport,
  writeBatchState,
} from "../../message/transfer.ts";
import type { Span } from "../../protocol/request.ts";
import {
  addBatchCounts,
  type BatchCounts,
  type BatchFacts,
  BatchOutcome,
  BatchState,
  emptyBatchCounts,
} from "../../schema/batch.ts";
import type { RecordLog } from "../records/record-log.ts";

/** A command that waits for the sums of a round. */
export interface Asker {
  /** `counts` is undefined if the batch is forgotten. */
  answer(counts: Readonly<BatchCounts> | undefined): void;
}

// A round: the home of a batch tells all shards what it has decided, and asks for their counts.

class BatchRound {
  readonly batch: BatchRow;
  readonly askers: readonly Asker[];
  readonly sum: BatchCounts = emptyBatchCounts();
  /** By shard. */
  readonly arrivals: Float64Array;
  /** The arrivals of the round before, if no member was open in it. */
  readonly before: Float64Array | undefined;
  /**
   * Whether the round says that the batch takes no more members. Otherwise, a shard may have got
   * one since its report.
   */
  readonly tellsEnd: boolean;
  /** Number of shards that have not reported. */
  left: number;
  /** Commands that need a round that begins after this one; undefined if none is needed. */
  next: Asker[] | undefined = undefined;

  constructor(batch: BatchRow, askers: readonly Asker[], before: Float64Array | undefined, shards: number) {
    this.batch = batch;
    this.askers = askers;
    this.before = before;
    this.tellsEnd = batch.state !== BatchState.Open && batch.state !== BatchState.Opening;
    this.arrivals = new Float64Array(shards);
    this.left = shards - 1;
    assert(before === undefined || before.length === shards, "rounds of a batch ask the same shards");
  }

  /** Adds the counts of the home itself, and those of shards that no longer exist. */
  addOwn(shard: number): void {
    assert(shard < this.arrivals.length, "the home of a batch is among the shards");
    addBatchCounts(this.batch, this.sum);
    this.sum.done += this.batch.formerDone;
    this.sum.failed += this.batch.formerFailed;
    this.arrivals[shard] = this.batch.arrivals;
  }

  /**
   * Whether no job has arrived on any shard since the previous round, which was quiet, too.
   * Otherwise, a job may have moved from a shard that had not reported to one that had.
   */
  get isStill(): boolean {
    const { arrivals, before } = this;
    return before !== undefined && arrivals.every((count, shard) => count === before[shard]);
  }
}

// The batches whose home is this shard: decides when a batch is complete, and when it is forgotten.
//
// All decisions are logged here before another shard learns of them, and every shard reports after
// its records are written. So whatever part of the log survives, it contains no effect without its
// cause. See docs/architecture/flows.md.

/** Maximum number of rounds in progress: each is a message to every shard. */
export const ROUNDS_MAX = 16;
/** Maximum number of batches that become due, and of rounds that begin, in one turn. */
const TURN_BATCHES_MAX = 100;
/** Delay before another attempt to forget a complete batch that jobs still wait for. */
const AGAIN_MS = 1000;

export interface BatchHomesOptions {
  readonly engine: Engine;
  readonly shard: number;
  readonly shards: number;
  readonly shardOf: (name: string) => number;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly records: RecordLog | undefined;
  /** Called when the commands that waited for a round of this batch may continue. */
  readonly onSettled: (number: number) => void;
}

export class BatchHomes {
  readonly #options: BatchHomesOptions;
  /** Batches that need a round, with the commands that wait for its result. */
  readonly #wanted = new Map<BatchRow, Asker[]>();
  /** Those of them that a command waits for: every other round is for one of these. */
  readonly #awaited = new Set<BatchRow>();
  #isTurnOfAwaited = false;
  /** Iterators at the next ones. New iterators would have to pass all entries already taken. */
  #nextWanted = this.#wanted.keys();
  #nextAwaited = this.#awaited.keys();
  /** Rounds in progress, by number of the batch. */
  readonly #rounds = new Map<number, BatchRound>();
  /** The arrivals of the last round of a batch, if that was quiet. */
  readonly #quiet = new Map<BatchRow, Float64Array>();

  constructor(options: BatchHomesOptions) {
    this.#options = options;
    assert(options.shard < options.shards, "the home of a batch is one of the shards");
  }

  // --- commands ----------------------------------------------------------------------------------

  /** Opens a batch; returns undefined if there are too many, or no room in the log. */
  open(name: string, number: number, keepMs: number, nowMs: number): BatchRow | undefined {
    const { engine, records } = this.#options;
    assert(engine.batches.named(name) === undefined, "a name has one batch");
    assert(number > 0, "a batch has a number");
    if (engine.batches.size >= BATCHES_MAX || !engine.bodies.limit.allows) return undefined;
    const facts: BatchFacts = {
      number,
      name,
      state: BatchState.Open,
      outcome: BatchOutcome.None,
      keepMs,
      openedAtMs: nowMs,
      completeAtMs: 0,
      allDone: 0,
      allFailed: 0,
    };
    if (records?.openBatch(facts) === false) return undefined;
    engine.batches.counts.opened++;
    return engine.batches.assume({ ...facts, state: BatchState.Opening });
  }

  /** Commits or cancels a batch. */
  decide(batch: BatchRow, state: typeof BatchState.Committed | typeof BatchState.Cancelled): void {
    assert(batch.state !== BatchState.Complete, "a complete batch stays as it is");
    this.#decide({ ...factsOf(batch), state });
  }

  #decide(facts: BatchFacts): void {
    assert(this.#isHome(facts), "only its home decides on a batch");
    const { engine, records } = this.#options;
    records?.batch(facts);
    engine.batchEnds.assume(facts);
  }

  /** Has all shards asked about a batch. */
  ask(batch: BatchRow, asker?: Asker): void {
    assert(this.#isHome(batch), "only its home asks about a batch");
    this.#options.engine.batches.hasNews = true;
    const round = this.#rounds.get(batch.number);
    let askers = round === undefined ? this.#wanted.get(batch) : round.next;
    if (askers === undefined) {
      askers = [];
      if (round === undefined) this.#wanted.set(batch, askers);
      else round.next = askers;
    }
    if (asker === undefined) return;
    askers.push(asker);
    if (round === undefined) this.#awaited.add(batch);
  }

  // --- turns -------------------------------------------------------------------------------------

  /**
   * Takes the batches of the log, before any job. `wallOffsetMs` is wall clock minus monotonic. A
   * time in the future shows a clock that is behind, or was ahead then: it counts as now.
   */
  restore(logged: readonly LoggedBatch[], wallOffsetMs: number, nowMs: number): void {
    const { engine, shard, shards } = this.#options;
    // The oldest batch in the totals depends on the order of opening. Numbers don't tell it: each
    // acceptor takes them from a range of its own.
    for (const { facts, tallies } of logged.toSorted((a, b) => a.facts.openedAtMs - b.facts.openedAtMs)) {
      const openedAtMs = Math.min(facts.openedAtMs - wallOffsetMs, nowMs);
      // 0 would mean that it isn't complete.
      const completeAtMs =
        facts.state === BatchState.Complete ? Math.min(facts.completeAtMs - wallOffsetMs, nowMs) || -1 : 0;
      const batch = engine.batches.assume({ ...facts, openedAtMs, completeAtMs });
      assert(batch !== undefined, "a batch of the log exists");
      for (const { shard: of, done, failed } of tallies) {
        if (of === shard) {
          batch.done = done;
          batch.failed = failed;
        } else if (of >= shards) {
          batch.formerDone += done;
          batch.formerFailed += failed;
        }
      }
    }
    this.#begin();
  }

  #begin(): void {
    for (const batch of this.#options.engine.batches.all) {
      if (!this.#isHome(batch)) continue;
      if (batch.isEnding) this.ask(batch);
      else if (batch.state === BatchState.Complete) this.#setTimer(batch);
    }
  }

  #setTimer(batch: BatchRow): void {
    assert(batch.state === BatchState.Complete, "only a complete batch is forgotten");
    this.#options.engine.batches.timers.set(batch.timer, batch.completeAtMs + batch.keepMs);
  }

  #isHome({ name }: Readonly<BatchFacts>): boolean {
    return this.#options.shardOf(name) === this.#options.shard;
  }

  get hasWork(): boolean {
    const { engine, port } = this.#options;
    if (port.blocked) return false;
    return engine.batches.idle.length > 0 || (this.#wanted.size > 0 && this.#rounds.size < ROUNDS_MAX);
  }

  /** Whether there is something to send, possibly later. */
  get hasNews(): boolean {
    return this.#options.engine.batches.idle.length > 0 || this.#wanted.size > 0;
  }

  /** Sends what there is to send, and begins the rounds that may begin. */
  step(nowMs: number): void {
    const { engine, port } = this.#options;
    const { idle } = engine.batches;
    for (let due = 0; due < TURN_BATCHES_MAX && engine.batches.timers.nextAtMs <= nowMs; due++) {
      const batch = engine.batches.timers.first!;
      assert(batch.state === BatchState.Complete, "only complete batches become due");
      engine.batches.timers.set(batch.timer, Number.POSITIVE_INFINITY);
      this.ask(batch);
    }
    while (idle.length > 0 && !port.blocked) {
      const batch = idle.pop()!;
      assert(batch.isIdle, "a batch is noted as idle once");
      batch.isIdle = false;
      this.#tellHome(batch);
    }
    // With one shard, a round ends as it begins.
    for (let begun = 0; begun < TURN_BATCHES_MAX && this.#wanted.size > 0; begun++) {
      if (this.#rounds.size >= ROUNDS_MAX || port.blocked) return;
      this.#beginRound(this.#takeWanted(), nowMs);
    }
  }

  /**
   * Returns the batch of the next round. After a restart, 100,000 batches may need one, and a
   * command must not wait for all of them.
   */
  #takeWanted(): BatchRow {
    this.#isTurnOfAwaited = !this.#isTurnOfAwaited && this.#awaited.size > 0;
    let next = this.#isTurnOfAwaited ? this.#nextAwaited.next() : this.#nextWanted.next();
    if (next.done === true) {
      // An iterator that has reached its end never continues.
      this.#nextAwaited = this.#awaited.keys();
      this.#nextWanted = this.#wanted.keys();
      next = this.#isTurnOfAwaited ? this.#nextAwaited.next() : this.#nextWanted.next();
    }
    assert(next.done !== true, "a round is wanted");
    return next.value;
  }

  #tellHome(batch: BatchRow): void {
    if (!batch.isEnding) return;
    if (this.#isHome(batch)) this.ask(batch);
    else {
      const view = this.#beginMessage(
        TransferMessage.BatchIdle,
        this.#options.shardOf(batch.name),
        BATCH_IDLE_BYTES,
      );
      view.setFloat64(0, batch.number, true);
    }
  }

  #beginRound(batch: BatchRow, nowMs: number): void {
    assert(!this.#rounds.has(batch.number), "a batch has one round at a time");
    const { shard, shards } = this.#options;
    const askers = this.#takeAskers(batch);
    const round = new BatchRound(batch, askers, this.#quiet.get(batch), shards);
    this.#quiet.delete(batch);
    this.#rounds.set(batch.number, round);
    assert(this.#rounds.size <= ROUNDS_MAX, "the number of rounds is limited");
    this.#tellAll(factsOf(batch));
    round.addOwn(shard);
    if (round.left === 0) this.#end(round, nowMs);
  }

  /**
   * Returns the commands that wait for the round of a batch, which begins or is no longer needed.
   */
  #takeAskers(batch: BatchRow): readonly Asker[] {
    const askers = this.#wanted.get(batch) ?? [];
    this.#wanted.delete(batch);
    this.#awaited.delete(batch);
    return askers;
  }

  #tellAll(facts: BatchFacts): void {
    const { shard, shards } = this.#options;
    for (let to = 0; to < shards; to++) {
      if (to === shard) continue;
      const bytes = BATCH_STATE_BYTES + facts.name.length;
      writeBatchState(this.#beginMessage(TransferMessage.BatchState, to, bytes), facts);
    }
  }

  /** Begins a message to another shard; returns where it is written. */
  #beginMessage(kind: TransferMessage, to: number, bytes: number): DataView {
    const { port, records, shard, shards } = this.#options;
    assert(to !== shard && to < shards, "a message about a batch goes to another shard");
    port.beginCarry(kind, to, 0, bytes, false, records?.lastNumber ?? 0);
    return new DataView(port.target.buffer, port.target.byteOffset + port.at, bytes);
  }

  // --- messages ----------------------------------------------------------------------------------

  /** Takes a message about a batch from another shard. */
  take(kind: number, from: number, { bytes, start, end }: Span, nowMs: number): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
    if (kind === TransferMessage.BatchState) this.#assume(from, readBatchState(view));
    else if (kind === TransferMessage.BatchReport) this.#report(from, view, nowMs);
    else {
      assert(kind === TransferMessage.BatchIdle, "a message about a batch has a kind");
      const batch = this.#options.engine.batches.of(batchNumberOf(view));
      if (batch !== undefined) this.ask(batch);
    }
  }

  #assume(from: number, facts: BatchFacts): void {
    const batch = this.#options.engine.batchEnds.assume(facts);
    writeBatchReport(
      this.#beginMessage(TransferMessage.BatchReport, from, BATCH_REPORT_BYTES),
      facts.number,
      batch,
    );
  }

  #report(from: number, view: DataView, nowMs: number): void {
    const round = this.#rounds.get(batchNumberOf(view));
    // A message about a forgotten batch asks for no report.
    if (round === undefined) return;
    assert(from < round.arrivals.length, "a report comes from one of the shards");
    round.arrivals[from] = addBatchReport(view, round.sum);
    round.left--;
    assert(round.left >= 0, "a shard reports once in a round");
    if (round.left === 0) this.#end(round, nowMs);
  }

  // --- decisions ---------------------------------------------------------------------------------

  #end(round: BatchRound, nowMs: number): void {
    const { batch, sum, askers } = round;
    assert(
      this.#rounds.get(batch.number) === round && round.left === 0,
      "a round ends once all have reported",
    );
    this.#rounds.delete(batch.number);
    if (round.next !== undefined) {
      this.#wanted.set(batch, round.next);
      if (round.next.length > 0) this.#awaited.add(batch);
      this.#options.engine.batches.hasNews = true;
    }
    if (batch.state === BatchState.Opening) {
      this.#beginMembers(round);
      return;
    }
    if (round.tellsEnd && batch.isEnding && sum.open === 0 && sum.moving === 0)
      this.#mayComplete(round, nowMs);
    else if (batch.state === BatchState.Complete) this.#mayForget(round, nowMs);
    // A member in transit is spared, and the log has that, once it has arrived.
    if (batch.state === BatchState.Cancelled && sum.moving > 0)
      for (const asker of askers) this.ask(batch, asker);
    else this.#answer(batch, askers, sum);
  }

  #answer(batch: BatchRow, askers: readonly Asker[], sum: Readonly<BatchCounts> | undefined): void {
    for (const asker of askers) asker.answer(sum);
    if (askers.length > 0) this.#options.onSettled(batch.number);
  }

  /**
   * Tells all shards that all of them know the batch. Commands wait until every shard has
   * confirmed.
   */
  #beginMembers({ batch, askers }: BatchRound): void {
    assert(batch.state === BatchState.Opening, "members may join a batch that is new");
    this.#options.engine.batches.assume({ ...factsOf(batch), state: BatchState.Open });
    this.ask(batch);
    for (const asker of askers) this.ask(batch, asker);
  }

  /** Completes a batch in the second quiet round; the first one may have missed a member. */
  #mayComplete(round: BatchRound, nowMs: number): void {
    const { batch, sum } = round;
    if (!round.isStill) {
      this.#askAgain(round);
      return;
    }
    const allFailed = sum.failed + sum.dead;
    assert(sum.done >= 0 && allFailed >= 0, "members that ended are counted");
    const ended = allFailed > 0 ? BatchOutcome.Failure : BatchOutcome.Success;
    const outcome = batch.state === BatchState.Cancelled ? BatchOutcome.Cancelled : ended;
    const state = BatchState.Complete;
    this.#decide({ ...factsOf(batch), state, outcome, completeAtMs: nowMs, allDone: sum.done, allFailed });
    this.#options.engine.batches.counts.completed[outcome]!++;
    this.#setTimer(batch);
    this.ask(batch);
  }

  #askAgain({ batch, arrivals }: BatchRound): void {
    this.#quiet.set(batch, arrivals);
    this.ask(batch);
  }

  /** Forgets a complete batch whose time is over, once no job waits for it. */
  #mayForget(round: BatchRound, nowMs: number): void {
    const { batch, sum } = round;
    if (batch.completeAtMs + batch.keepMs > nowMs) return;
    if (sum.waitingJobs > 0 || sum.moving > 0) {
      this.#options.engine.batches.timers.set(batch.timer, nowMs + AGAIN_MS);
      return;
    }
    if (!round.isStill) {
      this.#askAgain(round);
      return;
    }
    this.#options.engine.batches.timers.set(batch.timer, Number.POSITIVE_INFINITY);
    const facts = { ...factsOf(batch), state: BatchState.Forgotten };
    this.#quiet.delete(batch);
    const askers = this.#takeAskers(batch);
    this.#decide(facts);
    this.#tellAll(facts);
    this.#answer(batch, askers, undefined);
  }
}

function factsOf(batch: BatchRow): BatchFacts {
  const { number, name, state, outcome, keepMs, openedAtMs, completeAtMs, allDone, allFailed } = batch;
  return { number, name, state, outcome, keepMs, openedAtMs, completeAtMs, allDone, allFailed };
}
