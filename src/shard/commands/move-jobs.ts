// `move-jobs`: jobs of a tube go to another one, or dead ones to where they died.

import { JobState } from "../../engine/job-table.ts";
import { stateBit } from "../../engine/job-walk.ts";
import { TubeMoving } from "../../engine/tube-moving.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { Reply } from "../../protocol/reply.ts";
import { jobFilterOf } from "../work/job-filter.ts";
import { MoveMany } from "../work/move-many.ts";
import type { ShardCommand } from "./command.ts";

const USUAL_STATES = stateBit(JobState.Ready) | stateBit(JobState.Delayed) | stateBit(JobState.Buried);
/** Each dead job to its own. */
const ORIGINS = "*";

/** May take several turns. */
export const moveJobs: ShardCommand = ({ engine, replies, moves, tubeSetter, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const { tube, body, options } = request;
  const target = body.text === ORIGINS ? "" : body.text;
  if (target !== "" && !tubeSetter.owns(target)) {
    replies.fixed(session, Reply.otherShard);
    return;
  }
  const walk = engine.walk(jobFilterOf(request, USUAL_STATES, nowMs), 0);
  const limit = optionNumber(options, OptionTag.Limit) ?? Number.POSITIVE_INFINITY;
  const asReady = optionNumber(options, OptionTag.As) !== undefined;
  const moving = new TubeMoving(engine, tube.text, walk, { target, asReady, limit });
  moves.start(session, new MoveMany(engine, replies, session, moving), nowMs);
};
