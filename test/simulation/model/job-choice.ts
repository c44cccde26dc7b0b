// Selection of jobs by a simulated list-jobs or clear-tube.

import type { State } from "./job-state.ts";

/** Choice of a command among the jobs of a tube. */
export interface JobChoice {
  readonly tube: string;
  readonly states: readonly State[];
  /** A text that their bodies have. */
  readonly contains: string | undefined;
  readonly group: string | undefined;
  readonly limit: number | undefined;
}

/** Fields of a job that matter here. */
interface Choosable {
  readonly id: number;
  readonly state: State;
  readonly body: string;
  readonly tube: { readonly name: string };
  readonly policy: { readonly group: string };
}

/** Returns whether a job is of a choice, whatever its limit. */
export const fits = (job: Choosable, { tube, states, contains = "", group }: JobChoice): boolean =>
  job.tube.name === tube &&
  states.includes(job.state) &&
  job.body.includes(contains) &&
  (group === undefined || job.policy.group === group);

/** The jobs of a choice, by id. */
export function chosenJobs<Job extends Choosable>(jobs: Iterable<Job>, choice: JobChoice): Job[] {
  return [...jobs]
    .filter((job) => fits(job, choice))
    .sort((a, b) => a.id - b.id)
    .slice(0, choice.limit);
}

/** Returns whether a choice has no filter but states: a clear-tube takes whole queues. */
export const isWhole = ({ contains, group, limit }: JobChoice): boolean =>
  contains === undefined && group === undefined && limit === undefined;

/** Returns whether two say the same. */
export const isSameChoice = (a: JobChoice, b: JobChoice): boolean =>
  a.tube === b.tube &&
  a.contains === b.contains &&
  a.group === b.group &&
  a.limit === b.limit &&
  [...a.states].sort().join() === [...b.states].sort().join();
