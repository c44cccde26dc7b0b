// Recipe: one job fans out to many, and another one joins their results.

import { BatchConflict, type Job, json, type Queue, type Worker, work } from "../../src/client/client.ts";

// page: begin
interface Step {
  readonly video: string;
  readonly chunk?: number;
}

/** The first step. A second attempt finds its batch open, and puts what is missing. */
async function split(queue: Queue<Step>, { body: { video } }: Job<Step>, chunks: number): Promise<void> {
  const name = `video-${video}`;
  const batch = queue.batch(name);
  try {
    await batch.open({ keep: 3600 });
  } catch (error) {
    if (!(error instanceof BatchConflict)) throw error;
    // Committed before its worker died: all has been put.
    if ((await batch.inspect()).state !== "open") return;
  }
  const steps = Array.from({ length: chunks }, (_, chunk) => ({ video, chunk }));
  const unique = (chunk: string | number) => ({ unique: `${video}:${chunk}`, uniqueFor: 3600 });
  await queue.putMany("chunks", steps, ({ chunk }) => ({ batch: name, ...unique(chunk!) }));
  await queue.put("join", { video }, { after: name, ...unique("join") });
  await batch.commit();
}

/** Join runs when each chunk is done; it is buried if one has failed for good. */
export function startWorkers(
  queue: Queue<Step>,
  {
    chunks,
    encode,
    join,
  }: { chunks: number; encode(step: Step): Promise<void>; join(video: string): Promise<void> },
): Worker<Step>[] {
  return [
    work(queue, ["videos"], (job) => split(queue, job, chunks)),
    work(queue, ["chunks"], (job) => encode(job.body), { concurrency: 8 }),
    work(queue, ["join"], (job) => join(job.body.video)),
  ];
}

export const codec = json<Step>();
// page: end
