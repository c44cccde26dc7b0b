// `reserve-job`: takes a job by its id.

import { Outcome } from "../../engine/engine.ts";
import { ResponseFlag } from "../../message/response.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const reserveJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags }) => {
  const outcome = engine.reserveJob(session.engineSession, id, nowMs);
  if (outcome === Outcome.Done)
    replies.job(session, ReplyWord.reserved, engine.find(id), ResponseFlag.Worker);
  else replies.notFound(session, flags);
};
