// The jobs of a batch, as far as they are there still: its members, and the jobs that wait for it.

import { send } from "./request.ts";
import type { BatchRow, JobRow, JobsPage } from "./view-types.ts";

/** At most so many jobs of each kind are fetched, in so many pages of 200,000 jobs looked at. */
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

/** There are at most `count`: then the rest of the jobs need not be searched. */
async function found(
  { name, number }: BatchRow,
  key: "batch" | "waitsFor",
  count: number,
): Promise<{ jobs: JobRow[]; isWhole: boolean }> {
  const jobs: JobRow[] = [];
  let cursor: string | null = "";
  for (let page = 0; page < PAGES_MAX && jobs.length < Math.min(count, JOBS_MAX) && cursor !== null; page++) {
    // The number of a batch is an id: its jobs were put later.
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
