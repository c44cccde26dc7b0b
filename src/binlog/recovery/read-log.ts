// Reads the log of a directory: scans, judges and books it without changing anything.

import { assert } from "../../base/assert.ts";
import { segmentName, segmentNumber } from "../../base/text.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import type { Disk } from "../disk/disk.ts";
import { SEGMENT_BYTES_MAX } from "../segments/segment-format.ts";
import { bookRecords, type LogBooks } from "./log-recovery.ts";
import { judgeLog, type LogVerdict } from "./log-verdict.ts";
import { type OpenOptions, type ScanOptions, StartInterrupted } from "./open-options.ts";
import { type SegmentScan, scanFile } from "./segment-scan.ts";

// Reads all segments of a directory, one after another or in parallel in a thread pool.

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

export async function readLog(
  options: Pick<OpenOptions, "disk" | "parallel" | "progress" | "stopping">,
  salvage: boolean,
): Promise<{ verdict: LogVerdict; books: LogBooks }> {
  const scans = await scanLog({ ...options, salvage });
  const verdict = judgeLog(scans, options.disk.path);
  return { verdict, books: bookRecords(verdict) };
}
