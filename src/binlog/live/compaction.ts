// Reclaims disk space: copies the live records out of the oldest segment, in slices, then drops the
// segment.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes, Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import { forgetTallied } from "../../message/flow-record.ts";
import {
  applyUpdate,
  mergeHead,
  PIECE_HEADER_BYTES,
  RECORD_ID_AT,
  recordHeadBytes,
  UPDATE_BYTES_MAX,
  updateHasTail,
} from "../../message/record.ts";
import { BinlogError, isDescriptorShortage, systemCode } from "../disk/binlog-error.ts";
import { type Disk, type Handle, readFully } from "../disk/disk.ts";
import type { RecordIndex, Segment, SegmentTable } from "../segments/books.ts";
import {
  FRAME_BYTES,
  frameIsWhole,
  HEADER_BYTES,
  isFull,
  isTally,
  MAX_FRAMED_BYTES,
  MAX_STORED_BYTES,
  OwnKind,
} from "../segments/segment-format.ts";
import { DamagedSegment } from "./damaged-segment.ts";
import type { LogCut } from "./log-cut.ts";
import type { LogWriter, Restater, StorageOptions } from "./log-writer.ts";

// Reads records back for compaction while the log is in use, with few open files.

const OPEN_FILES = 16;

class SegmentReader {
  readonly #disk: Disk;
  /** Whether bytes that the disk can't read count as damage, which is repaired. */
  readonly #toleratesErrors: boolean;
  /** In order of opening. */
  readonly #open = new Map<number, Handle>();
  readonly #update: Memory = Memory.ofSize(FRAME_BYTES + UPDATE_BYTES_MAX);

  constructor(disk: Disk, toleratesErrors: boolean) {
    this.#disk = disk;
    this.#toleratesErrors = toleratesErrors;
  }

  #handleOf(segment: Segment): Handle {
    if (segment.handle !== undefined) return segment.handle;
    const open = this.#open.get(segment.number);
    if (open !== undefined) return open;
    if (this.#open.size >= OPEN_FILES) this.#forgetFirst();
    const handle = this.#openFile(segmentName(segment.number));
    this.#open.set(segment.number, handle);
    assert(this.#open.size <= OPEN_FILES, "few files are open");
    return handle;
  }

  /** If no descriptor is left, closes open files to get one. */
  #openFile(name: string): Handle {
    for (;;) {
      try {
        return this.#disk.open(name, "read");
      } catch (error) {
        if (!isDescriptorShortage(error) || this.#open.size === 0) throw error;
        this.#forgetFirst();
      }
    }
  }

  #forgetFirst(): void {
    assert(this.#open.size > 0, "there is a file to close");
    this.forget(this.#open.keys().next().value!);
  }

  forget(number: number): void {
    const handle = this.#open.get(number);
    if (handle === undefined) return;
    this.#open.delete(number);
    this.#disk.close(handle);
  }

  close(): void {
    for (const number of [...this.#open.keys()]) this.forget(number);
    assert(this.#open.size === 0, "a closed reader has no open file");
  }

  read(segment: Segment, into: Uint8Array, length: number, position: number): number {
    assert(length <= into.length, "the bytes to read fit into their memory");
    assert(position >= HEADER_BYTES, "records lie after the header");
    const handle = this.#handleOf(segment);
    try {
      return readFully(this.#disk, handle, into, 0, length, position);
    } catch (error) {
      if (!this.#toleratesErrors || systemCode(error) !== "EIO") throw error;
      return 0;
    }
  }

  /**
   * Returns memory with an UPDATE record at FRAME_BYTES, valid until the next call; undefined if
   * the record is damaged.
   */
  readUpdate(segment: Segment, offset: number): Memory | undefined {
    const { bytes } = this.#update;
    // Most updates have no tail, and end long before the buffer does.
    const got = this.read(segment, bytes, bytes.length, offset);
    return got > FRAME_BYTES && frameIsWhole(this.#update, 0, segment.salt) ? this.#update : undefined;
  }

  damaged(segment: Segment, offset: number): never {
    throw new BinlogError(
      "BINLOG_CORRUPT",
      `A durable record is damaged: ${this.#disk.path}/${segmentName(segment.number)} at offset ${offset}`,
      `Stop using that disk. Copy the directory, then start with --salvage, or check it with: runnerbean binlog verify ${this.#disk.path}`,
    );
  }
}

/**
 * Compaction starts when sealed segments take this many times the live bytes. The documented bound
 * is 2.
 */
const TOLERATED = 1.5;
const CHUNK_BYTES = 2 * MAX_FRAMED_BYTES;
/** Delay before the next check whether the shared log has a DROP. */
const LOOK_MS = 5;

export class Compaction {
  readonly #disk: Disk;
  readonly #table: SegmentTable;
  readonly #index: RecordIndex;
  readonly #tail: LogWriter;
  /** Keeps segments that a backup still reads. */
  readonly #cut: LogCut;
  readonly #reader: SegmentReader;
  readonly #chunk: Memory = Memory.ofSize(CHUNK_BYTES);
  /** A job whose head has changed in length. */
  readonly #merged: Memory = Memory.ofSize(MAX_STORED_BYTES);
  #segment = 0;
  #position = 0;
  #dropSequence = 0;
  /** The batch that holds the current DROP, or a later one; 0 until it is written. */
  #dropBatch = 0;
  /** Whether the dropped file is removed, but perhaps not durably. */
  #unlinked = false;
  readonly #restater: Restater | undefined;
  readonly #notice: StorageOptions["notice"];
  /** The oldest segment, once damage was met in it. */
  #damaged: DamagedSegment | undefined;
  /** For how long the next slice must wait, in ms. */
  restMs = 0;

  constructor({ disk, restater, notice }: StorageOptions, tail: LogWriter, cut: LogCut) {
    this.#disk = disk;
    this.#restater = restater;
    this.#notice = notice;
    this.#table = tail.table;
    this.#index = tail.index;
    this.#tail = tail;
    this.#cut = cut;
    this.#reader = new SegmentReader(disk, restater !== undefined);
  }

  /**
   * Returns whether the oldest segment, which must be sealed, should be compacted, also if the log
   * is `full`.
   */
  isWanted(full: boolean): boolean {
    const table = this.#table;
    const tail = this.#tail;
    const { softLimitBytes } = tail.segments;
    const oldest = table.oldest;
    assert(oldest?.sealed === true, "only sealed segments are compacted");
    if (oldest.liveBytes === 0) return true;
    if (!tail.hasRoomFor(oldest.liveBytes)) return false;
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
    return full && this.deadBytes > softLimitBytes / 8;
  }

  /** Bytes that a rewrite of everything would reclaim. */
  get deadBytes(): number {
    const table = this.#table;
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
    const { oldest } = this.#table;
    assert(oldest?.sealed === true, "only a sealed segment is compacted");
    assert(budgetBytes > 0, "a step of compaction has bytes");
    if (this.#segment !== oldest.number) {
      this.#segment = oldest.number;
      this.#position = HEADER_BYTES;
    }
    const stopAt = this.#position + budgetBytes;
    assert(this.#position <= oldest.usedBytes, "compaction stays in its segment");
    this.restMs = 0;
    while (oldest.liveBytes > 0 && this.#position < stopAt && this.#damaged === undefined) {
      const damagedAt = this.#chunkful(oldest);
      if (damagedAt > 0) this.#onDamage(oldest, damagedAt);
      if (late()) break;
    }
    if (oldest.liveBytes > 0 && this.#damaged !== undefined) this.restMs = this.#damaged.step(late);
    return oldest.liveBytes === 0;
  }

  /** Continues record by record, as the index knows them, if the shards can repair the segment. */
  #onDamage(segment: Segment, offset: number): void {
    const restater = this.#restater;
    if (restater === undefined) this.#reader.damaged(segment, offset);
    const copy = (kept: { offset: number; framedBytes: number }): boolean => {
      const { bytes, view } = this.#chunk;
      const recordBytes = kept.framedBytes - FRAME_BYTES;
      const got = this.#reader.read(segment, bytes, kept.framedBytes, kept.offset);
      const isThere = got === kept.framedBytes && view.getUint32(4, true) === recordBytes;
      return isThere && this.#consider(segment, kept.offset, 0, recordBytes);
    };
    this.#damaged = new DamagedSegment({ segment, index: this.#index, tail: this.#tail, restater, copy });
    const message = `${this.#disk.path}/${segmentName(segment.number)} is damaged at offset ${offset}: its jobs are written again`;
    this.#notice({ level: "warn", code: "BINLOG_DAMAGED", message });
  }

  /** Returns the offset of damage; 0 if there is none. */
  #chunkful(segment: Segment): number {
    const reader = this.#reader;
    assert(this.#position >= HEADER_BYTES, "compaction begins after the header");
    assert(this.#position <= segment.usedBytes, "compaction ends with the last record");
    const length = Math.min(CHUNK_BYTES, segment.usedBytes - this.#position);
    const got = length > FRAME_BYTES ? reader.read(segment, this.#chunk.bytes, length, this.#position) : 0;
    let at = 0;
    while (at + FRAME_BYTES <= got) {
      const recordBytes = this.#chunk.view.getUint32(at + 4, true);
      if (at + FRAME_BYTES + recordBytes > got) break;
      const offset = this.#position + at;
      if (recordBytes === 0 || !this.#consider(segment, offset, at, recordBytes)) return offset;
      at += FRAME_BYTES + recordBytes;
    }
    // The books claim a live record here, but no record follows.
    if (at === 0) return this.#position;
    this.#position += at;
    return 0;
  }

  /**
   * Copies the record at `at` of the chunk, which is at `offset` of the segment, if it is live.
   * Returns false if it or its latest update is damaged.
   */
  #consider(segment: Segment, offset: number, at: number, recordBytes: number): boolean {
    const index = this.#index;
    const record = at + FRAME_BYTES;
    if (!index.isLive(this.#chunk, record, segment.number, offset)) return this.#damaged === undefined;
    const whole = frameIsWhole(this.#chunk, at, segment.salt);
    if (!whole || recordBytes < PIECE_HEADER_BYTES) return false;
    const id = this.#chunk.view.getFloat64(record + RECORD_ID_AT, true);
    const updateSegment = isFull(this.#chunk.bytes[record]!) ? index.updateSegmentOf(id) : 0;
    if (isTally(this.#chunk.bytes[record]!)) forgetTallied(this.#chunk.view, record);
    if (updateSegment === 0) this.#tail.migrate(this.#chunk.bytes, record, recordBytes);
    else {
      const updated = this.#table.get(updateSegment);
      assert(updated !== undefined, "the latest update of a live job is in the log");
      const update = this.#reader.readUpdate(updated, index.updateOffsetOf(id));
      if (update === undefined) return false;
      this.#migrateUpdated(record, recordBytes, update);
    }
    if (CHECKED)
      assert(!index.isLive(this.#chunk, record, segment.number, offset), "a copy replaces its record");
    return true;
  }

  /** Copies a job's full record in the state of its latest update. */
  #migrateUpdated(record: number, recordBytes: number, update: Memory): void {
    const chunk = this.#chunk;
    if (!updateHasTail(chunk.view, record, update.view, FRAME_BYTES)) {
      applyUpdate(chunk.view, record, update.view, FRAME_BYTES);
      this.#tail.migrate(chunk.bytes, record, recordBytes);
      return;
    }
    const merged = this.#merged;
    const headBytes = recordHeadBytes(chunk.view, record);
    const bodyAt = mergeHead(merged, chunk, record, update, FRAME_BYTES);
    copyBytes(merged.bytes, bodyAt, chunk.bytes, record + headBytes, recordBytes - headBytes);
    assert(bodyAt + recordBytes - headBytes <= MAX_STORED_BYTES, "a merged record fits into a frame");
    this.#tail.migrate(merged.bytes, 0, bodyAt + recordBytes - headBytes);
  }

  // --- the end of a segment whose live records are appended again --------------------------------
  //
  // First the log states this with a DROP. The file goes only when that DROP is durable and, in a
  // group, when the shared log has it.

  /** Appends the DROP of the oldest segment, which has no live records left. */
  beginDrop(): void {
    const tail = this.#tail;
    const { oldest } = this.#table;
    assert(tail.dropping === 0, "one segment is dropped at a time");
    assert(oldest?.sealed === true && oldest.liveBytes === 0, "nothing in a dropped segment is live");
    tail.makeOwnFit();
    tail.makeOwnRoom();
    // Nothing may fail from here on: only a DROP in the log drops a segment.
    this.#dropBatch = 0;
    tail.dropping = oldest.number;
    tail.oldest = tail.dropping + 1;
    tail.appendOwn(OwnKind.drop);
    this.#dropSequence = tail.sequence;
  }

  /**
   * Removes the segment once its DROP is durable; returns false while the shared log lacks the
   * DROP.
   */
  finishDrop(nowMs: number): boolean {
    const tail = this.#tail;
    assert(tail.dropping !== 0, "only a started drop ends");
    if (tail.syncedSequence < this.#dropSequence) tail.syncAll(nowMs, false);
    if (!this.#dropIsAcknowledged()) return false;
    this.#removeOldest();
    return true;
  }

  /** Does the same outside a group, where no acknowledgement is needed. */
  finishDropNow(nowMs: number): void {
    assert(this.#tail.dropping !== 0, "only a started drop ends at once");
    this.#tail.syncAll(nowMs, false);
    this.#removeOldest();
  }

  /**
   * In a group, a segment is needed until the shared log has all copies, and the DROP after them.
   */
  #dropIsAcknowledged(): boolean {
    const { chain } = this.#tail;
    if (chain === undefined) return true;
    this.#dropBatch ||= chain.place.n;
    assert(this.#dropBatch > 0, "a DROP is in a batch");
    return chain.isAcknowledged(this.#dropBatch);
  }

  #removeOldest(): void {
    const { number } = this.#table.oldest!;
    assert(number === this.#tail.dropping, "only the oldest segment is dropped");
    assert(this.#tail.syncedSequence >= this.#dropSequence, "a DROP is durable before its segment goes");
    this.#reader.forget(number);
    if (this.#damaged !== undefined) {
      const message = `${this.#disk.path}/${segmentName(number)} was damaged and is no longer needed: ${this.#damaged.report}`;
      this.#notice({ level: "info", code: "BINLOG_REPAIRED", message });
      this.#damaged = undefined;
    }
    // A quota may refuse even this. The table drops the segment only afterwards, so each step can
    // be retried.
    if (!this.#unlinked && !this.#cut.keeps(number)) this.#disk.unlink(segmentName(number));
    this.#unlinked = true;
    this.#disk.syncFolder();
    this.#unlinked = false;
    this.#table.removeOldest();
    this.#tail.dropping = 0;
  }

  /**
   * Time of the next check whether the shared log has the DROP; undefined if there is nothing to
   * wait for.
   */
  dropLookAtMs(nowMs: number): number | undefined {
    return this.#tail.chain === undefined || this.#dropBatch === 0 ? undefined : nowMs + LOOK_MS;
  }

  close(): void {
    this.#reader.close();
  }
}
