// `inspect-job`: returns everything known about a job.

import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { inspectJobText, statsJobText } from "../replies/job-text.ts";
import type { ShardCommand } from "./command.ts";
import { afterHolder } from "./stats-job.ts";

const tell: ShardCommand = (shard, session, { id, flags }) => {
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
  replies.text(session, known + inspectJobText(engine, slot, nowMs, { holder, worker }));
};

export const inspectJob: ShardCommand = afterHolder(tell);
