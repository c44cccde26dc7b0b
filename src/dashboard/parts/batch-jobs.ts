// The existing jobs of a batch: its members, and the jobs that wait for it.

import { send } from "./request.ts";
import type { BatchRow, JobRow, JobsPage } from "./view-types.ts";

/** Maximum of fetched jobs of each kind, and of pages, which examine 200,000 jobs each. */
const JOBS_MAX = 1000;
const PAGES_MAX = 5;

export interface BatchJobs {
  readonly members: readonly JobRow[];
  readonly waiting: readonly JobRow[];
  /** Whether these are all of them. */
  readonly isWhole: boolean;
}

/** The name goes into the query, because a path can't contain all names. */
export const batchPath = (name: string, what = ""): string =>
  `v1/batches/-${what}?${new URLSearchParams({ name })}`;

export async function jobsOfBatch(batch: BatchRow): Promise<BatchJobs> {
  const { open, failed, waiting } = batch;
  const members = await found(batch, "batch", open + failed);
  const callbacks = await found(batch, "waitsFor", waiting);
  return {
    members: members.jobs,
    waiting: callbacks.jobs,
    isWhole: members.isWhole && callbacks.isWhole,
  };
}

/** At most `count` jobs exist, so the search can stop after that many. */
async function found(
  { name, number }: BatchRow,
  key: "batch" | "waitsFor",
  count: number,
): Promise<{ jobs: JobRow[]; isWhole: boolean }> {
  const jobs: JobRow[] = [];
  let cursor: string | null = "";
  for (let page = 0; page < PAGES_MAX && jobs.length < Math.min(count, JOBS_MAX) && cursor !== null; page++) {
    // The number of a batch is an id; the ids of its jobs are higher.
    const asked = new URLSearchParams({
      [key]: name,
      idFrom: `${number}`,
      limit: `${JOBS_MAX}`,
      bodyMax: "0",
    });
    if (cursor !== "") asked.set("cursor", cursor);
    const answer = (await send("GET", `v1/jobs?${asked}`)) as JobsPage;
    jobs.push(...answer.items);
    cursor = answer.cursor;
  }
  return { jobs, isWhole: cursor === null || jobs.length >= count };
}
