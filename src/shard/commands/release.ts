// `release`: puts a reserved job back in its tube.

import { Outcome } from "../../engine/engine.ts";
import { Reply } from "../../protocol/reply.ts";
import { AwaitJob } from "../slices/await-job.ts";
import type { ShardCommand } from "./command.ts";

export const release: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { id, pri, delaySeconds, flags, reason } = request;
  const outcome = engine.release(session.engineSession, id, pri, delaySeconds, nowMs, reason);
  if (outcome === Outcome.Done && engine.policies.deaths.someLeave && engine.isLeaving(id)) {
    const leaving = (): number | undefined => (engine.isLeaving(id) ? id : undefined);
    slicedCommands.join(session, new AwaitJob(leaving, () => replies.fixed(session, Reply.released)));
    return;
  }
  replies.outcome(session, outcome, Reply.released, flags);
};
