// `stats-job`: returns the statistics of a job.

import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { RequestFlag } from "../../message/request.ts";
import { statsJobText } from "../replies/job-text.ts";
import { BarrierRounds, type ShardCommand } from "./command.ts";

const tell: ShardCommand = (shard, session, { id, flags }) => {
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
export function afterHolder(command: ShardCommand): ShardCommand {
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

export const statsJob: ShardCommand = afterHolder(tell);
