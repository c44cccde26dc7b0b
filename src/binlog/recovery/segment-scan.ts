// Scans one segment from front to back: finds its records and their end, and classifies the end.

import { assert } from "../../base/assert.ts";
import { Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import { decodeBatch, decodeTally, type Tally } from "../../message/flow-record.ts";
import { decodeLogBatchHeader, type LogBatchHeader } from "../../message/log-batch.ts";
import { createdAtMsOf, RECORD_ID_AT, UPDATE_BYTES } from "../../message/record.ts";
import type { BatchFacts } from "../../schema/batch.ts";
import { type Disk, readFully } from "../disk/disk.ts";
import {
  decodeHeader,
  END_BYTES,
  FRAME_BYTES,
  frameIsWhole,
  frameSequence,
  frameSynced,
  HEADER_BYTES,
  type HeaderProblem,
  isBatch,
  isBeyondVersion1,
  isFull,
  isJob,
  isSetting,
  isTally,
  isUpdate,
  MAX_STORED_BYTES,
  OwnKind,
  recordExtra,
  recordIsKnown,
  type SegmentHeader,
  SPARE_BYTES,
  settingOf,
} from "../segments/segment-format.ts";

// The records of a segment as columns: plain memory that can cross threads.

/** The data that the books need of a segment's records, in order. */
interface RecordColumns {
  count: number;
  kinds: Uint8Array;
  ids: Float64Array;
  /** Offsets of the frames. */
  offsets: Uint32Array;
  /** Length of frame and record. */
  framedBytes: Uint32Array;
  /** See recordExtra. */
  extras: Uint32Array;
  /** The UPDATE records themselves, contiguous and in order, each as long as its frame says. */
  updates: Uint8Array;
}

/** Builds the columns record by record. */
class ColumnWriter {
  count = 0;
  kinds: Uint8Array;
  ids: Float64Array;
  offsets: Uint32Array;
  framedBytes: Uint32Array;
  extras: Uint32Array;
  updates: Uint8Array;
  #updateBytes = 0;

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
    assert(i < this.kinds.length, "a column has room for each record");
    this.kinds[i] = kind;
    this.ids[i] = id;
    this.offsets[i] = offset;
    this.framedBytes[i] = framedBytes;
    this.extras[i] = extra;
  }

  addUpdate(bytes: Uint8Array, at: number, recordBytes: number): void {
    const start = this.#updateBytes;
    this.#updateBytes += recordBytes;
    if (this.#updateBytes > this.updates.length) {
      const larger = new Uint8Array(2 * this.updates.length + recordBytes);
      larger.set(this.updates);
      this.updates = larger;
    }
    assert(this.#updateBytes <= this.updates.length, "there is room for each update");
    this.updates.set(bytes.subarray(at, at + recordBytes), start);
  }

  #grow(): void {
    assert(this.count > this.kinds.length, "only full columns grow");
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
    assert(count <= kinds.length && this.#updateBytes <= this.updates.length, "columns have all their rows");
    return {
      count,
      kinds,
      ids,
      offsets,
      framedBytes,
      extras,
      updates: this.updates.slice(0, this.#updateBytes),
    };
  }
}

/**
 * The end of the records.
 * - `sealed`: with END.
 * - `zeros`: with the zeros written ahead.
 * - `short`: the file has lost its end.
 * - `bad`: with bytes at `at` that are not a record.
 */
type SegmentEnd = "sealed" | "zeros" | "short" | "bad";

export interface SegmentScan {
  number: number;
  fileBytes: number;
  header: SegmentHeader | HeaderProblem;
  /** Whether only zeros follow the header. */
  empty: boolean;
  columns: RecordColumns;
  /** The first and last sequence of the unbroken run from the beginning; 0 for none. */
  firstSequence: number;
  lastSequence: number;
  /** The highest sequence of any undamaged record, including those beyond damage. */
  highestSequence: number;
  end: SegmentEnd;
  /** Whether the segment is sealed and the next one existed. */
  promisesNext: boolean;
  /** End of the undamaged records. */
  at: number;
  /** Position of the last non-zero byte, if the end is bad. */
  lastNonZero: number;
  /** Explanation of the end, for the operator. */
  reason: string;
  /** Record that the bytes at a bad end seem to be; the file may have lost the rest of it. */
  claimedSequence: number;
  claimedRecordBytes: number;
  /**
   * The newest sequence that any undamaged record states to be durable, including those beyond
   * damage.
   */
  synced: number;
  /** The highest `oldest` of its END, MARK and DROP records. */
  oldest: number;
  /** The highest id in its header and its PUTs. */
  maxId: number;
  /** The highest id of a job's full record here, and when that job was put; 0 for none. */
  newestId: number;
  newestMs: number;
  /** The highest lent id according to the last END, MARK or DROP; -1 if there is none. */
  idsLent: number;
  /**
   * Number of undamaged records beyond the damage. Salvage uses them; otherwise they are only
   * evidence.
   */
  beyond: number;
  /** The lowest sequence of any undamaged record, and the number of such records. */
  lowestSequence: number;
  records: number;
  /** Positions of NOTE records. */
  notes: number[];
  /** The complete batches of a group. */
  batches: ScannedBatch[];
  /** The SETTING records, in order. */
  settings: ScannedSetting[];
  /** The records of batches, in order. */
  flows: ScannedFlow[];
  /** Whether jobs have attributes or were moved, which version 1 of the log could not express. */
  hasAttributes: boolean;
  /** Offset of the last record outside any batch; -1 for none. */
  strayAt: number;
  /** From the end of the undamaged records on: the ranges without one. */
  gaps: { at: number; bytes: number }[];
}

/** A complete batch in a segment. */
export interface ScannedBatch {
  header: LogBatchHeader;
  /** Offset of the frame of its LINK record, and the end of its last frame. */
  at: number;
  endsAt: number;
}

/** The state of a batch, or a tally. */
interface ScannedFlow {
  readonly facts: BatchFacts | undefined;
  readonly tally: Tally | undefined;
  readonly offset: number;
  readonly framedBytes: number;
}

interface ScannedSetting {
  pattern: string;
  /** The settings; "" removes them. */
  text: string;
  /** Position and length of the frame. */
  offset: number;
  framedBytes: number;
}

function firstNonZero(bytes: Uint8Array, from: number): number {
  if (from >= bytes.length) return -1;
  let at = from;
  // Eight bytes at a time: most of a fresh segment is zeros.
  const aligned = (8 - ((bytes.byteOffset + at) & 7)) & 7;
  for (const stop = Math.min(bytes.length, at + aligned); at < stop; at++) if (bytes[at] !== 0) return at;
  const words = new Float64Array(
    bytes.buffer,
    bytes.byteOffset + at,
    Math.floor(Math.max(0, bytes.length - at) / 8),
  );
  // A double equals 0 even if only its sign bit is set; Object.is tells -0 from 0.
  let i = 0;
  while (i < words.length && Object.is(words[i], 0)) i++;
  for (at += 8 * i; at < bytes.length; at++) if (bytes[at] !== 0) return at;
  return -1;
}

/** Scans the whole content of a segment file. Never throws: damage is part of the result. */
export function scanSegment(bytes: Uint8Array, number: number, keepBeyond: boolean): SegmentScan {
  const scan = emptyScan(bytes, number);
  new SegmentScanner(scan, bytes, keepBeyond).run();
  return scan;
}

function emptyScan(bytes: Uint8Array, number: number): SegmentScan {
  return {
    number,
    fileBytes: bytes.length,
    header: decodeHeader(bytes),
    empty: firstNonZero(bytes, HEADER_BYTES) < 0,
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
    newestId: 0,
    newestMs: 0,
    idsLent: -1,
    beyond: 0,
    lowestSequence: 0,
    records: 0,
    notes: [],
    batches: [],
    settings: [],
    flows: [],
    hasAttributes: false,
    strayAt: -1,
    gaps: [],
  };
}

/**
 * Judges a bad end that looks like the expected record. Zeros precede every write, so a record that
 * reaches beyond the end of the file means that the file was longer. The first record of a segment
 * can only be judged with knowledge of the previous segment, so the caller repeats this then.
 */
export function judgeClaim(scan: SegmentScan, expectedSequence: number): void {
  assert(scan.at >= HEADER_BYTES, "a claim lies after the header");
  const inPlace = scan.claimedSequence === expectedSequence && scan.claimedRecordBytes <= MAX_STORED_BYTES;
  scan.reason = inPlace ? "its checksum does not match" : "it is not a record";
  if (!inPlace || scan.at + FRAME_BYTES + scan.claimedRecordBytes <= scan.fileBytes - END_BYTES) return;
  scan.end = "short";
  scan.reason = `the record there has ${scan.claimedRecordBytes} bytes, but the file ends before them`;
}

class SegmentScanner {
  readonly #scan: SegmentScan;
  readonly #memory: Memory;
  readonly #columns: ColumnWriter;
  readonly #keepBeyond: boolean;

  constructor(scan: SegmentScan, bytes: Uint8Array, keepBeyond: boolean) {
    this.#scan = scan;
    this.#memory = new Memory(bytes);
    this.#columns = new ColumnWriter(bytes.length);
    this.#keepBeyond = keepBeyond;
  }

  run(): void {
    const scan = this.#scan;
    const { header } = scan;
    if ("problem" in header) {
      scan.reason = `its header is incomplete (${header.problem})`;
      if (scan.fileBytes > HEADER_BYTES && header.problem !== "version") this.#scanBlindly();
    } else {
      scan.oldest = header.oldest;
      scan.maxId = header.maxId;
      scan.at = this.#takeUnbroken(header.salt);
      scan.lowestSequence = scan.firstSequence;
      scan.highestSequence = scan.lastSequence;
      if (scan.end === "bad") this.#judgeEnd();
      if (scan.end === "bad" || scan.end === "short") this.#searchBeyond(scan.at, header.salt);
    }
    assert(scan.at <= scan.fileBytes, "the found records end inside their file");
    assert(this.#columns.count <= scan.records, "only found records are booked");
    scan.columns = this.#columns.done();
  }

  /**
   * Handles a damaged header: tries its salt anyway, since records that match the salt prove it.
   */
  #scanBlindly(): void {
    this.#searchBeyond(HEADER_BYTES, this.#memory.view.getUint32(36, true));
    this.#scan.at = this.#scan.fileBytes;
  }

  /** Takes consecutive records up to END; returns where they stop. */
  #takeUnbroken(salt: number): number {
    const scan = this.#scan;
    const memory = this.#memory;
    let at = HEADER_BYTES;
    while (scan.end === "bad" && frameIsWhole(memory, at, salt)) {
      const sequence = frameSequence(memory.view, at);
      if (scan.lastSequence !== 0 && sequence !== scan.lastSequence + 1) break;
      const recordBytes = memory.view.getUint32(at + 4, true);
      if (!recordIsKnown(memory.bytes, at + FRAME_BYTES, recordBytes)) break;
      this.#noteBatch(at, recordBytes);
      if (scan.firstSequence === 0) scan.firstSequence = sequence;
      scan.lastSequence = sequence;
      scan.records++;
      this.#take(at, recordBytes);
      at += FRAME_BYTES + recordBytes;
    }
    assert(at <= memory.bytes.length, "complete records end inside their file");
    return at;
  }

  /** Number of frames that the current batch still needs, and where it began. */
  #framesLeft = 0;
  #batchAt = 0;

  /** Handles an undamaged frame at `at`, in sequence: begins, continues or ends a batch. */
  #noteBatch(at: number, recordBytes: number): void {
    const { bytes, view } = this.#memory;
    const { batches } = this.#scan;
    const record = at + FRAME_BYTES;
    if (bytes[record] === OwnKind.link) {
      this.#batchAt = at;
      this.#framesLeft = view.getUint32(record + 56, true);
    } else if (this.#framesLeft > 0) this.#framesLeft--;
    else {
      this.#scan.strayAt = at;
      return;
    }
    if (this.#framesLeft > 0) return;
    assert(this.#batchAt >= HEADER_BYTES, "a batch lies after the header");
    const header = decodeLogBatchHeader(view, this.#batchAt + FRAME_BYTES);
    batches.push({ header, at: this.#batchAt, endsAt: record + recordBytes });
  }

  /** Books one undamaged record. */
  #take(at: number, recordBytes: number): void {
    const scan = this.#scan;
    const { bytes, view } = this.#memory;
    const record = at + FRAME_BYTES;
    const synced = frameSynced(view, at);
    if (synced > scan.synced) scan.synced = synced;
    const kind = bytes[record]!;
    if (isSetting(kind)) {
      const setting = settingOf(this.#memory, record, recordBytes);
      scan.settings.push({ ...setting, offset: at, framedBytes: FRAME_BYTES + recordBytes });
      return;
    }
    if (this.#takeFlow(kind, at, recordBytes)) return;
    if (kind < OwnKind.end) {
      const id = view.getFloat64(record + RECORD_ID_AT, true);
      if (isFull(kind)) this.#takeId(id, record);
      if (isUpdate(kind)) this.#columns.addUpdate(bytes, record, recordBytes);
      scan.hasAttributes ||= isBeyondVersion1(view, record);
      assert(at + FRAME_BYTES + recordBytes <= bytes.length, "a booked record lies in its file");
      const extra = recordExtra(this.#memory, record, recordBytes);
      this.#columns.add(kind, id, at, FRAME_BYTES + recordBytes, extra);
      return;
    }
    if (kind === OwnKind.link) {
      const header = decodeLogBatchHeader(view, record);
      scan.idsLent = header.idsLent;
      return;
    }
    if (kind === OwnKind.note) {
      scan.notes.push(at);
      return;
    }
    scan.oldest = Math.max(scan.oldest, view.getUint32(record + 4, true));
    scan.idsLent = view.getFloat64(record + 8, true);
    if (kind === OwnKind.end) {
      scan.end = "sealed";
      scan.promisesNext = bytes[record + 1] === 1;
      scan.reason = "sealed";
    }
  }

  /** Notes the id of a full record, and when the newest job was put. */
  #takeId(id: number, record: number): void {
    const scan = this.#scan;
    if (id > scan.maxId) scan.maxId = id;
    if (id <= scan.newestId || !isJob(this.#memory, record)) return;
    scan.newestId = id;
    scan.newestMs = createdAtMsOf(this.#memory.view, record);
  }

  /** Collects a record of a batch. Returns true if the record changes no job. */
  #takeFlow(kind: number, offset: number, recordBytes: number): boolean {
    const record = offset + FRAME_BYTES;
    const place = { offset, framedBytes: FRAME_BYTES + recordBytes };
    const scan = this.#scan;
    assert(record + recordBytes <= this.#memory.bytes.length, "a record of a flow lies in its file");
    if (isBatch(kind)) {
      const facts = decodeBatch(this.#memory, record);
      scan.flows.push({ facts, tally: undefined, ...place });
      scan.maxId = Math.max(scan.maxId, facts.number);
      return true;
    }
    if (!isTally(kind)) return false;
    const { view } = this.#memory;
    scan.flows.push({ facts: undefined, tally: decodeTally(view, record), ...place });
    return view.getFloat64(record + RECORD_ID_AT, true) === 0;
  }

  /**
   * Classifies the end at `scan.at`, where there is no valid record: the end of the written data, a
   * file that lost its end, or damage.
   */
  #judgeEnd(): void {
    const scan = this.#scan;
    const { bytes, view } = this.#memory;
    const rest = bytes.length - scan.at;
    assert(rest >= 0 && scan.at >= HEADER_BYTES, "an end lies after the header");
    if (rest < SPARE_BYTES) {
      scan.end = "short";
      scan.reason = `the file ends ${rest} bytes after its last complete record, and was longer`;
      return;
    }
    if (firstNonZero(bytes, scan.at) < 0) {
      scan.end = "zeros";
      scan.reason = "end of the written data";
      return;
    }
    scan.claimedSequence = frameSequence(view, scan.at);
    scan.claimedRecordBytes = view.getUint32(scan.at + 4, true);
    if (scan.lastSequence !== 0) judgeClaim(scan, scan.lastSequence + 1);
    else scan.reason = "not a record";
  }

  /**
   * Searches every byte beyond the damage for undamaged records that belong there, except the zeros
   * after the last of them.
   */
  #searchBeyond(from: number, salt: number): void {
    assert(from >= HEADER_BYTES, "records beyond an end lie after the header");
    const scan = this.#scan;
    const { bytes } = this.#memory;
    for (let i = bytes.length - 1; i >= from && scan.lastNonZero === 0; i--)
      if (bytes[i] !== 0) scan.lastNonZero = i;
    const stop = Math.min(bytes.length - FRAME_BYTES, scan.lastNonZero);
    let at = from;
    let gapAt = from;
    while (at <= stop) {
      const distance = this.#takeBeyond(at, salt);
      const isRecord = distance > 1;
      if (isRecord && at > gapAt) scan.gaps.push({ at: gapAt, bytes: at - gapAt });
      at += distance;
      if (isRecord) gapAt = at;
    }
    if (gapAt < bytes.length) scan.gaps.push({ at: gapAt, bytes: bytes.length - gapAt });
  }

  /**
   * Takes an undamaged record at `at` beyond the damage; returns the distance to the next position
   * to check.
   */
  #takeBeyond(at: number, salt: number): number {
    const scan = this.#scan;
    const memory = this.#memory;
    const last = scan.highestSequence;
    const recordBytes = memory.view.getUint32(at + 4, true);
    const sequence = frameSequence(memory.view, at);
    // Cheap checks first: nearly every offset fails them.
    const possible =
      recordBytes > 0 && (last === 0 || (sequence > last && sequence - last < memory.bytes.length));
    if (!possible || !frameIsWhole(memory, at, salt)) return 1;
    if (!recordIsKnown(memory.bytes, at + FRAME_BYTES, recordBytes)) return 1;
    scan.beyond++;
    scan.records++;
    if (scan.lowestSequence === 0) scan.lowestSequence = sequence;
    scan.highestSequence = sequence;
    // A record beyond damage must not decide which segments count: the records before it may be
    // lost.
    const { end, oldest } = scan;
    if (this.#keepBeyond) this.#take(at, recordBytes);
    else scan.synced = Math.max(scan.synced, frameSynced(memory.view, at));
    scan.end = end;
    scan.oldest = oldest;
    return FRAME_BYTES + recordBytes;
  }
}

// Reads one segment from its file and scans it.

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
