// `reserve-job`: reserves a job by its id.

import { Outcome } from "../../engine/engine.ts";
import { ResponseFlag } from "../../message/response.ts";
import type { ShardCommand } from "./command.ts";

export const reserveJob: ShardCommand = (shard, session, { id, flags }) => {
  const { engine, replies, nowMs } = shard;
  const outcome = engine.reserveJob(session.engineSession, id, nowMs);
  if (outcome === Outcome.Done) shard.giveJob(session, engine.find(id), ResponseFlag.Worker);
  else replies.notFound(session, flags);
};
