// Reads one segment's bytes from front to back: which records it holds, where it stops being whole, and what that says.

import { MAX_RECORD_BYTES, RECORD_ID_AT, RecordKind, UPDATE_BYTES } from "../../message/record.ts";
import {
  decodeHeader,
  END_BYTES,
  FRAME_BYTES,
  frameIsWhole,
  frameSequence,
  frameSynced,
  HEADER_BYTES,
  type HeaderProblem,
  OwnKind,
  recordExtra,
  recordIsKnown,
  type SegmentHeader,
  SPARE_BYTES,
} from "../format/segment-format.ts";

/** The records of a segment as columns: they cross threads as plain memory. */
export interface RecordColumns {
  count: number;
  kinds: Uint8Array;
  ids: Float64Array;
  /** Where the frame begins. */
  offsets: Uint32Array;
  /** Frame and record. */
  framedBytes: Uint32Array;
  /** See recordExtra. */
  extras: Uint32Array;
  /** The UPDATE records themselves, one after the other in order. */
  updates: Uint8Array;
}

/**
 * How the records end.
 * `left`: with END. `zeros`: with the zeros written ahead. `short`: the file is shorter than it was.
 * `bad`: with bytes that are no record, at `at`.
 */
export type SegmentEnd = "left" | "zeros" | "short" | "bad";

export interface SegmentScan {
  number: number;
  fileBytes: number;
  header: SegmentHeader | HeaderProblem;
  /** Nothing but zeros behind the header. */
  empty: boolean;
  columns: RecordColumns;
  /** The unbroken run of records from the beginning; 0: none. */
  firstSequence: number;
  lastSequence: number;
  /** The highest sequence of any whole record, those behind damage included. */
  highestSequence: number;
  end: SegmentEnd;
  /** Left, and the next segment was there already. */
  promisesNext: boolean;
  /** Where the whole records end. */
  at: number;
  /** The last byte that is not zero, if the end is bad. */
  lastNonZero: number;
  /** What told the end, for people. */
  reason: string;
  /** What the bytes at a bad end claim to be: maybe a record whose rest the file has lost. */
  claimedSequence: number;
  claimedRecordBytes: number;
  /** The newest sequence that any whole record calls durable, those behind the damage included. */
  synced: number;
  /** The highest of what END, MARK and DROP say. */
  oldest: number;
  maxId: number;
  /** Whole records behind the damage (salvage takes them, otherwise they only testify). */
  beyond: number;
  /** The lowest sequence of any whole record, and how many whole records there are. */
  lowestSequence: number;
  records: number;
  /** Places of NOTE records. */
  notes: number[];
}

class ColumnWriter {
  count = 0;
  kinds: Uint8Array;
  ids: Float64Array;
  offsets: Uint32Array;
  framedBytes: Uint32Array;
  extras: Uint32Array;
  updates: Uint8Array;
  updateCount = 0;

  constructor(fileBytes: number) {
    const guess = Math.max(16, Math.ceil(fileBytes / 120));
    this.kinds = new Uint8Array(guess);
    this.ids = new Float64Array(guess);
    this.offsets = new Uint32Array(guess);
    this.framedBytes = new Uint32Array(guess);
    this.extras = new Uint32Array(guess);
    this.updates = new Uint8Array(16 * UPDATE_BYTES);
  }

  add(kind: number, id: number, offset: number, framedBytes: number, extra: number): void {
    const i = this.count++;
    if (i === this.kinds.length) this.#grow();
    this.kinds[i] = kind;
    this.ids[i] = id;
    this.offsets[i] = offset;
    this.framedBytes[i] = framedBytes;
    this.extras[i] = extra;
  }

  addUpdate(bytes: Uint8Array, at: number): void {
    const end = (this.updateCount + 1) * UPDATE_BYTES;
    if (end > this.updates.length) {
      const larger = new Uint8Array(2 * this.updates.length);
      larger.set(this.updates);
      this.updates = larger;
    }
    this.updates.set(bytes.subarray(at, at + UPDATE_BYTES), end - UPDATE_BYTES);
    this.updateCount++;
  }

  #grow(): void {
    const size = 2 * this.kinds.length;
    const larger = new ColumnWriter(0);
    larger.kinds = new Uint8Array(size);
    larger.ids = new Float64Array(size);
    larger.offsets = new Uint32Array(size);
    larger.framedBytes = new Uint32Array(size);
    larger.extras = new Uint32Array(size);
    larger.kinds.set(this.kinds);
    larger.ids.set(this.ids);
    larger.offsets.set(this.offsets);
    larger.framedBytes.set(this.framedBytes);
    larger.extras.set(this.extras);
    this.kinds = larger.kinds;
    this.ids = larger.ids;
    this.offsets = larger.offsets;
    this.framedBytes = larger.framedBytes;
    this.extras = larger.extras;
  }

  done(): RecordColumns {
    const { count, kinds, ids, offsets, framedBytes, extras } = this;
    return {
      count,
      kinds,
      ids,
      offsets,
      framedBytes,
      extras,
      updates: this.updates.slice(0, this.updateCount * UPDATE_BYTES),
    };
  }
}

function firstNonZero(bytes: Uint8Array, from: number): number {
  if (from >= bytes.length) return -1;
  let at = from;
  // Eight at a time: the zeros of a fresh segment are most of what there is to read.
  const aligned = (8 - ((bytes.byteOffset + at) & 7)) & 7;
  for (const stop = Math.min(bytes.length, at + aligned); at < stop; at++) if (bytes[at] !== 0) return at;
  const words = new Float64Array(
    bytes.buffer,
    bytes.byteOffset + at,
    Math.floor(Math.max(0, bytes.length - at) / 8),
  );
  // A double is 0 also when only the sign bit is set: Object.is tells -0 from 0.
  let i = 0;
  while (i < words.length && Object.is(words[i], 0)) i++;
  for (at += 8 * i; at < bytes.length; at++) if (bytes[at] !== 0) return at;
  return -1;
}

/** Scans the whole content of a segment file. Nothing throws: damage is part of the answer. */
export function scanSegment(bytes: Uint8Array, number: number, keepBeyond: boolean): SegmentScan {
  const scan: SegmentScan = {
    number,
    fileBytes: bytes.length,
    header: decodeHeader(bytes),
    empty: false,
    columns: new ColumnWriter(0).done(),
    firstSequence: 0,
    lastSequence: 0,
    highestSequence: 0,
    end: "bad",
    promisesNext: false,
    at: 0,
    lastNonZero: 0,
    reason: "",
    claimedSequence: 0,
    claimedRecordBytes: 0,
    synced: 0,
    oldest: 0,
    maxId: 0,
    beyond: 0,
    lowestSequence: 0,
    records: 0,
    notes: [],
  };
  scan.empty = firstNonZero(bytes, HEADER_BYTES) < 0;
  const header = scan.header;
  if ("problem" in header) {
    scan.reason = `its header is not whole (${header.problem})`;
    if (bytes.length > HEADER_BYTES && header.problem !== "version") scanBlindly(scan, bytes, keepBeyond);
    return scan;
  }
  scan.oldest = header.oldest;
  scan.maxId = header.maxId;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const columns = new ColumnWriter(bytes.length);

  let at = HEADER_BYTES;
  while (scan.end === "bad" && frameIsWhole(bytes, view, at, bytes.length, header.salt)) {
    const sequence = frameSequence(view, at);
    if (scan.lastSequence !== 0 && sequence !== scan.lastSequence + 1) break;
    const recordBytes = view.getUint32(at + 4, true);
    if (!recordIsKnown(bytes, at + FRAME_BYTES, recordBytes)) break;
    if (scan.firstSequence === 0) scan.firstSequence = sequence;
    scan.lastSequence = sequence;
    scan.records++;
    take(scan, columns, bytes, view, at, recordBytes);
    at += FRAME_BYTES + recordBytes;
  }
  scan.at = at;
  scan.lowestSequence = scan.firstSequence;
  scan.highestSequence = scan.lastSequence;
  if (scan.end === "bad") judgeEnd(scan, bytes, view, at);
  if (scan.end === "bad" || scan.end === "short")
    searchBeyond(scan, columns, bytes, view, at, header.salt, keepBeyond);
  scan.columns = columns.done();
  return scan;
}

/** The header is damaged: tries its salt anyway, since records that match it prove it. */
function scanBlindly(scan: SegmentScan, bytes: Uint8Array, keepBeyond: boolean): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const columns = new ColumnWriter(bytes.length);
  searchBeyond(scan, columns, bytes, view, HEADER_BYTES, view.getUint32(36, true), keepBeyond);
  scan.at = bytes.length;
  scan.columns = columns.done();
}

/** Books one whole record. */
function take(
  scan: SegmentScan,
  columns: ColumnWriter,
  bytes: Uint8Array,
  view: DataView,
  at: number,
  recordBytes: number,
): void {
  const record = at + FRAME_BYTES;
  const synced = frameSynced(view, at);
  if (synced > scan.synced) scan.synced = synced;
  const kind = bytes[record]!;
  if (kind < OwnKind.end) {
    const id = view.getFloat64(record + RECORD_ID_AT, true);
    if (kind === RecordKind.put && id > scan.maxId) scan.maxId = id;
    if (kind === RecordKind.update) columns.addUpdate(bytes, record);
    columns.add(kind, id, at, FRAME_BYTES + recordBytes, recordExtra(bytes, view, record, recordBytes));
    return;
  }
  if (kind === OwnKind.note) {
    scan.notes.push(at);
    return;
  }
  scan.oldest = Math.max(scan.oldest, view.getUint32(record + 4, true));
  scan.maxId = Math.max(scan.maxId, view.getFloat64(record + 8, true));
  if (kind === OwnKind.end) {
    scan.end = "left";
    scan.promisesNext = bytes[record + 1] === 1;
    scan.reason = "left";
  }
}

/** No whole record at `at`: the end of what was written, a file that lost its end, or damage? */
function judgeEnd(scan: SegmentScan, bytes: Uint8Array, view: DataView, at: number): void {
  const rest = bytes.length - at;
  if (rest < SPARE_BYTES) {
    scan.end = "short";
    scan.reason = `the file ends ${rest} bytes behind its last whole record, and was longer`;
    return;
  }
  if (firstNonZero(bytes, at) < 0) {
    scan.end = "zeros";
    scan.reason = "end of what was written";
    return;
  }
  scan.claimedSequence = frameSequence(view, at);
  scan.claimedRecordBytes = view.getUint32(at + 4, true);
  if (scan.lastSequence !== 0) judgeClaim(scan, scan.lastSequence + 1);
  else scan.reason = "not a record";
}

/**
 * A record at a bad end that is in its place but reaches beyond the end of the file: zeros were written ahead of
 * every record, so the file has been longer. The first record of a segment can only be judged by who knows the
 * segment before it; so this is called again there.
 */
export function judgeClaim(scan: SegmentScan, expectedSequence: number): void {
  const inPlace = scan.claimedSequence === expectedSequence && scan.claimedRecordBytes <= MAX_RECORD_BYTES;
  scan.reason = inPlace ? "its checksum does not match" : "it is not a record";
  if (!inPlace || scan.at + FRAME_BYTES + scan.claimedRecordBytes <= scan.fileBytes - END_BYTES) return;
  scan.end = "short";
  scan.reason = `the record there has ${scan.claimedRecordBytes} bytes, but the file ends before them`;
}

/** Looks at every byte behind the damage for whole records that belong there. */
function searchBeyond(
  scan: SegmentScan,
  columns: ColumnWriter,
  bytes: Uint8Array,
  view: DataView,
  from: number,
  salt: number,
  keep: boolean,
): void {
  const stop = bytes.length - FRAME_BYTES;
  for (let i = bytes.length - 1; i >= from && scan.lastNonZero === 0; i--)
    if (bytes[i] !== 0) scan.lastNonZero = i;
  let last = scan.lastSequence;
  let at = from;
  while (at <= stop) {
    const recordBytes = view.getUint32(at + 4, true);
    const sequence = frameSequence(view, at);
    // Cheap first: nearly every offset is none.
    const possible = recordBytes > 0 && sequence > last && sequence - last < bytes.length;
    if ((possible || (last === 0 && recordBytes > 0)) && frameIsWhole(bytes, view, at, bytes.length, salt)) {
      if (recordIsKnown(bytes, at + FRAME_BYTES, recordBytes)) {
        scan.beyond++;
        scan.records++;
        if (scan.lowestSequence === 0) scan.lowestSequence = sequence;
        last = sequence;
        // What stands behind damage may not say which segments count: what it was written after may be lost.
        const { end, oldest } = scan;
        if (keep) take(scan, columns, bytes, view, at, recordBytes);
        else scan.synced = Math.max(scan.synced, frameSynced(view, at));
        scan.end = end;
        scan.oldest = oldest;
        at += FRAME_BYTES + recordBytes;
        continue;
      }
    }
    at++;
  }
  scan.highestSequence = last;
}
