// Profile of one case: two turns, one to measure and one to sample, because sampling takes time
// itself.
import { mkdirSync } from "node:fs";
import type { BenchCase, TurnContext } from "../case/bench-case.ts";
import type { BenchOptions } from "../options.ts";
import { nameProfiles, type SelfTime, selfTimes } from "./cpu-profile.ts";
import { type ProjectionRow, projections, type RoleCosts } from "./projection.ts";
import type { Role } from "./role-usage.ts";
import { type WatchedRun, watchedRun } from "./watched-run.ts";

const SELF_TIMES_MAX = 10;
/**
 * With this in its environment our server doesn't start itself once more (see src/server/main.ts):
 * a signal of the profiler's that arrives meanwhile would end it.
 */
const NO_SECOND_START = { MALLOC_MMAP_THRESHOLD_: "262144" };

export interface CaseProfile {
  readonly key: string;
  readonly title: string;
  readonly measured: WatchedRun;
  readonly costs: RoleCosts;
  /** Not a measurement. */
  readonly projections: readonly ProjectionRow[];
  /** From the second turn. */
  readonly selfTimes: readonly { readonly role: Role; readonly top: readonly SelfTime[] }[];
  /** Where the CPU profiles are. */
  readonly directory: string;
}

/** `directory` is made, and gets a CPU profile for each thread. */
export async function profileCase(
  benchCase: BenchCase,
  options: BenchOptions,
  context: () => Omit<TurnContext, "contender">,
  directory: string,
): Promise<CaseProfile> {
  const measured = await watchedRun(benchCase, options, context());
  mkdirSync(directory, { recursive: true });
  const { NODE_OPTIONS = "" } = process.env;
  const sampled = await watchedRun(benchCase, options, context(), {
    ...NO_SECOND_START,
    NODE_OPTIONS: `${NODE_OPTIONS} --cpu-prof --cpu-prof-dir=${JSON.stringify(directory)}`,
  });
  const files = nameProfiles(directory, sampled.threads);
  if (files.size === 0) throw new Error(`The server left no CPU profile in ${directory}`);
  const costs = costsOf(measured);
  const threadsOf = (role: Role): number => measured.roles.find((each) => each.role === role)?.threads ?? 0;
  return {
    key: benchCase.key,
    title: benchCase.title,
    measured,
    costs,
    projections: projections(costs, { acceptors: threadsOf("acceptor"), shards: threadsOf("shard") }),
    selfTimes: [...files].map(([role, ofRole]) => ({ role, top: selfTimes(ofRole, SELF_TIMES_MAX) })),
    directory,
  };
}

/** Microseconds of CPU time for each command. */
export function costsOf({ roles, commands }: Pick<WatchedRun, "roles" | "commands">): RoleCosts {
  const cost = (...names: Role[]): number =>
    roles
      .filter(({ role }) => names.includes(role))
      .reduce((sum, { userSeconds, kernelSeconds }) => sum + userSeconds + kernelSeconds, 0) *
    (1e6 / commands);
  return {
    acceptor: cost("acceptor"),
    shard: cost("shard"),
    binlog: cost("binlog"),
    other: cost("main", "helpers"),
  };
}
