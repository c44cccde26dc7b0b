// `update-job`: changes a job's priority, delay, TTR, time to live or tube.

import { assert } from "../../base/assert.ts";
import { Outcome } from "../../engine/engine.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber, optionText } from "../../protocol/options.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import { FarUpdate } from "../transfer/far-update.ts";
import type { ShardCommand } from "./command.ts";

/** If the new tube is on another shard, the command takes until the job has arrived. */
export const updateJob: ShardCommand = (shard, session, { id, flags, options }) => {
  const { engine, replies, slicedCommands, nowMs } = shard;
  const ttrSeconds = optionNumber(options, OptionTag.Ttr);
  const name = optionText(options, OptionTag.Tube);
  const tube = name === undefined ? undefined : String.fromCharCode(...name);
  const change = {
    pri: optionNumber(options, OptionTag.Pri),
    delayMs: optionNumber(options, OptionTag.Delay),
    // As in a put, 0 becomes 1.
    ttrSeconds: ttrSeconds === undefined ? undefined : Math.max(1, ttrSeconds),
    ttlMs: optionNumber(options, OptionTag.Ttl),
    tube,
  };
  let outcome: Outcome;
  try {
    outcome = engine.update(session.engineSession, id, change, nowMs);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    outcome = Outcome.NoRoom;
  }
  if (outcome === Outcome.OtherShard) {
    assert(tube !== undefined, "a job that leaves has a target tube");
    const onLanded = (landed: Outcome): void => answer(replies, session, landed, flags);
    slicedCommands.start(session, new FarUpdate(shard, id, tube, change, onLanded), nowMs);
  } else answer(replies, session, outcome, flags);
};

function answer(replies: Replies, session: ShardSession, outcome: Outcome, flags: number): void {
  assert(outcome !== Outcome.OtherShard, "an update is answered when its job has arrived");
  if (outcome === Outcome.TubeFull) replies.fixed(session, Reply.tubeFull);
  else if (outcome === Outcome.NoRoom) replies.fixed(session, Reply.outOfMemory);
  else replies.outcome(session, outcome, Reply.updated, flags);
}
