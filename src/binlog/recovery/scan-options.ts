// Options for reading the segments of a directory.

import type { Disk } from "../disk/disk.ts";

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
