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
import { BinlogError, isDescriptorShortage } from "../disk/binlog-error.ts";
import { type Disk, type Handle, readFully } from "../disk/disk.ts";
import type { RecordIndex, Segment, SegmentTable } from "../segments/books.ts";
import { isFull, isTally } from "../segments/record-kinds.ts";
import {
  FRAME_BYTES,
  frameIsWhole,
  HEADER_BYTES,
  MAX_FRAMED_BYTES,
  MAX_STORED_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  SPARE_BYTES,
} from "../segments/segment-format.ts";
import type { LogCut } from "./log-cut.ts";
import type { LogWriter } from "./log-writer.ts";
import type { StorageNotice } from "./storage-options.ts";

// Reads records back for compaction while the log is in use, with few open files.

const OPEN_FILES = 16;

export class SegmentReader {
  readonly #disk: Disk;
  /** In order of opening. */
  readonly #open = new Map<number, Handle>();
  readonly #update: Memory = Memory.ofSize(FRAME_BYTES + UPDATE_BYTES_MAX);

  constructor(disk: Disk) {
    this.#disk = disk;
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
    return readFully(this.#disk, this.#handleOf(segment), into, 0, length, position);
  }

  /** Returns memory with an UPDATE record at FRAME_BYTES; valid until the next call. */
  readUpdate(segment: Segment, offset: number): Memory {
    const { bytes } = this.#update;
    // Most updates have no tail, and end long before the buffer does.
    this.read(segment, bytes, bytes.length, offset);
    if (!frameIsWhole(this.#update, 0, segment.salt)) this.damaged(segment, offset);
    return this.#update;
  }

  damaged(segment: Segment, offset: number): never {
    throw new BinlogError(
      "BINLOG_CORRUPT",
      `A durable record is damaged: ${this.#disk.path}/${segmentName(segment.number)} at offset ${offset}`,
      `Stop using that disk. Copy the directory, then start with --salvage, or check it with: runnerbean binlog verify ${this.#disk.path}`,
    );
  }
}

// State of the log's room: whether there is any, what to refuse without it, and when to check
// again. Reports each change once.

/** Delay before the next attempt. */
export const RETRY_ROOM_MS = 1000;

export class RoomShortage {
  readonly #path: string;
  readonly #notice: (notice: StorageNotice) => void;
  /** Whether puts must be refused. */
  full = false;
  /** Whether nothing can be written until there is room. */
  waiting = false;
  /** Time of the next attempt to make room while the log is full. */
  retryAtMs = Number.POSITIVE_INFINITY;
  /** Time of the next attempt to write while the log waits. */
  resumeAtMs = 0;

  constructor(path: string, notice: (notice: StorageNotice) => void) {
    this.#path = path;
    this.#notice = notice;
  }

  /** Records that no room could be made. `code` is the system's, or "" for none. */
  begin(nowMs: number, code: string): void {
    if (code === "") return;
    this.retryAtMs = nowMs + RETRY_ROOM_MS;
    if (this.full) return;
    this.full = true;
    const what = code.endsWith("FILE") ? "There are no file descriptors left" : "The disk is full";
    const message = `${what} (${code}): puts are refused until there is room in ${this.#path}`;
    this.#notice({ level: "error", code: "BINLOG_FULL", message });
  }

  /** Records that the log has all the room it wants. */
  end(): void {
    assert(!this.waiting, "a waiting log has no room");
    this.retryAtMs = Number.POSITIVE_INFINITY;
    if (!this.full) return;
    this.full = false;
    const message = `There is room again in ${this.#path}: puts are accepted`;
    this.#notice({ level: "info", code: "BINLOG_ROOM", message });
  }

  /** Records that a write found no room. */
  wait(nowMs: number, code: string): void {
    assert(code !== "", "a wait has a reason");
    this.resumeAtMs = nowMs + RETRY_ROOM_MS;
    this.begin(nowMs, code);
    if (this.waiting) return;
    assert(this.full, "a waiting log is full");
    this.waiting = true;
    const message = `Nothing can be written to ${this.#path} (${code}): changes of jobs wait until there is room`;
    this.#notice({ level: "error", code: "BINLOG_WAITS", message });
  }

  /** Records that all waiting changes are written. */
  goOn(): void {
    assert(this.waiting && this.full, "only a waiting log continues");
    this.waiting = false;
    const message = `Changes of jobs are written to ${this.#path} again`;
    this.#notice({ level: "info", code: "BINLOG_GOES_ON", message });
  }
}

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
  readonly #tail: LogWriter;
  readonly #chunk: Memory = Memory.ofSize(CHUNK_BYTES);
  /** A job whose head has changed in length. */
  readonly #merged: Memory = Memory.ofSize(MAX_STORED_BYTES);
  #segment = 0;
  #position = 0;

  constructor(host: CompactionHost, tail: LogWriter) {
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

// Removes the oldest segment after its live records were appended again. First the log states this
// with a DROP. The file goes only when that DROP is durable and, in a group, when the shared log
// has it.

/** Delay before the next check whether the shared log has a DROP. */
const LOOK_MS = 5;

interface SegmentDropOptions {
  disk: Disk;
  table: SegmentTable;
  reader: SegmentReader;
  tail: LogWriter;
  /** Keeps segments that a backup still reads. */
  cut: LogCut;
  /** Retries to make room as soon as a segment is gone. */
  shortage: RoomShortage;
}

export class SegmentDrop {
  readonly #disk: Disk;
  readonly #table: SegmentTable;
  readonly #reader: SegmentReader;
  readonly #tail: LogWriter;
  readonly #cut: LogCut;
  readonly #shortage: RoomShortage;
  #sequence = 0;
  /** Whether the file is removed, but perhaps not durably. */
  #unlinked = false;
  /** The batch that holds the current DROP, or a later one; 0 until it is written. */
  #batch = 0;

  constructor(options: SegmentDropOptions) {
    this.#disk = options.disk;
    this.#table = options.table;
    this.#reader = options.reader;
    this.#tail = options.tail;
    this.#cut = options.cut;
    this.#shortage = options.shortage;
  }

  get isUnderWay(): boolean {
    return this.#tail.dropping !== 0;
  }

  /** Appends the DROP of the oldest segment, which has no live records left. */
  begin(): void {
    const tail = this.#tail;
    const { oldest } = this.#table;
    assert(!this.isUnderWay, "one segment is dropped at a time");
    assert(oldest?.sealed === true && oldest.liveBytes === 0, "nothing in a dropped segment is live");
    tail.makeOwnFit();
    tail.makeRoom(OWN_RECORD_BYTES);
    // Nothing may fail from here on: only a DROP in the log drops a segment.
    this.#batch = 0;
    tail.dropping = oldest.number;
    tail.oldest = tail.dropping + 1;
    tail.appendOwn(OwnKind.drop);
    this.#sequence = tail.sequence;
  }

  /**
   * Removes the segment once its DROP is durable; returns false while the shared log lacks the
   * DROP.
   */
  finish(nowMs: number): boolean {
    const tail = this.#tail;
    assert(this.isUnderWay, "only a started drop ends");
    if (tail.syncedSequence < this.#sequence) tail.syncAll(nowMs, false);
    if (!this.#isAcknowledged()) return false;
    this.#remove();
    return true;
  }

  /** Does the same outside a group, where no acknowledgement is needed. */
  finishNow(nowMs: number): void {
    assert(this.isUnderWay, "only a started drop ends at once");
    this.#tail.syncAll(nowMs, false);
    this.#remove();
  }

  /**
   * In a group, a segment is needed until the shared log has all copies, and the DROP after them.
   */
  #isAcknowledged(): boolean {
    const { chain } = this.#tail;
    if (chain === undefined) return true;
    this.#batch ||= chain.place.n;
    assert(this.#batch > 0, "a DROP is in a batch");
    return chain.isAcknowledged(this.#batch);
  }

  #remove(): void {
    const { number } = this.#table.oldest!;
    assert(number === this.#tail.dropping, "only the oldest segment is dropped");
    assert(this.#tail.syncedSequence >= this.#sequence, "a DROP is durable before its segment goes");
    this.#reader.forget(number);
    // A quota may refuse even this. The table drops the segment only afterwards, so each step can
    // be retried.
    if (!this.#unlinked && !this.#cut.keeps(number)) this.#disk.unlink(segmentName(number));
    this.#unlinked = true;
    this.#disk.syncFolder();
    this.#unlinked = false;
    this.#table.removeOldest();
    this.#tail.dropping = 0;
    if (this.#shortage.full) this.#shortage.retryAtMs = 0;
  }

  /**
   * Time of the next check whether the shared log has the DROP; undefined if there is nothing to
   * wait for.
   */
  lookAtMs(nowMs: number): number | undefined {
    return this.#tail.chain === undefined || this.#batch === 0 ? undefined : nowMs + LOOK_MS;
  }
}

// Emergency compaction on a full disk. The log keeps the spare room that it needs to empty its
// oldest segment. Before a record would take some of it, the log compacts at once. The shards wait
// meanwhile; without the spare room, the log could never free space again.

interface TightRoomOptions {
  table: SegmentTable;
  tail: LogWriter;
  compaction: Compaction;
  drop: SegmentDrop;
}

export class TightRoom {
  readonly #table: SegmentTable;
  readonly #tail: LogWriter;
  readonly #compaction: Compaction;
  readonly #drop: SegmentDrop;
  /** The time before which no file can be opened, because descriptors ran out. */
  openAtMs = 0;

  constructor(options: TightRoomOptions) {
    this.#table = options.table;
    this.#tail = options.tail;
    this.#compaction = options.compaction;
    this.#drop = options.drop;
  }

  /** Returns whether that many bytes can be copied without new room. */
  isEnoughFor(bytes: number): boolean {
    const { segments } = this.#tail;
    return segments.shortage === "" || segments.roomBytes >= bytes + this.#marginBytes();
  }

  /**
   * Compacts until there is room for a frame besides the spare room, or until that gains nothing.
   */
  squeeze(framedBytes: number, nowMs: number): void {
    assert(framedBytes > 0, "room is made for a frame");
    const tail = this.#tail;
    // In a group, a segment goes only when the shared log has its DROP, and nothing here may wait
    // for that.
    if (tail.chain !== undefined) return;
    let rounds = 2 * this.#table.all.length;
    while (rounds > 0 && tail.segments.roomBytes < this.#spareRoomBytes() + framedBytes) {
      if (!this.#emptyOldest(framedBytes, nowMs)) return;
      this.#drop.finishNow(nowMs);
      while (tail.fill() === "more") {}
      rounds--;
    }
  }

  /** Returns the bytes needed to copy the segment with the most live bytes. */
  #spareRoomBytes(): number {
    let mostBytes = this.#tail.segments.softLimitBytes / 8;
    for (const segment of this.#table.all)
      if (segment.sealed) mostBytes = Math.max(mostBytes, segment.liveBytes);
    return mostBytes + this.#marginBytes();
  }

  /** Returns the bytes that may be lost at the ends of segments where a record does not fit. */
  #marginBytes(): number {
    return 2 * this.#tail.largestBytes + 2 * SPARE_BYTES;
  }

  /**
   * Copies the live records of the oldest segment and appends its DROP. Returns false if that gains
   * nothing or is impossible now.
   */
  #emptyOldest(framedBytes: number, nowMs: number): boolean {
    const tail = this.#tail;
    const { segments } = tail;
    if (this.#compaction.deadBytes < segments.softLimitBytes / 16) return false;
    if (!this.#drop.isUnderWay && !this.isEnoughFor(this.#table.oldest?.liveBytes ?? 0)) return false;
    tail.write();
    if (this.#table.sealedCount === 0) {
      if (!segments.nextFits(framedBytes)) return false;
      tail.leave();
    }
    if (this.#drop.isUnderWay) return true;
    if (!this.#compactNow(nowMs)) return false;
    assert(this.#table.oldest?.liveBytes === 0, "compaction leaves no live record");
    this.#drop.begin();
    return true;
  }

  /** Empties the oldest segment; returns false if that must wait for a descriptor. */
  #compactNow(nowMs: number): boolean {
    assert(!this.#drop.isUnderWay, "compaction waits for the end of a drop");
    if (nowMs < this.openAtMs) return false;
    try {
      return this.#compaction.step(Number.POSITIVE_INFINITY, () => false);
    } catch (error) {
      // The copies made so far are booked. No more room can be gained until a file can be opened.
      if (!isDescriptorShortage(error)) throw error;
      this.openAtMs = nowMs + RETRY_ROOM_MS;
      return false;
    }
  }
}
