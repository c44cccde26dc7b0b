// `clear-tube`: deletes jobs of a tube.

import { JobState } from "../../engine/jobs/job-table.ts";
import { stateBit } from "../../engine/walks/job-walk.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { ClearMany } from "../slices/clear-many.ts";
import { jobFilterOf } from "../slices/job-filter.ts";
import type { ShardCommand } from "./command.ts";

/**
 * The default states. Reserved jobs belong to their workers: they are deleted only if the command
 * names that state.
 */
const USUAL_STATES = stateBit(JobState.Ready) | stateBit(JobState.Delayed) | stateBit(JobState.Buried);

/** May take several turns. */
export const clearTube: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const filter = jobFilterOf(request, USUAL_STATES, nowMs);
  const limit = optionNumber(request.options, OptionTag.Limit) ?? Number.POSITIVE_INFINITY;
  const clearing = engine.clearing(request.tube.text, filter, limit);
  slicedCommands.start(session, new ClearMany(engine, replies, session, clearing), nowMs);
};
