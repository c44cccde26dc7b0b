// Attempts of jobs and the backoff after each lost one. An attempt is a reservation that counts:
// kicks and blameless returns raise the job's `attemptsBase`.

import { assert } from "../../base/assert.ts";
import { JobCounter } from "../../schema/job.ts";
import type { JobPage } from "../jobs/job-table.ts";
import type { Tube } from "../tubes/tube.ts";
import type { TubePolicy } from "../tubes/tube-settings.ts";

/** Returns the number of the job's attempts. */
export function attemptsOf(page: JobPage, row: number): number {
  return page.count(row, JobCounter.reserves) - (page.extras?.attemptsBase[row] ?? 0);
}

/** Returns whether the job has used up the attempts that its tube allows. */
export function isSpent({ policy }: Tube, attempts: number): boolean {
  return policy !== undefined && policy.maxAttempts > 0 && attempts >= policy.maxAttempts;
}

/** Restores all attempts of a job, and its first backoff, if its tube counts attempts. */
export function resetAttempts(page: JobPage, row: number, { policy }: Tube): void {
  const counts = policy !== undefined && (policy.maxAttempts > 0 || policy.backoffMs > 0);
  if (counts && page.count(row, JobCounter.reserves) > 0)
    page.makeExtras().attemptsBase[row] = page.count(row, JobCounter.reserves);
}

/**
 * Returns how long a job waits after its `attempts`-th lost attempt: twice as long as after the
 * previous one, minus up to a quarter. That keeps jobs that failed together from returning
 * together. Deterministic, so a replay computes the same.
 */
export function backoffMs(policy: TubePolicy, id: number, attempts: number): number {
  assert(policy.backoffMs > 0, "a backoff is positive");
  const exponent = Math.min(60, Math.max(0, attempts - 1));
  const wholeMs = Math.min(policy.backoffMaxMs, policy.backoffMs * 2 ** exponent, MAX_DELAY_MS);
  assert(wholeMs < Number.POSITIVE_INFINITY, "a backoff has an end");
  return Math.max(1, Math.round(wholeMs * (1 - spread(id, attempts) / 4)));
}

/** The longest delay that a command can set. */
const MAX_DELAY_MS = 0xffff_ffff * 1000;

/** Returns a pseudo-random number from 0 to below 1, from a hash. */
function spread(id: number, attempts: number): number {
  let hash = Math.imul((id % 0x1_0000_0000) ^ Math.imul(attempts, 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000;
}
