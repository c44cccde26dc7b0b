// Turns a verdict into the books of a log in use, and finishes on disk what a crash left half done.

import { Memory } from "../../base/memory.ts";
import { RecordKind, UPDATE_BYTES } from "../../message/record.ts";
import type { LogState } from "../books/log-state.ts";
import { RecordIndex } from "../books/record-index.ts";
import { type Segment, SegmentTable } from "../books/segment-table.ts";
import type { Disk } from "../disk/disk.ts";
import {
  encodeOwn,
  FRAME_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  type SegmentHeader,
  sealFrame,
  segmentName,
} from "../format/segment-format.ts";
import type { LogVerdict } from "./log-verdict.ts";
import type { SegmentScan } from "./segment-scan.ts";

/** The books of all that the scans hold. `unfinished`: puts whose body never became whole. */
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

/** Goes through all records in the order of the log. */
export function bookRecords(verdict: LogVerdict): LogBooks {
  const table = new SegmentTable();
  const index = new RecordIndex(table);
  for (const scan of verdict.kept) {
    // Only a salvage gets here with a gap; the table needs every number.
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
  index.maxId = Math.max(index.maxId, verdict.maxId);
  const unfinished = index.unfinished();
  for (const id of unfinished) index.remove(id);
  return { table, index, unfinished: unfinished.length };
}

function bookSegment(index: RecordIndex, scan: SegmentScan): void {
  const { count, kinds, ids, offsets, framedBytes, extras } = scan.columns;
  for (let i = 0; i < count; i++)
    index.book(kinds[i]!, ids[i]!, scan.number, offsets[i]!, framedBytes[i]!, extras[i]!);
}

/**
 * Ends the tail where its whole records end, gives back what was zero-filled behind it, and removes what does
 * not count. Each step may be interrupted: the next start does the same again.
 */
export function repairLog(disk: Disk, verdict: LogVerdict, books: LogBooks): LogState {
  for (const number of verdict.stale) disk.unlink(segmentName(number));
  const surplus = verdict.empty.slice(2);
  for (const scan of surplus.reverse()) disk.unlink(segmentName(scan.number));
  for (const number of verdict.discard) disk.unlink(segmentName(number));
  // Also what a process made that was killed before it could make the name durable: the log relies on it from
  // here on.
  disk.syncFolder();
  let lastSequence = verdict.lastSequence;
  for (const scan of verdict.kept) {
    const segment = books.table.get(scan.number)!;
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
    segment.handle = disk.open(segmentName(scan.number), "write");
    // Its zeros may not be durable yet: what is written into them must not pay for that.
    disk.sync(segment.handle);
    books.table.add(segment);
    return segment;
  });
  const { table, index } = books;
  const { oldest } = verdict;
  return { table, index, lastSequence, oldest, first: Math.max(1, oldest), empty };
}

/**
 * Gives back what stands behind END, in the last segment once END is durable: a kill may have come before its
 * sync.
 */
function trimEnded(disk: Disk, scan: SegmentScan, isLast: boolean): void {
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
  encodeOwn(frame, FRAME_BYTES, { kind: OwnKind.end, hasNext, oldest: verdict.oldest, maxId });
  sealFrame(frame, 0, OWN_RECORD_BYTES, segment.salt, sequence, sequence - 1);
  const handle = disk.open(segmentName(scan.number), "write");
  // What stands before END says that it is durable, so it has to be.
  disk.sync(handle);
  disk.write(handle, bytes, 0, bytes.length, scan.at);
  disk.sync(handle);
  segment.usedBytes = scan.at + bytes.length;
  disk.truncate(handle, segment.usedBytes);
  disk.sync(handle);
  disk.close(handle);
}

/** Finds the UPDATE records of a scan by their place. */
export class UpdateFinder {
  readonly #offsets = new Map<number, Uint32Array>();
  readonly #views = new Map<number, DataView>();

  constructor(scans: readonly SegmentScan[]) {
    for (const scan of scans) {
      const { count, kinds, offsets, updates } = scan.columns;
      if (updates.length === 0) continue;
      const places = new Uint32Array(updates.length / UPDATE_BYTES);
      let n = 0;
      for (let i = 0; i < count; i++) if (kinds[i] === RecordKind.update) places[n++] = offsets[i]!;
      this.#offsets.set(scan.number, places);
      this.#views.set(scan.number, new DataView(updates.buffer, updates.byteOffset, updates.length));
    }
  }

  view(segment: number): DataView {
    return this.#views.get(segment)!;
  }

  /** Where in that view the UPDATE lies whose frame is at `offset` of the segment. */
  position(segment: number, offset: number): number {
    const places = this.#offsets.get(segment)!;
    let low = 0;
    let high = places.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle]! < offset) low = middle + 1;
      else high = middle;
    }
    return low * UPDATE_BYTES;
  }
}
