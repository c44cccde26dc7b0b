// Recipe: a report each night, once, also if a server or a worker is down at that time.

import { type Queue, text, type Worker, work } from "../../src/client/client.ts";

// page: begin
/** Each start of your program may do this: the same times leave the next run alone. */
export async function setUp(queue: Queue<string>): Promise<void> {
  await queue.tube("reports").set({ maxAttempts: 5, backoff: 60 });
  // Server down at 2:30? It runs once when the server is back.
  const timing = { cron: "30 2 * * *", tz: "Europe/Berlin", missed: "once" as const, ttr: 600 };
  await queue.schedule("nightly-sales").set("reports", "sales", timing);
}

/**
 * `write` gets the name of the run, the same at each attempt: use it as the key of the report, so
 * that a second attempt replaces what the first one wrote.
 */
export const startWorker = (
  queue: Queue<string>,
  write: (report: string, run: string) => Promise<void>,
): Worker<string> =>
  work(queue, ["reports"], (job) => write(job.body, job.meta["schedule"] ?? `job-${job.id}`));

export const codec = text();
// page: end
