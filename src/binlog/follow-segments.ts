// Segments of a standby's log: creates them ahead of their use, and cuts them after a batch.

import { assert } from "../base/assert.ts";
import { segmentName, segmentNumber } from "../base/segment-name.ts";
import { damaged, encodeChecked, type FieldChecks, isInteger, readChecked } from "./disk/checked-json.ts";
import { type Disk, type Handle, readFully } from "./disk/disk.ts";
import { replaceWhole, writeWhole } from "./disk/whole-file.ts";
import { decodeHeader, encodeHeader, HEADER_BYTES, SPARE_BYTES } from "./format/segment-format.ts";
import type { SyncEvery } from "./live/sync-policy.ts";

/** Zeros to write ahead at a time, because a sync that extends a file waits for the journal. */
export const AHEAD_BYTES = 512 * 1024;
const CUT = "cut.json";
const CUT_REMEDY =
  "Move the directory away to get everything from the group; keep it until another server has its jobs.";

/** A batch in the log, after which a cut can be made. */
export interface Place {
  segment: number;
  /** Offset of the frame of the LINK record. */
  beginsAt: number;
  /** End of the last frame of the batch. */
  endsAt: number;
  /** Sequence of the last frame. */
  sequence: number;
  sealed: boolean;
  /** The oldest segment that counts at this point. */
  oldest: number;
}

const PLACE_CHECKS: FieldChecks<Place> = {
  segment: isInteger(1),
  beginsAt: isInteger(HEADER_BYTES),
  endsAt: isInteger(HEADER_BYTES + 1),
  sequence: isInteger(1),
  sealed: (value) => typeof value === "boolean",
  oldest: isInteger(0),
};

export interface OpenSegment {
  number: number;
  handle: Handle;
  salt: number;
  usedBytes: number;
  fileBytes: number;
}

export interface FollowOptions {
  disk: Disk;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  wallMs: () => number;
}

export function createSegment(
  { disk, randomSalt, wallMs }: FollowOptions,
  number: number,
  oldest: number,
  zeros: Uint8Array,
): OpenSegment {
  assert(number > 0 && oldest >= 0, "a new segment has a number");
  const salt = randomSalt() >>> 0;
  const handle = disk.open(segmentName(number), "create");
  const bytes = zeros.slice();
  assert(bytes.length >= HEADER_BYTES + SPARE_BYTES, "a new segment has room after its header");
  bytes.set(encodeHeader({ number, createdAtMs: wallMs(), maxId: 0, oldest, salt }));
  disk.truncate(handle, 0);
  disk.write(handle, bytes, 0, bytes.length, 0);
  disk.sync(handle);
  disk.syncFolder();
  return { number, handle, salt, usedBytes: HEADER_BYTES, fileBytes: bytes.length };
}

export function reopen(disk: Disk, number: number, usedBytes: number): OpenSegment {
  assert(usedBytes >= HEADER_BYTES, "a reopened segment has its header");
  const name = segmentName(number);
  const handle = disk.open(name, "write");
  const bytes = new Uint8Array(HEADER_BYTES);
  readFully(disk, handle, bytes, 0, bytes.length, 0);
  const header = decodeHeader(bytes);
  if ("problem" in header) throw new Error(`${name} has lost its header`);
  return { number, handle, salt: header.salt, usedBytes, fileBytes: disk.bytes(handle) };
}

/** Finishes an interrupted cut; call before reading the directory. */
export function finishCut(options: FollowOptions, extentBytes = AHEAD_BYTES): void {
  const { disk } = options;
  if (!disk.names().includes(CUT)) return;
  const place = readPlace(disk);
  if (place !== undefined) {
    const zeros = new Uint8Array(extentBytes);
    cut(disk, place, zeros);
    // The END promises that a next segment exists.
    if (place.sealed) disk.close(createSegment(options, place.segment + 1, 0, zeros).handle);
  }
  endCut(disk);
}

/** Records where to cut, so that the next start can finish an interrupted cut, and cuts. */
export function beginCut(disk: Disk, place: Place, zeros: Uint8Array): void {
  assert(place.segment > 0 && place.endsAt > place.beginsAt, "a cut follows a batch");
  writeWhole(disk, CUT, encodeChecked(place));
  disk.syncFolder();
  cut(disk, place, zeros);
}

export function endCut(disk: Disk): void {
  disk.unlink(CUT);
  disk.syncFolder();
}

/** Removes everything after the place: newer segments, newest first, then its own rest. */
function cut(disk: Disk, { segment, endsAt, sealed }: Place, zeros: Uint8Array): void {
  assert(zeros.length > 0 && endsAt >= HEADER_BYTES, "a cut leaves the header");
  const numbers = disk.names().map(segmentNumber);
  for (const number of numbers.filter((each) => each > segment).sort((a, b) => b - a))
    disk.unlink(segmentName(number));
  disk.syncFolder();
  const name = segmentName(segment);
  const handle = disk.open(name, "write");
  try {
    if (sealed) {
      if (disk.bytes(handle) > endsAt) disk.truncate(handle, endsAt);
      disk.sync(handle);
      return;
    }
    const bytes = new Uint8Array(Math.ceil((endsAt + SPARE_BYTES) / zeros.length) * zeros.length);
    readFully(disk, handle, bytes, 0, endsAt, 0);
    // Replace the file: remains of the cut could reappear after a crash and look like damage.
    replaceWhole(disk, name, ".cut", bytes);
  } finally {
    disk.close(handle);
  }
}

/** Returns undefined if the file is incomplete, in which case nothing was cut yet. */
function readPlace(disk: Disk): Place | undefined {
  let place: Place;
  try {
    place = readChecked(disk, CUT, PLACE_CHECKS, CUT_REMEDY);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  // A cut removes everything after it: a wrong place would remove segments that count.
  const name = segmentName(place.segment);
  const bytes = disk.names().includes(name) ? bytesOf(disk, name) : 0;
  if (bytes >= place.endsAt) return place;
  throw damaged(disk, CUT, `it cuts ${name} at byte ${place.endsAt} of ${bytes}`, CUT_REMEDY);
}

function bytesOf(disk: Disk, name: string): number {
  const handle = disk.open(name, "read");
  try {
    return disk.bytes(handle);
  } finally {
    disk.close(handle);
  }
}
