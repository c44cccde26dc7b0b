// Peeks at the front of a queue of the tube in use.

import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { Reply, ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

function peekAt(front: (tube: Tube) => number): ShardCommand {
  return ({ engine, replies, nowMs }, session) => {
    engine.runDue(nowMs);
    const slot = front(session.engineSession.tubeInUse);
    // Always NOT_FOUND: no id was named, so no other shard can have the job.
    if (slot === NO_SLOT) replies.fixed(session, Reply.notFound);
    else replies.job(session, ReplyWord.found, slot, 0);
  };
}

export const peekReady: ShardCommand = peekAt((tube) => tube.ready.best);
export const peekDelayed: ShardCommand = peekAt((tube) => tube.delayed.top);
export const peekBuried: ShardCommand = peekAt((tube) => tube.buried.first);
