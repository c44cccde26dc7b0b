// `peek`: shows a job.

import type { ShardCommand } from "./command.ts";

export const peek: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  engine.runDue(nowMs);
  replies.found(session, engine.find(id), flags);
};
