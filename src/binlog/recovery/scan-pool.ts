// Thread pool that reads the segments of a large log.

import { availableParallelism } from "node:os";
import { Piscina } from "piscina";
import { assert } from "../../base/assert.ts";
import { type ScanOptions, StartInterrupted } from "./open-options.ts";
import { SCAN_WORKER, type ScanTask } from "./scan-worker-file.ts";
import type { SegmentScan } from "./segment-scan.ts";

const POOL_THREADS_MAX = 8;

/** Reads the segments in parallel. Few starts need it, so it is loaded on demand. */
export async function scanInPool(
  options: ScanOptions,
  numbers: number[],
  sizes: number[],
  totalBytes: number,
): Promise<SegmentScan[]> {
  assert(numbers.length > 0 && numbers.length === sizes.length, "each segment has a size");
  const threads = Math.max(1, Math.min(POOL_THREADS_MAX, availableParallelism(), numbers.length));
  const pool = new Piscina<ScanTask, SegmentScan>({
    filename: SCAN_WORKER,
    minThreads: threads,
    maxThreads: threads,
    atomics: "async",
  });
  let doneBytes = 0;
  try {
    const scans = numbers.map(async (number, i) => {
      const scan = await pool.run({ path: options.disk.path, number, salvage: options.salvage });
      options.progress((doneBytes += sizes[i]!), totalBytes);
      // Destroying the pool discards all unread segments.
      StartInterrupted.check(options.stopping);
      return scan;
    });
    return await Promise.all(scans);
  } finally {
    // After a stop or an error, answers that come while the pool ends are errors to it.
    pool.on("error", () => {});
    await pool.destroy();
  }
}
