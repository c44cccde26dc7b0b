// Options of a log in use, and its callbacks.

import type { LogState } from "../books/log-state.ts";
import type { BackgroundSync, Disk } from "../disk/disk.ts";
import type { ChainOptions } from "./batch-chain.ts";
import type { SyncEvery } from "./sync-policy.ts";

/** A line for the server's log output. */
export interface StorageNotice {
  level: "info" | "warn" | "error";
  code: string;
  message: string;
}

export interface StorageOptions {
  disk: Disk;
  /** Creates a sync in the background; without it, every sync holds up the thread. */
  background?: (() => BackgroundSync) | undefined;
  log: LogState;
  shards: number;
  segmentBytes: number;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  /** Returns wall-clock time, for the headers of segments. */
  wallMs: () => number;
  /** Returns monotonic time with fractions, for measurements and for ending slices of work. */
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  /** Number of ids per lend; LENT_IDS by default. */
  lentIds?: number;
  /**
   * In a group: the place where the log continues the chain of batches, and the sink that sends
   * them to the shared log.
   */
  chain?: ChainOptions | undefined;
  /** Called with the segment of a job's full record whenever that changes. */
  onFull?: (id: number, segment: number) => void;
}

/** A record that was taken from its shard and has no place in the log yet. */
export interface PendingRecord {
  shard: number;
  n: number;
  bytes: Uint8Array;
}
