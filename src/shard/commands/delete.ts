// `delete`: removes a job.

import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const deleteJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  const outcome = engine.delete(session.engineSession, id, nowMs);
  replies.outcome(session, outcome, Reply.deleted, flags);
};
