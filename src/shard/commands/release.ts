// `release`: gives a reserved job back.

import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const release: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  const { id, pri, delaySeconds, flags } = request;
  const outcome = engine.release(session.engineSession, id, pri, delaySeconds, nowMs);
  replies.outcome(session, outcome, Reply.released, flags);
};
