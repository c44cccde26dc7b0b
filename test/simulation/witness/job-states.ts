// Names of job states as the model spells them.

import { JobState } from "../../../src/engine/jobs/job-table.ts";
import type { State } from "../model/job-state.ts";

export const STATE_NAMES: Record<number, State> = {
  [JobState.Ready]: "ready",
  [JobState.Reserved]: "reserved",
  [JobState.Delayed]: "delayed",
  [JobState.Buried]: "buried",
  [JobState.Moving]: "moving",
};
