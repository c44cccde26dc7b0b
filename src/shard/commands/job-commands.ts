// The commands on jobs. Each is a function; those for many jobs run in slices.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { type Engine, Outcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { withoutTexts } from "../../message/control.ts";
import { InspectJobView, RequestFlag } from "../../message/request.ts";
import { Deleted, packDeleted } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { IdList } from "../../protocol/number-reader.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber, optionText } from "../../protocol/options.ts";
import { deletedBatchReply, Reply, ReplyWord, touchedCancelledReply } from "../../protocol/reply.ts";
import { Request, Span } from "../../protocol/request.ts";
import { failuresOf, inspectJobText, jobOptions, saidOf, statsJobText } from "../sessions/job-text.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import { AwaitJob } from "../sessions/sliced-commands.ts";
import { FarUpdate } from "../transfer/far-moves.ts";
import { BarrierRounds, type ShardCommand } from "./command.ts";

// A delete-batch: deletes one job after another, each as `delete` does.

export class DeleteMany implements SlicedCommand {
  readonly jobs: number;
  readonly mayEndUnheard = true;
  readonly #engine: Engine;
  readonly #replies: ReplyWriter;
  readonly #session: ShardSession;
  readonly #span = new Span();
  readonly #ids: IdList;
  /** A Deleted value for each id. */
  readonly #results: Uint8Array;
  readonly #missing: string[] = [];
  readonly #forAcceptor: boolean;
  #done = 0;
  /** Whether the current id is in progress: its job is being transferred to another shard. */
  #isBegun = false;
  #hasRedirects = false;

  /**
   * `ids` contains `count` ids as the client sent them. If `forAcceptor` is set, the answer is a
   * signal, and the acceptor assembles the reply.
   */
  constructor(
    engine: Engine,
    replies: ReplyWriter,
    session: ShardSession,
    ids: Span,
    count: number,
    forAcceptor: boolean,
  ) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#span.copyOf(ids);
    this.#ids = new IdList(this.#span);
    this.jobs = count;
    this.#results = new Uint8Array(count);
    assert(count > 0, "a delete-batch names at least one job");
    this.#forAcceptor = forAcceptor;
  }

  get awaitedJob(): number | undefined {
    const { id } = this.#ids;
    return this.#isBegun && this.#engine.transfers.isMoving(id) && !this.#replies.isElsewhere(id)
      ? id
      : undefined;
  }

  step(jobsMax: number, nowMs: number): boolean {
    for (let left = jobsMax; left > 0 && (this.#isBegun || this.#ids.next()); left--) {
      this.#isBegun = true;
      if (this.awaitedJob !== undefined) return false;
      this.#isBegun = false;
      this.#delete(this.#ids.id, nowMs);
      this.#done++;
    }
    assert(this.#done <= this.jobs, "each id has one result");
    return this.#done === this.jobs;
  }

  #delete(id: number, nowMs: number): void {
    assert(this.#done < this.jobs, "no more jobs are deleted than were named");
    // The job has arrived elsewhere, and the confirmation is still in flight.
    const hasLeft = this.#engine.transfers.isMoving(id);
    if (!hasLeft && this.#engine.delete(this.#session.engineSession, id, nowMs) === Outcome.Done) {
      this.#results[this.#done] = Deleted.Yes;
      return;
    }
    if (hasLeft || (this.#engine.find(id) === NO_SLOT && this.#replies.mayBeElsewhere(id))) {
      this.#results[this.#done] = Deleted.Elsewhere;
      this.#hasRedirects = true;
    }
    if (!this.#forAcceptor) this.#missing.push(this.#ids.text);
  }

  finish(): void {
    assert(this.#done === this.jobs, "each named job has a result");
    // As with `delete`: other clients may have deleted the missing jobs a moment ago.
    if (this.#results.some((result) => result !== Deleted.Yes)) this.#replies.dependOnAll();
    if (this.#forAcceptor) this.#replies.settled(this.#session, 0, this.#results);
    else if (this.#hasRedirects) this.#handOn();
    else {
      const missing = this.#missing;
      this.#replies.fixed(this.#session, deletedBatchReply(this.jobs - missing.length, missing));
    }
  }

  /** Redirects the rest, so that the acceptor looks for jobs that have left. */
  #handOn(): void {
    assert(!this.#forAcceptor, "an acceptor looks for missing jobs itself");
    const { bytes, start, end } = this.#span;
    const rest = packDeleted(this.#results, latin1(bytes, start, end), this.#replies.lastRecord);
    const request = new Request().begin(Op.DeleteBatch);
    request.body.set(rest, 0, rest.length);
    this.#replies.redirected(this.#session, request);
  }
}

// A kick of any number of jobs of the tube in use.

export class KickMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: ReplyWriter;
  readonly #session: ShardSession;
  /**
   * Whether it kicks buried jobs or delayed ones, never both. Decided when it starts; undefined
   * while it is queued.
   */
  #buried: boolean | undefined;
  #remaining: number;
  #kicked = 0;

  constructor(engine: Engine, replies: ReplyWriter, session: ShardSession, bound: number) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#remaining = bound;
  }

  get jobs(): number {
    return Math.min(this.#remaining, this.#kickable);
  }

  /** Jobs that a kick could take now. */
  get #kickable(): number {
    const client = this.#session.engineSession;
    return client.tubeInUse.jobsIn(this.#engine.kicksBuried(client) ? JobState.Buried : JobState.Delayed);
  }

  step(jobsMax: number, nowMs: number): boolean {
    const client = this.#session.engineSession;
    if (this.#buried === undefined) {
      this.#buried = this.#engine.kicksBuried(client);
      // No more than exist now: otherwise workers that bury kicked jobs could prolong the command
      // for ever.
      if (this.#remaining > jobsMax) this.#remaining = this.jobs;
    }
    const bound = Math.min(this.#remaining, jobsMax);
    const kicked = this.#engine.kick(client, bound, nowMs, this.#buried);
    assert(kicked >= 0 && kicked <= bound, "a kick takes no more jobs than its bound");
    this.#kicked += kicked;
    this.#remaining = kicked < bound ? 0 : this.#remaining - kicked;
    assert(this.#remaining >= 0, "a kick takes no more jobs than there were");
    return this.#remaining === 0;
  }

  finish(): void {
    // As with NOT_FOUND: another client may have kicked the others a moment ago.
    this.#replies.dependOnAll();
    this.#replies.number(this.#session, ReplyWord.kicked, this.#kicked);
  }
}

// A touch-all: renews the TTR of every job that a session holds.

class TouchMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: ReplyWriter;
  readonly #session: ShardSession;
  readonly #forAcceptor: boolean;
  #begun = false;

  /** If `forAcceptor` is set, the answer is a signal, and the acceptor assembles the reply. */
  constructor(engine: Engine, replies: ReplyWriter, session: ShardSession, forAcceptor: boolean) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#forAcceptor = forAcceptor;
  }

  get jobs(): number {
    return this.#session.engineSession.held.size;
  }

  step(jobsMax: number, nowMs: number): boolean {
    const begins = !this.#begun;
    this.#begun = true;
    return this.#engine.touchSome(this.#session.engineSession, begins, jobsMax, nowMs);
  }

  /** Counts the jobs that it still holds: a reservation may have ended between two steps. */
  finish(): void {
    assert(this.#begun, "a touch of all jobs begins before it ends");
    const count = this.#session.engineSession.held.size;
    if (this.#forAcceptor) this.#replies.settled(this.#session, count);
    else this.#replies.number(this.#session, ReplyWord.touchedAll, count);
  }
}

// `peek`: shows a job.

export const peek: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  engine.runDue(nowMs);
  replies.found(session, engine.find(id), flags);
};

// Peeks at the front of a queue of the tube in use.

function peekAt(front: (tube: Tube) => number): ShardCommand {
  return ({ engine, replies, nowMs }, session) => {
    engine.runDue(nowMs);
    const slot = front(session.engineSession.tubeInUse);
    // Always NOT_FOUND: no id was named, so no other shard can have the job.
    if (slot === NO_SLOT) replies.fixed(session, Reply.notFound);
    else replies.job(session, ReplyWord.found, slot, 0);
  };
}

export const peekReady: ShardCommand = peekAt((tube) => tube.ready.best);
export const peekDelayed: ShardCommand = peekAt((tube) => tube.delayed.top);
export const peekBuried: ShardCommand = peekAt((tube) => tube.buried.first);

// `delete`: removes a job.

export const deleteJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  const outcome = engine.delete(session.engineSession, id, nowMs);
  replies.outcome(session, outcome, Reply.deleted, flags);
};

// `delete-batch`: removes jobs by their ids.

export const deleteBatch: ShardCommand = (shard, session, { ids, count, flags }) => {
  assert(count > 0, "a delete-batch names a job");
  const { engine, replies, slicedCommands, nowMs } = shard;
  const forAcceptor = (flags & RequestFlag.AckOnly) !== 0;
  slicedCommands.start(session, new DeleteMany(engine, replies, session, ids, count, forAcceptor), nowMs);
};

// `release`: puts a reserved job back in its tube.

export const release: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { id, pri, delaySeconds, flags, reason } = request;
  const outcome = engine.release(session.engineSession, id, pri, delaySeconds, nowMs, reason);
  if (outcome === Outcome.Done && engine.policies.deaths.someLeave && engine.transfers.isLeaving(id)) {
    const leaving = (): number | undefined => (engine.transfers.isLeaving(id) ? id : undefined);
    slicedCommands.join(session, new AwaitJob(leaving, () => replies.fixed(session, Reply.released)));
    return;
  }
  replies.outcome(session, outcome, Reply.released, flags);
};

// `bury`: sets a reserved job aside until it is kicked.

export const bury: ShardCommand = ({ engine, replies, nowMs }, session, { id, pri, flags, reason }) => {
  const outcome = engine.bury(session.engineSession, id, pri, nowMs, reason);
  replies.outcome(session, outcome, Reply.buried, flags);
};

// `kick`: makes buried jobs of the tube in use ready, or delayed ones if there are none.

/** May take several turns. */
export const kick: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, { count }) => {
  engine.runDue(nowMs);
  slicedCommands.start(session, new KickMany(engine, replies, session, count), nowMs);
};

// `kick-job`: makes a buried or delayed job ready.

export const kickJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) =>
  replies.outcome(session, engine.kickJob(id, nowMs), Reply.kicked, flags);

// `touch`: renews the TTR of a reserved job.

export const touch: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  const outcome = engine.touch(session.engineSession, id, nowMs);
  replies.outcome(session, outcome, Reply.touched, flags);
};

// `touch-job`: the same, with progress and a note of the worker.

export const touchJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags, options }) => {
  const outcome = engine.touch(session.engineSession, id, nowMs);
  if (outcome !== Outcome.Done) {
    replies.notFound(session, flags);
    return;
  }
  const { notes } = engine.policies;
  const slot = engine.find(id);
  notes.set(slot, optionNumber(options, OptionTag.Progress), optionText(options, OptionTag.Note));
  const { cancelled } = notes.of(slot);
  if (cancelled === undefined) {
    replies.fixed(session, Reply.touched);
    return;
  }
  // Who learns of a cancellation must not find that it was lost in a crash.
  replies.dependOnAll();
  replies.fixed(session, touchedCancelledReply(cancelled));
};

// `cancel-job`: removes a job, or has its holder told.

const NO_REASON = new Uint8Array(0);

export const cancelJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags, options }) => {
  let outcome: Outcome;
  try {
    outcome = engine.cancel(id, optionText(options, OptionTag.Reason) ?? NO_REASON, nowMs);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    replies.fixed(session, Reply.outOfMemory);
    return;
  }
  if (outcome !== Outcome.Marked) {
    replies.outcome(session, outcome, Reply.cancelled, flags);
    return;
  }
  // Another client may have marked it a moment ago.
  replies.dependOnAll();
  replies.fixed(session, Reply.cancelling);
};

// `touch-all`: renews the TTR of every job that the session holds.

/** May take several turns. */
export const touchAll: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, { flags }) => {
  const forAcceptor = (flags & RequestFlag.AckOnly) !== 0;
  slicedCommands.start(session, new TouchMany(engine, replies, session, forAcceptor), nowMs);
};

// `update-job`: changes a job's priority, delay, TTR, time to live or tube.

/** If the new tube is on another shard, the command takes until the job has arrived. */
export const updateJob: ShardCommand = (shard, session, { id, flags, options }) => {
  const { engine, replies, slicedCommands, nowMs } = shard;
  const ttrSeconds = optionNumber(options, OptionTag.Ttr);
  const name = optionText(options, OptionTag.Tube);
  const tube = name === undefined ? undefined : String.fromCharCode(...name);
  const change = {
    pri: optionNumber(options, OptionTag.Pri),
    delayMs: optionNumber(options, OptionTag.Delay),
    // As in a put, 0 becomes 1.
    ttrSeconds: ttrSeconds === undefined ? undefined : Math.max(1, ttrSeconds),
    ttlMs: optionNumber(options, OptionTag.Ttl),
    tube,
  };
  let outcome: Outcome;
  try {
    outcome = engine.changes.update(session.engineSession, id, change, nowMs);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    outcome = Outcome.NoRoom;
  }
  if (outcome === Outcome.OtherShard) {
    assert(tube !== undefined, "a job that leaves has a target tube");
    const onLanded = (landed: Outcome): void => answer(replies, session, landed, flags);
    slicedCommands.start(session, new FarUpdate(shard, id, tube, change, onLanded), nowMs);
  } else answer(replies, session, outcome, flags);
};

function answer(replies: ReplyWriter, session: ShardSession, outcome: Outcome, flags: number): void {
  assert(outcome !== Outcome.OtherShard, "an update is answered when its job has arrived");
  if (outcome === Outcome.TubeFull) replies.fixed(session, Reply.tubeFull);
  else if (outcome === Outcome.NoRoom) replies.fixed(session, Reply.outOfMemory);
  else replies.outcome(session, outcome, Reply.updated, flags);
}

// `stats-job`: returns the statistics of a job.

const tellJobStats: ShardCommand = (shard, session, { id, flags }) => {
  const { engine, replies, nowMs } = shard;
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) replies.notFound(session, flags);
  else {
    const file = shard.records?.fileOf(slot) ?? 0;
    replies.text(session, statsJobText(engine, slot, nowMs, shard.quoteNames, file));
  }
};

/**
 * Runs a command about a job after a read barrier if another client holds the job, because that
 * client may just have closed. In a pipeline only the first asks for the barrier.
 */
function afterHolder(command: ShardCommand): ShardCommand {
  return (shard, session, request) => {
    const { jobs } = shard.engine;
    const slot = shard.engine.find(request.id);
    const isHeld =
      slot !== NO_SLOT &&
      jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved &&
      jobs.pageOf(slot).holder[rowOf(slot)] !== session.engineSession.index;
    // A command whose job had to be found first carries Probe instead of First.
    if (!isHeld || (request.flags & (RequestFlag.First | RequestFlag.Probe)) === 0)
      command(shard, session, request);
    else shard.afterReading(session, request, BarrierRounds.Read, command);
  };
}

export const statsJob: ShardCommand = afterHolder(tellJobStats);

// `inspect-job`: returns everything known about a job, or everything but the texts of clients.

const tellJob: ShardCommand = (shard, session, request) => {
  const { id, flags } = request;
  const { engine, replies, nowMs } = shard;
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) {
    replies.notFound(session, flags);
    return;
  }
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const isHeld = page.state[row] === JobState.Reserved;
  const holder = isHeld ? shard.holderName(page.holder[row]!) : "none";
  const worker = isHeld ? shard.workerText(page.holder[row]!, id) : undefined;
  const known = statsJobText(engine, slot, nowMs, shard.quoteNames, shard.records?.fileOf(slot) ?? 0);
  const facts = {
    options: jobOptions(engine, slot, nowMs),
    failures: failuresOf(engine, slot),
    ...saidOf(engine, slot),
    body: undefined,
  };
  const seen = InspectJobView.leavesOutTexts(request) ? withoutTexts(facts) : facts;
  replies.text(session, known + inspectJobText(engine, slot, nowMs, { ...seen, holder, worker }));
};

export const inspectJob: ShardCommand = afterHolder(tellJob);

// The messages by which an acceptor looks for the job of a command on other shards.

export const locate: ShardCommand = ({ engine, replies, nowMs }, session, { id }) => {
  engine.runDue(nowMs);
  const isHere = engine.find(id) !== NO_SLOT && !(engine.transfers.isMoving(id) && replies.isElsewhere(id));
  // A delete that is not durable yet may have removed it.
  if (!isHere) replies.dependOnAll();
  replies.settled(session, isHere ? 1 : 0);
};

/** Continues after a redirected command was answered. */
export const goOn: ShardCommand = (shard, session, request) => {
  assert(session.isRedirected, "only a redirected command is answered elsewhere");
  session.isRedirected = false;
  session.beginReplies(request.meterBytes);
  shard.resume(session);
};
