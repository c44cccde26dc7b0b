// `release`: puts a reserved job back in its tube.

import { Outcome } from "../../engine/engine.ts";
import { Reply } from "../../protocol/reply.ts";
import { AwaitDeadLetter } from "../slices/await-dead-letter.ts";
import type { ShardCommand } from "./command.ts";

export const release: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { id, pri, delaySeconds, flags, reason } = request;
  const outcome = engine.release(session.engineSession, id, pri, delaySeconds, nowMs, reason);
  if (outcome === Outcome.Done && engine.policies.deaths.someLeave && engine.isLeaving(id)) {
    slicedCommands.join(
      session,
      new AwaitDeadLetter(engine, id, () => replies.fixed(session, Reply.released)),
    );
    return;
  }
  replies.outcome(session, outcome, Reply.released, flags);
};
