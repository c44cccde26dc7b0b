// Entry point of the threads that scan segments at start.

import { move, transferableSymbol, valueSymbol } from "piscina";
import { RealDisk } from "../disk/real-disk.ts";
import { checkFile } from "./check-file.ts";
import type { ScanTask } from "./scan-worker-file.ts";
import { type SegmentScan, scanFile } from "./segment-scan.ts";

/** A scan whose columns all move in one transfer. */
class Transferred {
  readonly #scan: SegmentScan;

  constructor(scan: SegmentScan) {
    this.#scan = scan;
  }

  get [transferableSymbol](): ArrayBufferLike[] {
    const { kinds, ids, offsets, framedBytes, extras, updates } = this.#scan.columns;
    return [kinds.buffer, ids.buffer, offsets.buffer, framedBytes.buffer, extras.buffer, updates.buffer];
  }

  get [valueSymbol](): SegmentScan {
    return this.#scan;
  }
}

export default function scanWorker(task: ScanTask): unknown {
  if (task.checks === true) return checkFile(task.path, task.number);
  // Piscina's type names symbols that it doesn't export.
  const scan: object = new Transferred(scanFile(new RealDisk(task.path), task.number, task.salvage));
  return move(scan as Parameters<typeof move>[0]);
}
