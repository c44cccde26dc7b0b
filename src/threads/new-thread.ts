// Threads from the sources: each room's thread starts from its file. A bundle replaces this module
// (packaging/bundle/replacements).

import { Worker, type WorkerOptions } from "node:worker_threads";

export function newThread(room: string, options: WorkerOptions): Worker {
  return new Worker(new URL(`../${room}/thread.ts`, import.meta.url), options);
}
