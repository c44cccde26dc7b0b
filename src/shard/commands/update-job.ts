// `update-job`: changes a job's priority, delay, time to run or to live, or its tube.

import { Outcome } from "../../engine/engine.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber, optionText } from "../../protocol/options.ts";
import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const updateJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags, options }) => {
  const ttrSeconds = optionNumber(options, OptionTag.Ttr);
  const tube = optionText(options, OptionTag.Tube);
  const change = {
    pri: optionNumber(options, OptionTag.Pri),
    delayMs: optionNumber(options, OptionTag.Delay),
    // As for a put, 0 is 1.
    ttrSeconds: ttrSeconds === undefined ? undefined : Math.max(1, ttrSeconds),
    ttlMs: optionNumber(options, OptionTag.Ttl),
    tube: tube === undefined ? undefined : String.fromCharCode(...tube),
  };
  let outcome: Outcome;
  try {
    outcome = engine.update(session.engineSession, id, change, nowMs);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    outcome = Outcome.NoRoom;
  }
  if (outcome === Outcome.TubeFull) replies.fixed(session, Reply.tubeFull);
  else if (outcome === Outcome.OtherShard) replies.fixed(session, Reply.otherShard);
  else if (outcome === Outcome.NoRoom) replies.fixed(session, Reply.outOfMemory);
  else replies.outcome(session, outcome, Reply.updated, flags);
};
