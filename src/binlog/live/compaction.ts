// Reclaims disk space: copies the live records out of the oldest segment, in slices, then drops the
// segment.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import { forgetTallied } from "../../message/flow-record.ts";
import {
  applyUpdate,
  mergeHead,
  PIECE_HEADER_BYTES,
  RECORD_ID_AT,
  recordHeadBytes,
  updateHasTail,
} from "../../message/record.ts";
import type { RecordIndex } from "../books/record-index.ts";
import type { Segment, SegmentTable } from "../books/segment-table.ts";
import { isFull, isTally } from "../format/record-kinds.ts";
import {
  FRAME_BYTES,
  frameIsWhole,
  HEADER_BYTES,
  MAX_FRAMED_BYTES,
  MAX_STORED_BYTES,
} from "../format/segment-format.ts";
import type { LogTail } from "./log-tail.ts";
import type { SegmentReader } from "./segment-reader.ts";

/**
 * Compaction starts when sealed segments take this many times the live bytes. The documented bound
 * is 2.
 */
const TOLERATED = 1.5;
const CHUNK_BYTES = 2 * MAX_FRAMED_BYTES;

export interface CompactionHost {
  readonly table: SegmentTable;
  readonly index: RecordIndex;
  readonly reader: SegmentReader;
  /** Whether the log can get no more room. */
  readonly full: boolean;
  /** Returns whether that many bytes can be copied without running out of room. */
  hasRoomFor(bytes: number): boolean;
  /** Appends a copy of a record to the log. */
  migrate(bytes: Uint8Array, start: number, length: number): void;
}

export class Compaction {
  readonly #host: CompactionHost;
  readonly #tail: LogTail;
  readonly #chunk: Memory = Memory.ofSize(CHUNK_BYTES);
  /** A job whose head has changed in length. */
  readonly #merged: Memory = Memory.ofSize(MAX_STORED_BYTES);
  #segment = 0;
  #position = 0;

  constructor(host: CompactionHost, tail: LogTail) {
    this.#host = host;
    this.#tail = tail;
  }

  /** Whether the oldest segment should be compacted. */
  get wanted(): boolean {
    const { table } = this.#host;
    const tail = this.#tail;
    const { softLimitBytes } = tail.segments;
    const oldest = table.oldest;
    if (oldest === undefined || !oldest.sealed) return false;
    if (oldest.liveBytes === 0) return true;
    if (!this.#host.hasRoomFor(oldest.liveBytes)) return false;
    if (oldest.number < tail.rewriteBelow) return true;
    if (table.sealedBytes > TOLERATED * table.liveBytes) return true;
    // Until the segment is gone, its live bytes are there twice. Where most of them lie in one
    // segment, half of them is less than that.
    const isTight = tail.promisedBytes < oldest.liveBytes + tail.growthBytes;
    if (isTight && this.deadBytes > softLimitBytes / 4) return true;
    // Each restart leaves a short segment behind; a thousand restarts must not leave a thousand
    // files.
    if (table.sealedCount > 8 + (2 * table.sealedBytes) / softLimitBytes) return true;
    // On a full disk, all dead bytes count if they exceed the rounding.
    return this.#host.full && this.deadBytes > softLimitBytes / 8;
  }

  /** Bytes that a rewrite of everything would reclaim. */
  get deadBytes(): number {
    const { table } = this.#host;
    let usedBytes = table.sealedBytes;
    for (const segment of table.all.slice(table.sealedCount)) usedBytes += segment.usedBytes - HEADER_BYTES;
    assert(usedBytes >= table.liveBytes, "dead bytes are never negative");
    return usedBytes - table.liveBytes;
  }

  /**
   * Processes up to this many bytes of the oldest segment, at least one record, and stops early
   * once `late` returns true. Returns true when all its live records are appended; the segment may
   * be dropped once they are durable.
   */
  step(budgetBytes: number, late: () => boolean): boolean {
    const { oldest } = this.#host.table;
    assert(oldest?.sealed === true, "only a sealed segment is compacted");
    assert(budgetBytes > 0, "a step of compaction has bytes");
    if (this.#segment !== oldest.number) {
      this.#segment = oldest.number;
      this.#position = HEADER_BYTES;
    }
    const stopAt = this.#position + budgetBytes;
    assert(this.#position <= oldest.usedBytes, "compaction stays in its segment");
    while (oldest.liveBytes > 0 && this.#position < stopAt) {
      this.#chunkful(oldest);
      if (late()) break;
    }
    return oldest.liveBytes === 0;
  }

  #chunkful(segment: Segment): void {
    const { reader } = this.#host;
    assert(this.#position >= HEADER_BYTES, "compaction begins after the header");
    assert(this.#position <= segment.usedBytes, "compaction ends with the last record");
    const length = Math.min(CHUNK_BYTES, segment.usedBytes - this.#position);
    const got = length > FRAME_BYTES ? reader.read(segment, this.#chunk.bytes, length, this.#position) : 0;
    let at = 0;
    while (at + FRAME_BYTES <= got) {
      const recordBytes = this.#chunk.view.getUint32(at + 4, true);
      if (at + FRAME_BYTES + recordBytes > got) break;
      if (recordBytes === 0) reader.damaged(segment, this.#position + at);
      this.#consider(segment, at, recordBytes);
      at += FRAME_BYTES + recordBytes;
    }
    // The books claim a live record here, but no record follows.
    if (at === 0) reader.damaged(segment, this.#position);
    this.#position += at;
  }

  #consider(segment: Segment, at: number, recordBytes: number): void {
    const { index, table, reader } = this.#host;
    const offset = this.#position + at;
    const record = at + FRAME_BYTES;
    if (!index.isLive(this.#chunk, record, segment.number, offset)) return;
    const whole = frameIsWhole(this.#chunk, at, segment.salt);
    if (!whole || recordBytes < PIECE_HEADER_BYTES) reader.damaged(segment, offset);
    const id = this.#chunk.view.getFloat64(record + RECORD_ID_AT, true);
    const updateSegment = isFull(this.#chunk.bytes[record]!) ? index.updateSegmentOf(id) : 0;
    if (isTally(this.#chunk.bytes[record]!)) forgetTallied(this.#chunk.view, record);
    if (updateSegment === 0) this.#host.migrate(this.#chunk.bytes, record, recordBytes);
    else {
      const updated = table.get(updateSegment);
      assert(updated !== undefined, "the latest update of a live job is in the log");
      const update = reader.readUpdate(updated, index.updateOffsetOf(id));
      this.#migrateUpdated(record, recordBytes, update);
    }
    if (CHECKED)
      assert(!index.isLive(this.#chunk, record, segment.number, offset), "a copy replaces its record");
  }

  /** Copies a job's full record in the state of its latest update. */
  #migrateUpdated(record: number, recordBytes: number, update: Memory): void {
    const chunk = this.#chunk;
    if (!updateHasTail(chunk.view, record, update.view, FRAME_BYTES)) {
      applyUpdate(chunk.view, record, update.view, FRAME_BYTES);
      this.#host.migrate(chunk.bytes, record, recordBytes);
      return;
    }
    const merged = this.#merged;
    const headBytes = recordHeadBytes(chunk.view, record);
    const bodyAt = mergeHead(merged, chunk, record, update, FRAME_BYTES);
    copyBytes(merged.bytes, bodyAt, chunk.bytes, record + headBytes, recordBytes - headBytes);
    assert(bodyAt + recordBytes - headBytes <= MAX_STORED_BYTES, "a merged record fits into a frame");
    this.#host.migrate(merged.bytes, 0, bodyAt + recordBytes - headBytes);
  }
}
