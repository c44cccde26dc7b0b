// `inspect-job`: returns everything known about a job, or everything but the texts of clients.

import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { withoutTexts } from "../../message/job-texts.ts";
import { InspectJobView } from "../../message/request.ts";
import { failuresOf } from "../replies/failure-text.ts";
import { jobOptions } from "../replies/job-options.ts";
import { inspectJobText, statsJobText } from "../replies/job-text.ts";
import type { ShardCommand } from "./command.ts";
import { afterHolder } from "./stats-job.ts";

const tell: ShardCommand = (shard, session, request) => {
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
    body: undefined,
  };
  const seen = InspectJobView.leavesOutTexts(request) ? withoutTexts(facts) : facts;
  replies.text(session, known + inspectJobText(engine, slot, nowMs, { ...seen, holder, worker }));
};

export const inspectJob: ShardCommand = afterHolder(tell);
