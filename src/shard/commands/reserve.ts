// The reserve commands: on this shard alone, and this shard's part of those over several shards.

import { assert } from "../../base/assert.ts";
import type { BatchLimits, ListedJob } from "../../engine/batch-reserves.ts";
import { type Engine, Outcome, ReserveOutcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT } from "../../engine/jobs/job-table.ts";
import {
  BATCH_DETAILS,
  BatchView,
  LISTED_BYTES,
  ListedView,
  RequestFlag,
  WaitView,
} from "../../message/request.ts";
import { FloorView, PlaceView, ResponseFlag, ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { BatchTerms, ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import type { CommandShard, ShardCommand } from "./command.ts";

// The first part of a reserve whose session has very many tubes to choose from: it brings them into
// their order, over as many turns as it takes.

class PrepareOrder implements SlicedCommand {
  readonly #engine: Engine;
  readonly #session: ShardSession;
  readonly #finish: () => void;

  constructor(engine: Engine, session: ShardSession, finish: () => void) {
    assert(!session.ended, "a client that is gone reserves nothing");
    this.#engine = engine;
    this.#session = session;
    this.#finish = finish;
  }

  get jobs(): number {
    const { watches } = this.#session.engineSession;
    return Math.min(watches.size, this.#engine.queues.readyTubes.length);
  }

  step(tubesMax: number, nowMs: number): boolean {
    if (this.#session.ended) return true;
    return this.#engine.prepareOrder(this.#session.engineSession, tubesMax, nowMs);
  }

  finish(): void {
    // A client that is gone gets no job.
    if (!this.#session.ended) this.#finish();
  }
}

// A command on up to a thousand jobs that must be atomic for other clients. It waits for a turn
// that has room for all of it.

class AtomicCommand implements SlicedCommand {
  readonly jobs: number;
  readonly #session: ShardSession;
  readonly #run: (nowMs: number) => void;

  /** `run` processes at most `jobs` jobs and answers. */
  constructor(session: ShardSession, jobs: number, run: (nowMs: number) => void) {
    this.#session = session;
    this.jobs = jobs;
    this.#run = run;
  }

  step(_jobsMax: number, nowMs: number): boolean {
    // A client that is gone gets no jobs.
    if (!this.#session.ended) this.#run(nowMs);
    return true;
  }

  finish(): void {}
}

/** Executes a reserve whose watched tubes and held jobs are all on this shard. */
export const reserve: ShardCommand = (shard, session, request) => {
  const timeoutMs = (request.flags & RequestFlag.NoWait) !== 0 ? 0 : request.timeoutMs;
  if (timeoutMs > 0 || !shard.beginBarrier(session)) shard.reserve(session, timeoutMs);
};

/** Returns a command that first prepares the order of its session, if that takes long. */
export function inOrder(command: ShardCommand): ShardCommand {
  return (shard, session, request) => {
    if (!shard.engine.needsOrder(session.engineSession)) {
      command(shard, session, request);
      return;
    }
    const { engine, replies, slicedCommands, nowMs } = shard;
    const kept = request.clone();
    const finish = (): void => {
      replies.request = kept;
      command(shard, session, kept);
    };
    slicedCommands.start(session, new PrepareOrder(engine, session, finish), nowMs);
  };
}

// `reserve-job`: reserves a job by its id.

export const reserveJob: ShardCommand = (shard, session, { id, flags }) => {
  const { engine, replies, nowMs } = shard;
  const outcome = engine.reserveJob(session.engineSession, id, nowMs);
  if (outcome === Outcome.Done) shard.giveJob(session, engine.find(id), ResponseFlag.Worker);
  else replies.notFound(session, flags);
};

// `reserve-batch` on this shard alone, and this shard's part of one over several shards: see
// acceptor/fanout/pick-batch.ts.

/** Executes a batch whose watched tubes and held jobs are all on this shard. */
export const reserveBatch: ShardCommand = (shard, session, request) => {
  const { flags } = request;
  const number = BatchView.number(request);
  assert(session.batch === undefined, "a session has one batch at a time");
  const details = flags & BATCH_DETAILS;
  session.batch = { limits: limitsOf(request), details, number };
  const timeoutMs = (flags & RequestFlag.NoWait) !== 0 ? 0 : request.timeoutMs;
  const needsBarrier = timeoutMs === 0 && !session.isAborted(number);
  if (!needsBarrier || !shard.beginBarrier(session)) shard.reserve(session, timeoutMs);
};

/** Reserves ready jobs or starts a wait, in the first turn with room for that many jobs. */
export function reserveMany(
  shard: CommandShard,
  session: ShardSession,
  batch: BatchTerms,
  timeoutMs: number,
): void {
  const { engine, replies, slicedCommands, nowMs } = shard;
  const { limits, details, number } = batch;
  assert(limits.jobsMax > 0, "a batch has at least one job");
  const jobs = Math.min(limits.jobsMax, engine.jobCounts[JobState.Ready]!);
  const run = (atMs: number): void => {
    const slots: number[] = [];
    const isAborted = session.isAborted(number);
    const client = session.engineSession;
    const outcome = engine.batchReserves.reserve(client, limits, isAborted ? 0 : timeoutMs, atMs, slots);
    if (outcome === ReserveOutcome.Waits) return;
    assert(outcome < 0 || outcome === slots.length, "a batch has the jobs that it counts");
    assert(slots.length <= limits.jobsMax, "a batch has no more jobs than were asked for");
    session.endBatch();
    if (outcome === ReserveOutcome.DeadlineSoon) replies.fixed(session, Reply.deadlineSoon);
    else if (outcome !== ReserveOutcome.TimedOut) replies.batch(session, slots, details);
    else replies.fixed(session, isAborted ? Reply.aborted : Reply.timedOut);
  };
  slicedCommands.start(session, new AtomicCommand(session, jobs, run), nowMs);
}

/** Aborts a batch, because the client has sent more bytes after an abortable reserve-batch. */
export const abort: ShardCommand = (shard, session, request) => {
  session.abortedTo = BatchView.number(request);
  const { batch } = session;
  if (batch === undefined || !session.isAborted(batch.number)) return;
  if (!shard.engine.abortWait(session.engineSession, shard.nowMs)) return;
  session.endBatch();
  shard.replies.fixed(session, Reply.aborted);
  shard.resume(session);
};

export const collectBatch: ShardCommand = (shard, session, request) => {
  const { engine, replies, slicedCommands, nowMs } = shard;
  const limits = limitsOf(request);
  const jobs = Math.min(limits.jobsMax, engine.jobCounts[JobState.Ready]!);
  engine.raiseFloor(session.engineSession, FloorView.floor(request));
  const places = session.engineSession.turns?.decides === true ? [] : undefined;
  const counts = BatchView.min(request) > 0;
  const run = (atMs: number): void => {
    const slots: number[] = [];
    const isCut = engine.batchReserves.list(session.engineSession, limits, atMs, slots, places);
    assert(slots.length <= limits.jobsMax, "a list has no more candidates than were asked for");
    assert(places === undefined || places.length === slots.length, "each candidate has its place");
    const ready = counts ? engine.readyFor(session.engineSession) : 0;
    replies.candidates(session, slots, isCut, places, ready);
  };
  slicedCommands.start(session, new AtomicCommand(session, jobs, run), nowMs);
};

export const takeBatch: ShardCommand = (shard, session, request) => {
  const { engine, replies, slicedCommands, nowMs } = shard;
  const { body, flags } = request;
  if (body.length === 0 || (flags & RequestFlag.OneGroup) !== 0) {
    takeWhole(shard, session, request);
    return;
  }
  const floor = FloorView.floor(request);
  const listed = listedOf(body);
  const details = flags & BATCH_DETAILS;
  const isSingle = (flags & RequestFlag.Single) !== 0;
  const isWhole = (flags & RequestFlag.Whole) !== 0;
  const run = (atMs: number): void => {
    const slots: number[] = [];
    const taken = engine.batchReserves.take(session.engineSession, listed, isSingle, atMs, slots);
    assert(slots.length === listed.length, "each listed job has a slot or a gap");
    assert(taken >= 0 && taken <= listed.length, "no more jobs are taken than were listed");
    // This must not precede the reserves: the turns of these jobs lie before the batch's final
    // floor.
    engine.raiseFloor(session.engineSession, floor);
    if (!isWhole) replies.gathered(session, slots, details);
    else if (taken === 0) replies.signal(session, ResponseKind.Absent);
    else replies.batch(session, withoutGaps(slots), details);
  };
  slicedCommands.start(session, new AtomicCommand(session, listed.length, run), nowMs);
};

/**
 * Takes the whole of a batch that fills, or of one group from its listed job on, unless other
 * clients have taken jobs since the acceptor asked.
 */
function takeWhole(
  { engine, replies, slicedCommands, nowMs }: CommandShard,
  session: ShardSession,
  request: Request,
): void {
  const client = session.engineSession;
  const limits = limitsOf(request);
  const details = request.flags & BATCH_DETAILS;
  const min = BatchView.min(request);
  const jobs = Math.min(limits.jobsMax, engine.jobCounts[JobState.Ready]!);
  const [listed] = listedOf(request.body);
  const floor = FloorView.floor(request);
  const run = (atMs: number): void => {
    const slots: number[] = [];
    if (listed === undefined) engine.batchReserves.takeFull(client, limits, min, atMs, slots);
    else {
      engine.batchReserves.takeGroup(client, listed, limits, atMs, slots);
      engine.raiseFloor(client, floor);
    }
    if (slots.length > 0) replies.batch(session, slots, details);
    else replies.signal(session, ResponseKind.Absent);
  };
  slicedCommands.start(session, new AtomicCommand(session, jobs, run), nowMs);
}

function limitsOf(request: Request): BatchLimits {
  const oneGroup = (request.flags & RequestFlag.OneGroup) !== 0;
  return { jobsMax: BatchView.jobsMax(request), bytesMax: BatchView.bytesMax(request), oneGroup };
}

function listedOf({ bytes, start, end }: Span): ListedJob[] {
  assert((end - start) % LISTED_BYTES === 0, "a list of jobs has whole entries");
  const view = new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
  return Array.from({ length: (end - start) / LISTED_BYTES }, (_, index) => ({
    id: ListedView.id(view, index),
    pri: ListedView.pri(view, index),
    bodyBytes: ListedView.bodyBytes(view, index),
  }));
}

const withoutGaps = (slots: readonly number[]): number[] => slots.filter((slot) => slot !== NO_SLOT);

// This shard's part of a reserve over several shards: see
// acceptor/fanout/shared-reserve.ts.

export const collect: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const client = session.engineSession;
  if (client.turns !== undefined) engine.raiseFloor(client, FloorView.floor(request));
  replies.candidate(session, nowMs);
};

export const take: ShardCommand = (shard, session, request) => {
  const { engine, nowMs } = shard;
  const { pri, id } = request;
  const client = session.engineSession;
  engine.raiseFloor(client, FloorView.floor(request));
  const slot =
    client.turns?.decides === true
      ? engine.takeInTurn(client, PlaceView.place(request), pri, id, nowMs)
      : engine.takeUpTo(client, pri, id, nowMs);
  if (slot === NO_SLOT) shard.replies.candidate(session, nowMs);
  else shard.giveJob(session, slot, 0);
};

export const awaitBarrier: ShardCommand = (shard, session) => {
  assert(!session.barrierForAcceptor, "an acceptor waits for one barrier of a session");
  if (shard.beginBarrier(session)) session.barrierForAcceptor = true;
  else shard.replies.signal(session, ResponseKind.Ack);
};

export const waitShared: ShardCommand = (shard, session, request) => {
  const { waitNumber, flags } = request;
  assert(session.batch === undefined, "a session waits for one answer at a time");
  session.waitNumber = waitNumber;
  session.leadsWait = (flags & RequestFlag.Lead) !== 0;
  if ((flags & RequestFlag.Batch) !== 0)
    session.batch = { limits: ONE_JOB, details: flags & BATCH_DETAILS, number: 0 };
  const client = session.engineSession;
  if (client.turns !== undefined) shard.engine.raiseFloor(client, FloorView.floor(request));
  if (session.leadsWait) shard.leadWaits.add(session);
  const timeoutAtMs = WaitView.timeoutAtMs(request);
  const fillsAt = WaitView.fillsAt(request);
  if (fillsAt === 0) shard.engine.waitShared(client, timeoutAtMs, shard.nowMs);
  else shard.engine.waitToFill(client, fillsAt, WaitView.lingerMs(request), timeoutAtMs, shard.nowMs);
};

/** A wait ends with one job, even the wait of a batch. */
const ONE_JOB: BatchLimits = { jobsMax: 1, bytesMax: 0 };

export const stopWait: ShardCommand = ({ engine, leadWaits, nowMs }, session) => {
  leadWaits.delete(session);
  session.endBatch();
  engine.stopSharedWait(session.engineSession, nowMs);
};

export const recheck: ShardCommand = ({ engine, replies, nowMs }, session) => {
  engine.runDue(nowMs);
  replies.signal(session, ResponseKind.Ack);
};
