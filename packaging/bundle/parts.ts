// The parts of a bundle, and what the loader offers them.

import type { WorkerOptions } from "node:worker_threads";

/** What the import "runnerbean:parts" yields. */
export interface Parts {
  /** Returns the bytes of a file of the bundle. Throws if there is none. */
  read(name: string): Buffer;
  /** Whether the process can still read the bundle. */
  isReadable(): boolean;
  /** The arguments of `new Worker` for a thread that runs a part. */
  threadOf(part: string, options: WorkerOptions): [filename: string, options: WorkerOptions];
  /** Makes `exports` what "runnerbean:PART" yields. */
  provide(part: string, exports: unknown): void;
}

/**
 * Names of the parts with a use of their own. A thread's part is named after its room, as in
 * threads/new-thread.ts.
 */
export const PARTS = { main: "main", scanPool: "scan", scanWorker: "scan-worker" } as const;
