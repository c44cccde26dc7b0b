// Turns a verdict into the books of a log in use, and completes work on disk that a crash
// interrupted.

import { assert } from "../../base/assert.ts";
import { Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import { type Disk, replaceWhole } from "../disk/disk.ts";
import { CLOCK_PATTERN, readClock } from "../live/log-clock.ts";
import { type LogState, RecordIndex, type Segment, SegmentTable } from "../segments/books.ts";
import {
  encodeHeader,
  encodeOwn,
  FORMAT_VERSION,
  FRAME_BYTES,
  HEADER_BYTES,
  isUpdate,
  OWN_RECORD_BYTES,
  OwnKind,
  type SegmentHeader,
  sealFrame,
} from "../segments/segment-format.ts";
import type { LogVerdict } from "./log-verdict.ts";
import type { SegmentScan } from "./segment-scan.ts";

const RENEWED_BYTES = 4096;

/** The books of everything in the scans. `unfinished` counts puts with incomplete bodies. */
export interface LogBooks {
  table: SegmentTable;
  index: RecordIndex;
  unfinished: number;
}

function segmentOf(scan: SegmentScan): Segment {
  const header = scan.header as Partial<SegmentHeader>;
  return {
    number: scan.number,
    salt: header.salt ?? 0,
    createdAtMs: header.createdAtMs ?? 0,
    fileBytes: scan.fileBytes,
    usedBytes: scan.at,
    liveBytes: 0,
    sealed: false,
    handle: undefined,
  };
}

/** Books all records in the order of the log. */
export function bookRecords(verdict: LogVerdict): LogBooks {
  const table = new SegmentTable();
  const index = new RecordIndex(table);
  for (const scan of verdict.kept) {
    // Only a salvage meets a gap here; the table needs consecutive numbers.
    for (let n = (table.all.at(-1)?.number ?? scan.number - 1) + 1; n < scan.number; n++) {
      const gap = {
        fileBytes: 0,
        usedBytes: 0,
        liveBytes: 0,
        salt: 0,
        createdAtMs: 0,
        sealed: true,
        handle: undefined,
      };
      table.add({ number: n, ...gap });
    }
    const segment = segmentOf(scan);
    table.add(segment);
    bookSegment(index, scan);
  }
  index.batches.endRecovery();
  index.maxId = Math.max(index.maxId, verdict.maxId);
  const unfinished = index.unfinished();
  for (const id of unfinished) index.remove(id);
  return { table, index, unfinished: unfinished.length };
}

export function settingsOf(books: LogBooks): Map<string, string> {
  const settings = new Map([...books.index.settings].map(([pattern, { text }]) => [pattern, text]));
  settings.delete(CLOCK_PATTERN);
  return settings;
}

/** Returns how far the wall clock is ahead of the log's clock: see LogClock. */
export function clockAheadMs(books: LogBooks): number {
  return readClock(books.index.settings.get(CLOCK_PATTERN)?.text);
}

/** Returns when the newest job was put, by the log's clock; 0 if there is none. */
export function newestMs({ kept }: LogVerdict): number {
  let newest = { newestId: 0, newestMs: 0 };
  for (const scan of kept) if (scan.newestId >= newest.newestId) newest = scan;
  return newest.newestMs;
}

function bookSegment(index: RecordIndex, scan: SegmentScan): void {
  const { count, kinds, ids, offsets, framedBytes, extras } = scan.columns;
  assert(count <= kinds.length && count <= ids.length, "the columns of a segment have all its rows");
  for (let i = 0; i < count; i++)
    index.book(kinds[i]!, ids[i]!, scan.number, offsets[i]!, framedBytes[i]!, extras[i]!);
  for (const { pattern, text, offset, framedBytes } of scan.settings)
    index.setSetting(pattern, text, scan.number, offset, framedBytes);
  for (const { facts, tally, offset, framedBytes } of scan.flows) {
    if (facts !== undefined) index.setBatch(facts, scan.number, offset, framedBytes);
    else index.batches.setTally(tally!, scan.number, offset, framedBytes);
  }
}

/**
 * Ends the tail after its last complete record, releases the zero-filled space after it, and
 * removes segments that don't count. Each step may be interrupted; the next start repeats it.
 */
export function repairLog(disk: Disk, verdict: LogVerdict, books: LogBooks): LogState {
  assert(verdict.problems.length === 0, "only a log without damage is repaired");
  if (verdict.stale.length > 0) syncEnd(disk, verdict);
  for (const { number } of verdict.stale) disk.unlink(segmentName(number));
  const surplus = verdict.empty.slice(2);
  for (const scan of surplus.reverse()) disk.unlink(segmentName(scan.number));
  for (const number of verdict.discard) disk.unlink(segmentName(number));
  // This also makes names durable that a killed process left pending: the log relies on them from
  // here on.
  disk.syncFolder();
  let lastSequence = verdict.lastSequence;
  for (const scan of verdict.kept) {
    const segment = books.table.get(scan.number);
    assert(segment !== undefined, "each segment that counts is in the books");
    if (scan === verdict.tail) {
      endTail(disk, scan, segment, ++lastSequence, verdict, books.index.maxId);
    } else {
      trimEnded(disk, scan, scan === verdict.kept.at(-1));
    }
    segment.fileBytes = segment.usedBytes;
    books.table.seal(segment);
  }
  const empty = verdict.empty.slice(0, 2).map((scan) => {
    const segment = segmentOf(scan);
    if (versionOf(scan) < FORMAT_VERSION) segment.fileBytes = renewSegment(disk, scan);
    segment.handle = disk.open(segmentName(scan.number), "write");
    // The zeros may not be durable yet; later writes must not have to wait for that.
    disk.sync(segment.handle);
    books.table.add(segment);
    return segment;
  });
  const { table, index } = books;
  assert(empty.length <= 2 && lastSequence >= verdict.lastSequence, "a repair only adds an END");
  const { oldest } = verdict;
  return { table, index, lastSequence, oldest, first: Math.max(1, oldest), empty };
}

/**
 * Makes the end of the log durable. It says which segments don't count, and has copies of their
 * jobs, and a kill may have come before its sync.
 */
function syncEnd(disk: Disk, { kept, empty }: LogVerdict): void {
  for (const { number } of [...kept.slice(-1), ...empty]) {
    const handle = disk.open(segmentName(number), "write");
    try {
      disk.sync(handle);
    } finally {
      disk.close(handle);
    }
  }
}

function versionOf({ header }: SegmentScan): number {
  return "problem" in header ? 0 : header.version;
}

/**
 * Recreates a segment without records in the current version, under a temporary name until it is
 * durable, because the log may rely on it. Returns its length.
 */
function renewSegment(disk: Disk, { number, header }: SegmentScan): number {
  assert(!("problem" in header), "a recreated segment had a header");
  const bytes = new Uint8Array(RENEWED_BYTES);
  bytes.set(encodeHeader(header));
  replaceWhole(disk, segmentName(number), ".new", bytes);
  return bytes.length;
}

/**
 * Releases the space after END. In the last segment, END must be durable first: a kill may have
 * come before its sync.
 */
function trimEnded(disk: Disk, scan: SegmentScan, isLast: boolean): void {
  assert(scan.at >= HEADER_BYTES, "a trimmed segment keeps its header");
  if (!isLast && scan.fileBytes <= scan.at) return;
  const handle = disk.open(segmentName(scan.number), "write");
  if (isLast) disk.sync(handle);
  if (scan.fileBytes > scan.at) disk.truncate(handle, scan.at);
  disk.close(handle);
}

function endTail(
  disk: Disk,
  scan: SegmentScan,
  segment: Segment,
  sequence: number,
  verdict: LogVerdict,
  maxId: number,
): void {
  const frame = Memory.ofSize(FRAME_BYTES + OWN_RECORD_BYTES);
  const { bytes } = frame;
  const hasNext = verdict.empty.length > 0;
  assert(sequence === verdict.lastSequence + 1, "the END of a tail has the next sequence");
  encodeOwn(frame, FRAME_BYTES, { kind: OwnKind.end, hasNext, oldest: verdict.oldest, maxId });
  sealFrame(frame, 0, OWN_RECORD_BYTES, segment.salt, sequence, sequence - 1);
  const handle = disk.open(segmentName(scan.number), "write");
  // END states that everything before it is durable, so sync that first.
  disk.sync(handle);
  disk.write(handle, bytes, 0, bytes.length, scan.at);
  disk.sync(handle);
  assert(scan.at === segment.usedBytes, "END follows the last complete record");
  segment.usedBytes = scan.at + bytes.length;
  disk.truncate(handle, segment.usedBytes);
  disk.sync(handle);
  disk.close(handle);
}

/**
 * The UPDATE records of a segment: the offsets of their frames, and their positions in contiguous
 * memory.
 */
interface SegmentUpdates {
  offsets: Uint32Array;
  positions: Uint32Array;
  memory: Memory;
}

/** Finds the UPDATE records of scans by their location. */
export class UpdateFinder {
  readonly #updates = new Map<number, SegmentUpdates>();

  constructor(scans: readonly SegmentScan[]) {
    for (const scan of scans) {
      if (scan.columns.updates.length > 0) this.#updates.set(scan.number, updatesOf(scan));
    }
  }

  memory(segment: number): Memory {
    const updates = this.#updates.get(segment);
    assert(updates !== undefined, "a segment with the latest update of a job was read");
    return updates.memory;
  }

  /**
   * Returns the position, in that memory, of the UPDATE whose frame is at `offset` of the segment.
   */
  position(segment: number, offset: number): number {
    const updates = this.#updates.get(segment);
    assert(updates !== undefined, "a segment with an update was read");
    const { offsets, positions } = updates;
    let low = 0;
    let high = offsets.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (offsets[middle]! < offset) low = middle + 1;
      else high = middle;
    }
    assert(offsets[low] === offset, "an update lies where the books say");
    return positions[low]!;
  }
}

function updatesOf({ columns }: SegmentScan): SegmentUpdates {
  const { count, kinds, offsets, framedBytes, updates } = columns;
  let found = 0;
  for (let i = 0; i < count; i++) if (isUpdate(kinds[i]!)) found++;
  const result = {
    offsets: new Uint32Array(found),
    positions: new Uint32Array(found),
    memory: new Memory(updates),
  };
  let position = 0;
  for (let i = 0, n = 0; i < count; i++) {
    if (!isUpdate(kinds[i]!)) continue;
    result.offsets[n] = offsets[i]!;
    result.positions[n++] = position;
    position += framedBytes[i]! - FRAME_BYTES;
  }
  assert(position === updates.length, "the updates of a segment fill their memory");
  return result;
}
