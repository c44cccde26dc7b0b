// Options for a log in a real directory.

import { RealDisk } from "../../../src/binlog/disk/real-disk.ts";
import type { OpenOptions } from "../../../src/binlog/recovery/open-options.ts";

export function realOptions(path: string, notices: string[] = []): OpenOptions {
  return {
    disk: new RealDisk(path),
    shards: 1,
    segmentBytes: 1024 * 1024,
    syncEvery: 0,
    salvage: false,
    parallel: true,
    randomSalt: () => 99,
    wallMs: Date.now,
    clockMs: () => performance.now(),
    notice: (notice) => notices.push(`${notice.code} ${notice.message}`),
    progress: () => {},
  };
}
