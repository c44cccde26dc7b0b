// Threads of a bundle; replaces src/threads/new-thread.ts.

import { Worker, type WorkerOptions } from "node:worker_threads";
import { threadOf } from "runnerbean:parts";

export function newThread(room: string, options: WorkerOptions): Worker {
  return new Worker(...threadOf(room, options));
}
