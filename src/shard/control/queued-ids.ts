// The ids of a tube's jobs in some states, in ascending order, if that is faster than a walk over
// all jobs of the shard.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import type { StateName } from "../../message/control.ts";
import { stateOf } from "./where.ts";

/** Collecting and sorting this many takes a tenth of a millisecond. */
const JOBS_MAX = 1000;

/**
 * Returns the ids above `afterId`. Undefined if there are too many, or if the states include
 * reserved jobs, which a tube does not list, as those in transit, which look reserved.
 */
export function queuedIds(
  { jobs }: Engine,
  tube: Tube,
  states: readonly StateName[],
  afterId: number,
): Float64Array | undefined {
  const wanted: readonly JobState[] = states.map(stateOf);
  const count = wanted.reduce<number>((sum, state) => sum + tube.jobsIn(state), 0);
  const unlisted = tube.jobsIn(JobState.Reserved) + tube.jobsIn(JobState.Moving);
  if (count > JOBS_MAX || (wanted.includes(JobState.Reserved) && unlisted > 0)) return undefined;
  const ids = new Float64Array(count);
  let length = 0;
  const note = (slot: number): void => {
    const id = jobs.pageOf(slot).id[rowOf(slot)]!;
    if (id > afterId) ids[length++] = id;
  };
  const noteList = (first: number): void => {
    for (let slot = first; slot !== NO_SLOT; slot = jobs.pageOf(slot).next[rowOf(slot)]!) note(slot);
  };
  const has = (state: JobState): boolean => wanted.includes(state) && tube.jobsIn(state) > 0;
  if (has(JobState.Ready)) noteList(tube.ready.first);
  if (has(JobState.Buried)) noteList(tube.buried.first);
  if (has(JobState.Delayed))
    for (let place = 0; place < tube.delayed.size; place++) note(tube.delayed.at(place));
  assert(length <= count, "a tube has no more jobs than it counts");
  return ids.subarray(0, length).sort();
}
