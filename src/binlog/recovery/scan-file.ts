// Reads one segment from its file and scans it.

import { segmentName } from "../../base/segment-name.ts";
import { type Disk, readFully } from "../disk/disk.ts";
import { type SegmentScan, scanSegment } from "./segment-scan.ts";

export function scanFile(disk: Disk, number: number, salvage: boolean): SegmentScan {
  const handle = disk.open(segmentName(number), "read");
  try {
    const bytes = new Uint8Array(new ArrayBuffer(disk.bytes(handle)));
    const got = readFully(disk, handle, bytes, 0, bytes.length, 0);
    return scanSegment(bytes.subarray(0, got), number, salvage);
  } finally {
    disk.close(handle);
  }
}
