// The parts of a bundle, and the loader's interface for them.

import type { WorkerOptions } from "node:worker_threads";

/** The exports of "runnerbean:parts". */
export interface Parts {
  /** Returns the bytes of a file of the bundle. Throws if there is none. */
  read(name: string): Buffer;
  /** Whether the process can still read the bundle. */
  isReadable(): boolean;
  /** Returns the arguments of `new Worker` for a thread that runs a part. */
  threadOf(part: string, options: WorkerOptions): [filename: string, options: WorkerOptions];
  /** Sets the exports of "runnerbean:PART". */
  provide(part: string, exports: unknown): void;
}

/**
 * Names of the parts with a special use. A thread's part is named after its room, as in
 * threads/new-thread.ts.
 */
export const PARTS = { main: "main", scanPool: "scan", scanWorker: "scan-worker" } as const;

/**
 * Size in MB up to which the heap of a thread grows before its first full garbage collection. By
 * default, V8 lowers that size after each small collection that frees much. Then the first full one
 * falls into the first thousands of commands, and takes a sixth of their CPU.
 */
export const HEAP_FLAG = "--initial-old-space-size=32";
