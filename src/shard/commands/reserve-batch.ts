// `reserve-batch` on this shard alone, and this shard's part of one over several shards: see
// acceptor/fanout/batch/pick-batch.ts.

import { assert } from "../../base/assert.ts";
import { ReserveOutcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT } from "../../engine/jobs/job-table.ts";
import type { BatchLimits, ListedJob } from "../../engine/jobs/reserve-batch.ts";
import { BATCH_DETAILS, BatchView, LISTED_BYTES, ListedView, RequestFlag } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { FloorView } from "../../message/turns.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { BatchTerms, ShardSession } from "../sessions/shard-session.ts";
import { AtomicCommand } from "../slices/atomic-command.ts";
import type { CommandShard, ShardCommand } from "./command.ts";

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
    const outcome = engine.reserveBatch(client, limits, isAborted ? 0 : timeoutMs, atMs, slots);
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
  const run = (atMs: number): void => {
    const slots: number[] = [];
    const isCut = engine.listBatch(session.engineSession, limits, atMs, slots, places);
    assert(slots.length <= limits.jobsMax, "a list has no more candidates than were asked for");
    assert(places === undefined || places.length === slots.length, "each candidate has its place");
    replies.candidates(session, slots, isCut, places);
  };
  slicedCommands.start(session, new AtomicCommand(session, jobs, run), nowMs);
};

export const takeBatch: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { body, flags } = request;
  const floor = FloorView.floor(request);
  const listed = listedOf(body);
  const details = flags & BATCH_DETAILS;
  const isSingle = (flags & RequestFlag.Single) !== 0;
  const isWhole = (flags & RequestFlag.Whole) !== 0;
  const run = (atMs: number): void => {
    const slots: number[] = [];
    const taken = engine.takeBatch(session.engineSession, listed, isSingle, atMs, slots);
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

function limitsOf(request: Request): BatchLimits {
  return { jobsMax: BatchView.jobsMax(request), bytesMax: BatchView.bytesMax(request) };
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
