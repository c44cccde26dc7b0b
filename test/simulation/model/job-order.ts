// Order of jobs, and predicates on their state.

import type { State } from "./job-state.ts";
import type { Resolved } from "./model-policies.ts";
import type { KeptJob, ModelJob, ModelSession } from "./model-types.ts";

export const NEVER = Number.POSITIVE_INFINITY;

/** Fields of a job that is not moving. */
export const AT_HOME = {
  stateBefore: "ready",
  holderBefore: undefined,
  transfer: 0,
  errand: undefined,
} as const;

/** Of a job whose holder has said nothing, and that began at no time. */
export const NOTHING_SAID = { progress: undefined, note: "", startedAtMs: -1 } as const;

export const keptState = (state: Exclude<State, "moving">): KeptJob["state"] =>
  state === "reserved" ? "ready" : state;

/** Returns whether a job waits for a batch. */
export const waits = ({ policy }: ModelJob): boolean => policy.after !== 0;

/** Returns whether a job that is in a queue has to expire. */
export const isOver = ({ policy: { expiresAtMs } }: ModelJob, nowMs: number): boolean =>
  expiresAtMs > 0 && expiresAtMs <= nowMs;

/**
 * Returns whether limits count a job as held: also while its holder hands it on to another shard.
 */
export const isInWork = ({ state, stateBefore }: ModelJob): boolean =>
  state === "reserved" || (state === "moving" && stateBefore === "reserved");

/** Returns whether the session may change the job: it holds it, or the job is unreserved. */
export const isFree = ({ state, holder }: ModelJob, session: ModelSession): boolean =>
  state !== "moving" && (state !== "reserved" || holder === session);

/** Returns whether settings may keep ready jobs of a tube back. */
export const isLimited = ({ values }: Resolved): boolean =>
  values.paused === "yes" ||
  values.maxReserved !== NEVER ||
  values.groupMaxReserved !== NEVER ||
  values.rate !== "" ||
  values.groupRate !== "";

/** Returns whether a reservation of the job ended by its ttr or with its holder. */
export function wasLost(job: ModelJob): boolean {
  return job.reserves > job.releases + job.buries;
}

export function isBetter(a: Pick<ModelJob, "id" | "pri">, b: Pick<ModelJob, "id" | "pri">): boolean {
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}

export function bestOf(jobs: readonly ModelJob[]): ModelJob | undefined {
  let best: ModelJob | undefined;
  for (const job of jobs) if (best === undefined || isBetter(job, best)) best = job;
  return best;
}
