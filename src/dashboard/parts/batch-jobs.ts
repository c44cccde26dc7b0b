// The existing jobs of a batch: its members, and the jobs that wait for it.

import type { BatchRow, JobRow, JobsPage } from "./view-types.ts";

/** Maximum of fetched jobs of each kind. */
const JOBS_MAX = 1000;
/** A search ends after it has examined this many jobs, or after so many pages of a busy server. */
const EXAMINED_MAX = 1_000_000;
const PAGES_MAX = 20;

export interface BatchJobs {
  readonly members: readonly JobRow[];
  readonly waiting: readonly JobRow[];
  /** Whether these are all of them. */
  readonly isWhole: boolean;
  /** Jobs that the server examined to find them. */
  readonly examined: number;
}

/** The name goes into the query, because a path can't contain all names. */
export const batchPath = (name: string, what = ""): string =>
  `v1/batches/-${what}?${new URLSearchParams({ name })}`;

/** Returns the filter of the next request; undefined if nothing is lacking. */
function filterOf(
  lacksMembers: boolean,
  lacksWaiting: boolean,
): "ofBatch" | "batch" | "waitsFor" | undefined {
  // Members beyond the maximum would hide the jobs that wait.
  if (lacksMembers) return lacksWaiting ? "ofBatch" : "batch";
  return lacksWaiting ? "waitsFor" : undefined;
}

/**
 * Finds both kinds in one pass over the server's jobs, because there may be millions of others.
 * `get` fetches a path.
 */
export async function jobsOfBatch(
  { name, number, open, failed, waiting: awaiting }: BatchRow,
  get: (path: string) => Promise<unknown>,
): Promise<BatchJobs> {
  // By id: a job that moves to another shard meanwhile may be found twice.
  const members = new Map<number, JobRow>();
  const waiting = new Map<number, JobRow>();
  let [examined, cursor, lastFilter] = [0, "" as string | null, ""];
  for (let page = 0; page < PAGES_MAX && examined < EXAMINED_MAX && cursor !== null; page++) {
    // No more can exist, so the search may stop after that many.
    const filter = filterOf(
      members.size < Math.min(open + failed, JOBS_MAX),
      waiting.size < Math.min(awaiting, JOBS_MAX),
    );
    if (filter === undefined) break;
    const answer = await pageOf({ name, number }, filter, cursor, get);
    // A member may wait for another batch, but not for its own.
    for (const job of answer.items) (job.batch === name ? members : waiting).set(job.id, job);
    examined += answer.examined;
    cursor = answer.cursor;
    lastFilter = filter;
  }
  const hasEnded = (without: string): boolean => cursor === null && lastFilter !== without;
  const hasMembers = members.size >= open + failed || hasEnded("waitsFor");
  const hasWaiting = waiting.size >= awaiting || hasEnded("batch");
  return {
    members: [...members.values()],
    waiting: [...waiting.values()],
    isWhole: hasMembers && hasWaiting,
    examined,
  };
}

async function pageOf(
  { name, number }: Pick<BatchRow, "name" | "number">,
  filter: string,
  cursor: string,
  get: (path: string) => Promise<unknown>,
): Promise<JobsPage> {
  const asked = new URLSearchParams({
    [filter]: name,
    // The number of a batch is an id; the ids of its jobs are higher.
    idFrom: `${number}`,
    limit: `${JOBS_MAX}`,
    bodyMax: "0",
  });
  if (cursor !== "") asked.set("cursor", cursor);
  return (await get(`v1/jobs?${asked}`)) as JobsPage;
}
