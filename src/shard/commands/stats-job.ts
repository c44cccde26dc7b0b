// `stats-job`: returns the statistics of a job.

import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import { statsJobText } from "../replies/job-text.ts";
import type { ShardCommand } from "./command.ts";

export const statsJob: ShardCommand = (shard, session, { id, flags }) => {
  const { engine, replies, nowMs } = shard;
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) replies.notFound(session, flags);
  else {
    const file = shard.records?.fileOf(slot) ?? 0;
    replies.text(session, statsJobText(engine, slot, nowMs, shard.quoteNames, file));
  }
};
