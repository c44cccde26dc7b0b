// Checks one sealed segment by itself, as it lies on the disk.

import { Piscina } from "piscina";
import { segmentName } from "../../base/text.ts";
import type { Damage } from "../../message/log-figures.ts";
import { RECORD_ID_AT, RecordKind } from "../../message/record.ts";
import { systemCode } from "../disk/binlog-error.ts";
import { isCodeReadable } from "../disk/readable-code.ts";
import { readPastCache } from "../disk/real-disk.ts";
import { FRAME_BYTES, HEADER_BYTES } from "../segments/segment-format.ts";
import { SCAN_WORKER, type ScanTask } from "./scan-worker-file.ts";
import { scanSegment } from "./segment-scan.ts";

/** Maximum number of ids in a report of a place. */
const JOBS_MAX = 16;

/** Returns the damaged places of a segment that is no longer written, from its whole content. */
function checkSegment(bytes: Uint8Array, number: number): Damage[] {
  const scan = scanSegment(bytes, number, false);
  const { header, reason, at, fileBytes } = scan;
  const found: Damage[] = [];
  const isOwn = !("problem" in header) && header.number === number;
  if (!isOwn) {
    const why =
      "problem" in header
        ? reason || `its header has an unknown ${header.problem}`
        : "its header is another's";
    found.push({
      segment: number,
      offset: 0,
      bytes: Math.min(HEADER_BYTES, fileBytes),
      jobs: [],
      reason: why,
    });
  }
  for (const gap of scan.gaps)
    found.push({
      segment: number,
      offset: gap.at,
      bytes: gap.bytes,
      jobs: jobsIn(bytes, gap.at, gap.bytes),
      reason,
    });
  if (found.length === 0 && scan.end !== "sealed")
    found.push({ segment: number, offset: at, bytes: fileBytes - at, jobs: [], reason: "it has no end" });
  return found;
}

export interface CheckedFile {
  readonly bytes: number;
  readonly damage: readonly Damage[];
}

/** Returns the ids in records that seem to lie in a damaged range. */
function jobsIn(bytes: Uint8Array, from: number, length: number): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const jobs = new Set<number>();
  const end = Math.min(from + length, bytes.length);
  for (let at = from; at + FRAME_BYTES + RECORD_ID_AT + 8 <= end && jobs.size < JOBS_MAX; ) {
    const kind = bytes[at + FRAME_BYTES]!;
    const id = view.getFloat64(at + FRAME_BYTES + RECORD_ID_AT, true);
    if (kind > 0 && kind <= RecordKind.piece && Number.isSafeInteger(id) && id > 0) jobs.add(id);
    at += FRAME_BYTES + Math.max(1, view.getUint32(at + 4, true));
  }
  return [...jobs];
}

/**
 * Returns the damaged places of a segment that is no longer written, read past the cache; undefined
 * if the segment was removed. An error of the system loses its code on the way to another thread.
 */
export async function checkFile(path: string, number: number): Promise<CheckedFile | undefined> {
  try {
    const content = await readPastCache(`${path}/${segmentName(number)}`);
    return { bytes: content.length, damage: checkSegment(content, number) };
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT") return undefined;
    if (code !== "EIO") throw error;
    const reason = "the disk cannot read it (EIO)";
    return { bytes: 0, damage: [{ segment: number, offset: 0, bytes: 0, jobs: [], reason }] };
  }
}

/**
 * Does the same in a thread, which ends afterwards and gives back the memory: as much as the file
 * has bytes.
 */
export async function checkInThread(path: string, number: number): Promise<CheckedFile | undefined> {
  // The user whom the server now runs as may not be allowed to read the code.
  if (!isCodeReadable()) return checkFile(path, number);
  const pool = new Piscina<ScanTask, CheckedFile | undefined>({
    filename: SCAN_WORKER,
    maxThreads: 1,
    atomics: "disabled",
  });
  try {
    return await pool.run({ path, number, salvage: false, checks: true });
  } finally {
    pool.on("error", () => {});
    await pool.destroy();
  }
}
