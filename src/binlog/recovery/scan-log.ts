// Reads all segments of a directory, one after another or in parallel in a thread pool.

import { assert } from "../../base/assert.ts";
import { segmentName, segmentNumber } from "../../base/segment-name.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import type { Disk } from "../disk/disk.ts";
import { SEGMENT_BYTES_MAX } from "../format/segment-format.ts";
import { scanFile } from "./scan-file.ts";
import type { ScanOptions } from "./scan-options.ts";
import type { SegmentScan } from "./segment-scan.ts";
import { StartInterrupted } from "./start-interrupted.ts";

/** Below this size, a pool costs more than it saves. */
const POOL_BYTES_MIN = 24 * 1024 * 1024;

export function segmentNumbers(disk: Disk): number[] {
  const numbers = disk.names().map(segmentNumber);
  return numbers.filter((number) => number > 0).sort((a, b) => a - b);
}

export async function scanLog(options: ScanOptions): Promise<SegmentScan[]> {
  const { disk } = options;
  const numbers = segmentNumbers(disk);
  const sizes = numbers.map((number) => sizeOf(disk, number));
  for (const [i, bytes] of sizes.entries()) if (bytes > SEGMENT_BYTES_MAX) throw tooLong(disk, numbers[i]!);
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  assert(total >= 0 && sizes.length === numbers.length, "each segment of the log has a size");
  if (options.parallel && total >= POOL_BYTES_MIN) {
    const { scanInPool } = await import("./scan-pool.ts");
    return await scanInPool(options, numbers, sizes, total);
  }
  let done = 0;
  return numbers.map((number, i) => {
    StartInterrupted.check(options.stopping);
    const scan = scanFile(disk, number, options.salvage);
    options.progress((done += sizes[i]!), total);
    return scan;
  });
}

function tooLong(disk: Disk, number: number): BinlogError {
  return new BinlogError(
    "BINLOG_CORRUPT",
    `${disk.path}/${segmentName(number)} is longer than a file of the log can be (${SEGMENT_BYTES_MAX} bytes)`,
    "runnerbean never writes such a file: find out where it came from. Nothing was changed.",
  );
}

function sizeOf(disk: Disk, number: number): number {
  const handle = disk.open(segmentName(number), "read");
  try {
    return disk.bytes(handle);
  } finally {
    disk.close(handle);
  }
}
