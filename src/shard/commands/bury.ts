// `bury`: sets a reserved job aside until it is kicked.

import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const bury: ShardCommand = ({ engine, replies, nowMs }, session, { id, pri, flags, reason }) => {
  const outcome = engine.bury(session.engineSession, id, pri, nowMs, reason);
  replies.outcome(session, outcome, Reply.buried, flags);
};
