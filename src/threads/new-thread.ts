// Starts threads from the sources: each room has a file for its thread. A bundle replaces this
// module (packaging/bundle/replacements).

import { Worker, type WorkerOptions } from "node:worker_threads";

export function newThread(room: string, options: WorkerOptions): Worker {
  return new Worker(new URL(`../${room}/thread.ts`, import.meta.url), options);
}
