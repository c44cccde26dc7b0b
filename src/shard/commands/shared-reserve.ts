// This shard's part of a reserve over several shards: see
// acceptor/fanout/reserve/shared-reserve.ts.

import { assert } from "../../base/assert.ts";
import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import type { BatchLimits } from "../../engine/jobs/reserve-batch.ts";
import { BATCH_DETAILS, RequestFlag, WaitView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { FloorView, PlaceView } from "../../message/turns.ts";
import type { ShardCommand } from "./command.ts";

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
  shard.engine.waitShared(client, WaitView.timeoutAtMs(request), shard.nowMs);
};

/** A wait ends with one job, even the wait of a batch. */
const ONE_JOB: BatchLimits = { jobsMax: 1, bytesMax: 0 };

export const stopWait: ShardCommand = ({ engine, leadWaits }, session) => {
  leadWaits.delete(session);
  session.endBatch();
  engine.stopSharedWait(session.engineSession);
};

export const recheck: ShardCommand = ({ engine, replies, nowMs }, session) => {
  engine.runDue(nowMs);
  replies.signal(session, ResponseKind.Ack);
};
