// Commands by id whose job is not where they were sent: what the acceptor asks and tells while it looks for the job.

import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import { ResponseKind } from "../../message/response.ts";
import type { ShardCommand } from "./command.ts";

export const locate: ShardCommand = ({ engine, replies, nowMs }, session, { id }) => {
  engine.runDue(nowMs);
  const isHere = engine.find(id) !== NO_SLOT && !(engine.isMoving(id) && replies.isElsewhere(id));
  replies.signal(session, isHere ? ResponseKind.Ack : ResponseKind.Absent);
};

/** The command is answered; the client has not read so much of what it was sent before and since. */
export const goOn: ShardCommand = (shard, session, { readBytes }) => {
  session.isStrayed = false;
  session.beginReplies(readBytes);
  shard.resume(session);
};
