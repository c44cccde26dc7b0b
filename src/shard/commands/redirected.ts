// The messages by which an acceptor looks for the job of a command on other shards.

import { assert } from "../../base/assert.ts";
import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import type { ShardCommand } from "./command.ts";

export const locate: ShardCommand = ({ engine, replies, nowMs }, session, { id }) => {
  engine.runDue(nowMs);
  const isHere = engine.find(id) !== NO_SLOT && !(engine.isMoving(id) && replies.isElsewhere(id));
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
