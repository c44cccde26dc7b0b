// Options for opening a log, and the resulting size of its segments.

import { MAX_RECORD_BYTES, segmentBytesMin } from "../../message/record.ts";
import type { BackgroundSync, Disk } from "../disk/disk.ts";
import type { ChainOptions } from "../live/batch-chain.ts";
import type { Restater, StorageNotice, SyncEvery } from "../live/log-writer.ts";

// Error for a server that is stopped while it still reads its log. It has served no client, so
// there is nothing to finish.

export class StartInterrupted extends Error {
  constructor() {
    super("stopped while the log was being read");
    this.name = "StartInterrupted";
  }

  /**
   * Throws if the server is stopping. Call it between steps after which a stop leaves the log like
   * a crash would.
   */
  static check(stopping: (() => boolean) | undefined): void {
    if (stopping?.() === true) throw new StartInterrupted();
  }
}

// Options for reading the segments of a directory.

export interface ScanOptions {
  disk: Disk;
  /** Also keep undamaged records beyond damage. */
  salvage: boolean;
  /** Whether threads may open the directory by its path. */
  parallel: boolean;
  progress: (doneBytes: number, totalBytes: number) => void;
  /** See OpenOptions. */
  stopping?: () => boolean;
}

/** Smaller segments would not hold several of the longest records. */
export const SEGMENT_BYTES_MIN = 8 * MAX_RECORD_BYTES;
export const SEGMENT_BYTES_DEFAULT = 10 * 1024 * 1024;

export interface OpenOptions {
  disk: Disk;
  /** See StorageOptions. */
  background?: (() => BackgroundSync) | undefined;
  /** See StorageOptions. */
  restater?: Restater | undefined;
  shards: number;
  /**
   * The value of -s; raised to SEGMENT_BYTES_MIN and to what that many shards need, unless
   * `smallSegments`.
   */
  segmentBytes: number;
  syncEvery: SyncEvery;
  salvage: boolean;
  /** Whether threads may open the directory by its path: true on a real disk. */
  parallel: boolean;
  /** For simulations, whose records are small. */
  smallSegments?: boolean;
  randomSalt: () => number;
  wallMs: () => number;
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  progress: (doneBytes: number, totalBytes: number) => void;
  /**
   * Returns whether to stop before everything is read. Opening then throws a StartInterrupted, and
   * the next start begins again.
   */
  stopping?: () => boolean;
  /** For simulations: number of ids per lend. */
  lentIds?: number;
  /** In a group, for a node that has the lead: see StorageOptions. */
  chain?: ChainOptions | undefined;
  /** Takes the segment of a job's full record whenever one is written. */
  files?: { set(id: number, segment: number): void };
}

export function segmentBytesOf(options: OpenOptions): number {
  return options.smallSegments === true
    ? options.segmentBytes
    : Math.max(SEGMENT_BYTES_MIN, segmentBytesMin(options.shards), options.segmentBytes);
}
