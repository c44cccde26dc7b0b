// `update-job`: changes a job's priority, delay or time to run.

import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const updateJob: ShardCommand = ({ engine, replies, nowMs }, session, { id, flags, options }) => {
  const ttrSeconds = optionNumber(options, OptionTag.Ttr);
  const change = {
    pri: optionNumber(options, OptionTag.Pri),
    delayMs: optionNumber(options, OptionTag.Delay),
    // As for a put, 0 is 1.
    ttrSeconds: ttrSeconds === undefined ? undefined : Math.max(1, ttrSeconds),
  };
  replies.outcome(session, engine.update(session.engineSession, id, change, nowMs), Reply.updated, flags);
};
