// `list-jobs`: lists jobs of a tube or of all, in the order of their ids; for a list over all shards this shard's part.

import { JobState } from "../../engine/jobs/job-table.ts";
import { ALL_STATES, stateBit } from "../../engine/walks/job-walk.ts";
import { RequestFlag } from "../../message/request.ts";
import { LIST_LIMIT_USUAL } from "../../protocol/job-options.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import { jobFilterOf } from "../slices/job-filter.ts";
import { JobListing } from "../slices/job-listing.ts";
import type { ShardCommand } from "./command.ts";

/** May take several turns. */
export const listJobs: ShardCommand = ({ engine, replies, moves, nowMs }, session, request) => {
  const { options } = request;
  const filter = jobFilterOf(request, ALL_STATES, nowMs);
  const afterId = optionNumber(options, OptionTag.After) ?? 0;
  const listed = {
    tube: isEveryTube(request.tube) ? undefined : request.tube.text,
    partBytesMax: (request.flags & RequestFlag.AckOnly) === 0 ? undefined : request.bodyBytes,
    walk: engine.walk({ ...filter, states: shownStates(filter.states) }, afterId),
    limit: optionNumber(options, OptionTag.Limit) ?? LIST_LIMIT_USUAL,
    showBytes: optionNumber(options, OptionTag.Show) ?? 0,
  };
  moves.start(session, new JobListing(engine, replies, session, listed), nowMs);
};

/** Who is on the way to another shard looks as if somebody held it. */
const shownStates = (states: number): number =>
  (states & stateBit(JobState.Reserved)) === 0 ? states : states | stateBit(JobState.Moving);
