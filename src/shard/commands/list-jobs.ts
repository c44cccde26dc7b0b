// `list-jobs`: lists jobs of one tube or of all, in order of their ids. For a list over all shards,
// it returns this shard's part.

import { JobState } from "../../engine/jobs/job-table.ts";
import { ALL_STATES, stateBit } from "../../engine/walks/job-walk.ts";
import { ListPartView, RequestFlag } from "../../message/request.ts";
import { LIST_LIMIT_USUAL } from "../../protocol/job-options.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import { jobFilterOf } from "../slices/job-filter.ts";
import { JobListing } from "../slices/job-listing.ts";
import type { ShardCommand } from "./command.ts";

/** May take several turns. */
export const listJobs: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { options } = request;
  const filter = jobFilterOf(request, ALL_STATES, nowMs);
  const afterId = optionNumber(options, OptionTag.After) ?? 0;
  const listed = {
    tube: isEveryTube(request.tube) ? undefined : request.tube.text,
    partBytesMax:
      (request.flags & RequestFlag.AckOnly) === 0 ? undefined : ListPartView.textBytesMax(request),
    walk: engine.walk({ ...filter, states: shownStates(filter.states) }, afterId),
    limit: optionNumber(options, OptionTag.Limit) ?? LIST_LIMIT_USUAL,
    showBytes: optionNumber(options, OptionTag.Show) ?? 0,
  };
  slicedCommands.start(session, new JobListing(engine, replies, session, listed), nowMs);
};

/** Returns the states to search. A job in transit to another shard is shown as reserved. */
const shownStates = (states: number): number =>
  (states & stateBit(JobState.Reserved)) === 0 ? states : states | stateBit(JobState.Moving);
