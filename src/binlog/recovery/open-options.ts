// How a log is opened, and how long its segments become then.

import { MAX_RECORD_BYTES } from "../../message/record.ts";
import { segmentBytesMin } from "../../message/topology.ts";
import type { Disk } from "../disk/disk.ts";
import type { ChainOptions } from "../live/batch-chain.ts";
import type { StorageNotice } from "../live/storage-options.ts";
import type { SyncEvery } from "../live/sync-policy.ts";

/** Smaller segments would not hold a few of the longest records. */
export const SEGMENT_BYTES_MIN = 8 * MAX_RECORD_BYTES;
export const SEGMENT_BYTES_DEFAULT = 10 * 1024 * 1024;

export interface OpenOptions {
  disk: Disk;
  shards: number;
  /** -s; raised to SEGMENT_BYTES_MIN, and to what so many shards need, unless `smallSegments`. */
  segmentBytes: number;
  syncEvery: SyncEvery;
  salvage: boolean;
  /** Threads may open the directory by its path: true on a real disk. */
  parallel: boolean;
  /** For simulations, whose records are small. */
  smallSegments?: boolean;
  randomSalt: () => number;
  wallMs: () => number;
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  progress: (doneBytes: number, totalBytes: number) => void;
  /**
   * Whether to stop before everything is read: then a StartInterrupted is thrown, and the next start begins
   * anew.
   */
  stopping?: () => boolean;
  /** For simulations: ids lent at a time. */
  lentIds?: number;
  /** In a group, for a node that has the lead: see StorageOptions. */
  chain?: ChainOptions | undefined;
  /** Told in which segment a job's full record is, whenever one is written. */
  onFull?: (id: number, segment: number) => void;
}

export function segmentBytesOf(options: OpenOptions): number {
  return options.smallSegments === true
    ? options.segmentBytes
    : Math.max(SEGMENT_BYTES_MIN, segmentBytesMin(options.shards), options.segmentBytes);
}
