// `delete`: removes a job.

import { Outcome } from "../../engine/engine.ts";
import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const deleteJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  const outcome = engine.delete(session.engineSession, id, nowMs);
  // Another client may have deleted it a moment ago. Whoever is told so must not see it again after
  // a crash: the delete has to be in the log.
  if (outcome === Outcome.NotFound) replies.dependOnAll();
  replies.outcome(session, outcome, Reply.deleted, flags);
};
