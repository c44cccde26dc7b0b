// `touch`: renews the TTR of a reserved job.

import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const touch: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  const outcome = engine.touch(session.engineSession, id, nowMs);
  replies.outcome(session, outcome, Reply.touched, flags);
};
