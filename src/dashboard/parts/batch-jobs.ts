// The existing jobs of a batch: its members, and the jobs that wait for it.

import { send } from "./request.ts";
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

/** Finds both kinds in one pass over the server's jobs, because there may be millions of others. */
export async function jobsOfBatch({
  name,
  number,
  open,
  failed,
  waiting: awaiting,
}: BatchRow): Promise<BatchJobs> {
  const members: JobRow[] = [];
  const waiting: JobRow[] = [];
  // No more can exist, so the search may stop after that many.
  const lacksMembers = (): boolean => members.length < Math.min(open + failed, JOBS_MAX);
  const lacksWaiting = (): boolean => waiting.length < Math.min(awaiting, JOBS_MAX);
  let cursor: string | null = "";
  let examined = 0;
  let key = "";
  for (let page = 0; page < PAGES_MAX && examined < EXAMINED_MAX && cursor !== null; page++) {
    if (!lacksMembers() && !lacksWaiting()) break;
    // Members beyond the maximum would hide the jobs that wait.
    key = !lacksWaiting() ? "batch" : !lacksMembers() ? "waitsFor" : "ofBatch";
    const asked = new URLSearchParams({
      [key]: name,
      // The number of a batch is an id; the ids of its jobs are higher.
      idFrom: `${number}`,
      limit: `${JOBS_MAX}`,
      bodyMax: "0",
    });
    if (cursor !== "") asked.set("cursor", cursor);
    const answer = (await send("GET", `v1/jobs?${asked}`)) as JobsPage;
    // A member may wait for another batch, but not for its own.
    for (const job of answer.items) (job.batch === name ? members : waiting).push(job);
    examined += answer.examined;
    cursor = answer.cursor;
  }
  const hasEnded = (without: string): boolean => cursor === null && key !== without;
  return {
    members,
    waiting,
    isWhole:
      (members.length >= open + failed || hasEnded("waitsFor")) &&
      (waiting.length >= awaiting || hasEnded("batch")),
    examined,
  };
}
