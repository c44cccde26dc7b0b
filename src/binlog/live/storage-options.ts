// What a log in use is opened with, and whom it tells.

import type { LogState } from "../books/log-state.ts";
import type { Disk } from "../disk/disk.ts";
import type { ChainOptions } from "./batch-chain.ts";
import type { SyncEvery } from "./sync-policy.ts";

/** A line for the log of the server. */
export interface StorageNotice {
  level: "info" | "warn" | "error";
  code: string;
  message: string;
}

export interface StorageOptions {
  disk: Disk;
  log: LogState;
  shards: number;
  segmentBytes: number;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  /** Wall clock, for the headers of segments. */
  wallMs: () => number;
  /** Monotonic clock with fractions, for measuring and for ending slices of work. */
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  /** Ids lent at a time; LENT_IDS if it is left out. */
  lentIds?: number;
  /** In a group: where the log goes on in the chain of batches, and who brings them to the shared log. */
  chain?: ChainOptions | undefined;
  /** Told in which segment a job's full record is now. */
  onFull?: (id: number, segment: number) => void;
}
