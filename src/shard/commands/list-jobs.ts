// `list-jobs`: lists jobs of a tube, in the order of their ids.

import { ALL_STATES } from "../../engine/job-walk.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { jobFilterOf } from "../work/job-filter.ts";
import { JobListing } from "../work/job-listing.ts";
import type { ShardCommand } from "./command.ts";

const USUAL_LIMIT = 100;

/** May take several turns. */
export const listJobs: ShardCommand = ({ engine, replies, moves, nowMs }, session, request) => {
  const { options } = request;
  const afterId = optionNumber(options, OptionTag.After) ?? 0;
  const listed = {
    tube: request.tube.text,
    walk: engine.walk(jobFilterOf(request, ALL_STATES, nowMs), afterId),
    limit: optionNumber(options, OptionTag.Limit) ?? USUAL_LIMIT,
    showBytes: optionNumber(options, OptionTag.Show) ?? 0,
  };
  moves.start(session, new JobListing(engine, replies, session, listed), nowMs);
};
