// `move-jobs`: moves jobs to another tube, or dead jobs back to the tubes where they died.

import { JobState } from "../../engine/jobs/job-table.ts";
import { Travel } from "../../engine/transfer/job-travel.ts";
import { stateBit } from "../../engine/walks/job-walk.ts";
import { TubeMoving } from "../../engine/walks/tube-moving.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { jobFilterOf } from "../slices/job-filter.ts";
import { FarMove } from "../transfer/far-moves.ts";
import { MoveMany } from "../transfer/move-many.ts";
import type { ShardCommand } from "./command.ts";

const USUAL_STATES = stateBit(JobState.Ready) | stateBit(JobState.Delayed) | stateBit(JobState.Buried);
/** Moves each dead job to its tube of origin. */
const ORIGINS = "*";

/** May take several turns. */
export const moveJobs: ShardCommand = (shard, session, request) => {
  const { engine, replies, slicedCommands, transferSender, nowMs } = shard;
  engine.runDue(nowMs);
  const { tube, options } = request;
  const name = request.target.text;
  const target = name === ORIGINS ? "" : name;
  const walk = engine.walk(jobFilterOf(request, USUAL_STATES, nowMs), 0);
  const limit = optionNumber(options, OptionTag.Limit) ?? Number.POSITIVE_INFINITY;
  const asReady = optionNumber(options, OptionTag.As) !== undefined;
  const far = new FarMove(transferSender, Travel.Move);
  const moving = new TubeMoving(engine, tube.text, walk, far, { target, asReady, limit });
  slicedCommands.start(session, new MoveMany(engine, replies, session, moving, far), nowMs);
};
