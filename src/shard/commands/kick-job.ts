// `kick-job`: makes a buried or delayed job ready.

import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const kickJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) =>
  replies.outcome(session, engine.kickJob(id, nowMs), Reply.kicked, flags);
