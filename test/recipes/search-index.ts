// Recipe: a search index that follows documents, with one update for many changes.

import { type Queue, text, type Worker, work } from "../../src/client/client.ts";

// page: begin
/**
 * After the first change, it waits for `quietSeconds` without another one, at most 30 s in all. The
 * job holds only the id: the worker reads the newest state.
 */
export const changed = (queue: Queue<string>, documentId: string, quietSeconds = 2) =>
  queue.put("index", documentId, {
    ...{ unique: documentId, uniqueUntil: "reserve", onDuplicate: "debounce", debounceMax: 30 },
    delay: quietSeconds,
  });

/** A change during the update makes a new job, since the key ends with the reservation. */
export const startWorker = (
  queue: Queue<string>,
  update: (documentId: string) => Promise<void>,
): Worker<string> => work(queue, ["index"], (job) => update(job.body), { concurrency: 4 });

export const codec = text();
// page: end
