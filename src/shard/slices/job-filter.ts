// The options that select jobs of a tube.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import { type JobFilter, stateBit } from "../../engine/walks/job-walk.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber, optionText } from "../../protocol/options.ts";
import type { Request } from "../../protocol/request.ts";

/** The states in the order of their words: see STATE_WORDS in protocol/commands.ts. */
const STATES: readonly JobState[] = [JobState.Ready, JobState.Delayed, JobState.Buried, JobState.Reserved];

/**
 * Returns the filter of a command's options, with its own copies of bytes. Without `state`, it
 * selects `usualStates`.
 */
export function jobFilterOf({ options }: Request, usualStates: number, nowMs: number): JobFilter {
  const words = optionNumber(options, OptionTag.State);
  const olderMs = optionNumber(options, OptionTag.Older);
  const group = optionText(options, OptionTag.Group);
  return {
    states: words === undefined ? usualStates : statesOf(words),
    createdByMs: olderMs === undefined ? Number.POSITIVE_INFINITY : nowMs - olderMs,
    contains: optionText(options, OptionTag.Contains)?.slice(),
    group: group === undefined ? undefined : latin1(group, 0, group.length),
  };
}

function statesOf(words: number): number {
  let states = 0;
  for (const [word, state] of STATES.entries()) if ((words & (1 << word)) !== 0) states |= stateBit(state);
  assert(states !== 0, "a filter accepts at least one state");
  return states;
}
