// Which jobs of a tube a simulated list-jobs or clear-tube means, and which those are.

import type { Model, ModelJob, State } from "./model.ts";

/** Which jobs of a tube a command means. */
export interface JobChoice {
  readonly tube: string;
  readonly states: readonly State[];
  /** A text that their bodies have. */
  readonly contains: string | undefined;
  readonly limit: number | undefined;
}

/** The jobs of a choice, by id. */
export function chosenJobs(model: Model, { tube, states, contains, limit }: JobChoice): ModelJob[] {
  return [...model.jobs.values()]
    .filter(
      (job) => job.tube.name === tube && states.includes(job.state) && job.body.includes(contains ?? ""),
    )
    .sort((a, b) => a.id - b.id)
    .slice(0, limit);
}

/** Whether two say the same. */
export const isSameChoice = (a: JobChoice, b: JobChoice): boolean =>
  a.tube === b.tube &&
  a.contains === b.contains &&
  a.limit === b.limit &&
  [...a.states].sort().join() === [...b.states].sort().join();
