// The current segment and the next one, zero-filled ahead so that a sync never waits for metadata.
//
//       sealed segments        current                        next
//   [####][######][###]   [H|######|<- room ->|000]    [H|<- room ->| not yet filled
//
// The log keeps room for one and a quarter segments, spread over both files; this window moves
// along as records are written. Room grows in whole extents, because each costs a sync, for which
// batches of records wait if it isn't in the background. A full disk shows when room is made, never
// when a record is written.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/text.ts";
import {
  BinlogError,
  isDescriptorShortage,
  isShortage,
  isSystemError,
  reasonOf,
  systemCode,
} from "../disk/binlog-error.ts";
import type { BackgroundSync, Disk } from "../disk/disk.ts";
import type { Segment, SegmentTable } from "../segments/books.ts";
import { encodeHeader, HEADER_BYTES, SEGMENT_BYTES_MAX, SPARE_BYTES } from "../segments/segment-format.ts";

const PAGE_BYTES = 4096;
const EXTENT_BYTES_MAX = 512 * 1024;
/** Extents that one sync in the background makes at most: some disks take 10 ms for any sync. */
const LATER_EXTENTS_MAX = 8;

/** "later": the background is making room. */
export type FillResult = "enough" | "more" | "full" | "later";

/** Zeros that are written and not durable yet: their room doesn't count. */
interface LaterRoom {
  readonly segment: Segment;
  readonly endBytes: number;
  /** Whether the log itself has synced them meanwhile. */
  isSettled: boolean;
}

interface SegmentWriterOptions {
  disk: Disk;
  background: BackgroundSync | undefined;
  table: SegmentTable;
  segmentBytes: number;
  /** Returns a random 32-bit number for each new segment. */
  randomSalt: () => number;
  /** Number of the first segment if none exists. */
  first: number;
}

export class SegmentWriter {
  readonly #disk: Disk;
  readonly #background: BackgroundSync | undefined;
  #later: LaterRoom | undefined;
  readonly #table: SegmentTable;
  readonly #randomSalt: () => number;
  readonly #first: number;
  readonly segmentBytes: number;
  /**
   * The log leaves segments at three quarters, so that the room of one holds the copies from any
   * other.
   */
  readonly softLimitBytes: number;
  readonly #wantedRoomBytes: number;
  readonly #zeros: Uint8Array;
  /** Maximum bytes of room that one step of `fill` makes, if it isn't in the background. */
  readonly extentBytes: number;
  /** Undefined before `begin`. */
  current!: Segment;
  next: Segment | undefined;
  /** Why there is less room than wanted: the system's code of the last attempt, or "". */
  shortage = "";

  constructor(options: SegmentWriterOptions) {
    this.#disk = options.disk;
    this.#background = options.background;
    this.#table = options.table;
    this.#randomSalt = options.randomSalt;
    this.#first = options.first;
    this.segmentBytes = Math.max(PAGE_BYTES, Math.ceil(options.segmentBytes / PAGE_BYTES) * PAGE_BYTES);
    const slackBytes = Math.floor(this.segmentBytes / 4);
    this.softLimitBytes = this.segmentBytes - slackBytes;
    // Reduced by the rounding, so that both files together never exceed two segments.
    this.#wantedRoomBytes = this.segmentBytes + Math.max(0, slackBytes - 2 * PAGE_BYTES);
    assert(this.segmentBytes <= SEGMENT_BYTES_MAX, "offsets in a segment have 32 bits");
    assert(this.#first >= 1, "segments are counted from 1");
    const extent = Math.ceil(this.segmentBytes / 16 / PAGE_BYTES) * PAGE_BYTES;
    this.extentBytes = Math.min(EXTENT_BYTES_MAX, extent);
    this.#zeros = new Uint8Array(this.extentBytes);
  }

  /** Bytes of room that the background may be making. */
  get laterBytes(): number {
    return this.#background === undefined ? 0 : Math.max(0, this.#wantedRoomBytes - this.roomBytes);
  }

  /**
   * Whether records can do with the room that there is until the background has made more. If not,
   * a full disk must show now: what is left then is the spare room.
   */
  get #mayWait(): boolean {
    return this.roomBytes >= this.softLimitBytes + this.segmentBytes / 8;
  }

  /** Bytes that can be written without asking the file system for space. */
  get roomBytes(): number {
    const { current } = this;
    if ((current as Segment | undefined) === undefined) return 0;
    const next = this.next === undefined ? 0 : this.next.fileBytes - HEADER_BYTES;
    assert(current.usedBytes <= current.fileBytes && next >= 0, "the room in a segment is never negative");
    return current.fileBytes - current.usedBytes + next;
  }

  /** Whether there is as much room as wanted, and nothing to do about it. */
  get hasEnough(): boolean {
    return this.next !== undefined && this.#later === undefined && this.roomBytes >= this.#wantedRoomBytes;
  }

  /** Takes over segments that recovery found empty, and creates the missing ones. */
  begin(empty: Segment[], createdAtMs: number, maxId: number, oldest: number): void {
    assert((this.current as Segment | undefined) === undefined, "a log begins once");
    assert(empty.length <= 2, "at most two segments are empty at a start");
    const [first, second] = empty;
    this.next = second;
    if (first === undefined) {
      this.current = this.#create(createdAtMs, maxId, oldest);
      this.next = undefined;
    } else this.current = first;
    if (this.next !== undefined) return;
    const result = this.fill(createdAtMs, maxId, oldest);
    // An existing log may continue on a full disk, but a new one may not begin there.
    const fresh = this.current.number === 1 && this.#table.all.length === 1;
    if (result === "full" && fresh) throw Object.assign(new Error(this.shortage), { code: this.shortage });
  }

  /** Returns whether a frame fits before the point where the log normally leaves the segment. */
  fits(framedBytes: number): boolean {
    const current = this.current;
    assert(framedBytes > 0, "a frame has bytes");
    const end = current.usedBytes + framedBytes + SPARE_BYTES;
    return end <= current.fileBytes && end <= this.softLimitBytes;
  }

  /** Returns whether a frame fits if every byte of the current segment is used. */
  fitsTightly(framedBytes: number): boolean {
    assert(framedBytes > 0, "a frame that fits has bytes");
    return this.current.usedBytes + framedBytes + SPARE_BYTES <= this.current.fileBytes;
  }

  nextFits(framedBytes: number): boolean {
    assert(this.next?.usedBytes !== 0, "the next segment has its header");
    const next = this.next;
    return next !== undefined && HEADER_BYTES + framedBytes + SPARE_BYTES <= next.fileBytes;
  }

  /**
   * Makes room by one step: writes and syncs at most one extent, or with `mayBeLater`, if that is
   * possible, some in the background.
   */
  fill(createdAtMs: number, maxId: number, oldest: number, mayBeLater = false): FillResult {
    try {
      if (this.#later !== undefined) this.#takeLater();
      const next = this.next;
      const target = this.#target();
      if (target !== undefined && target.fileBytes >= this.segmentBytes) return "enough";
      if (next !== undefined && this.roomBytes >= this.#wantedRoomBytes) return "enough";
      if (mayBeLater && target !== undefined && this.#mayWait && this.#extendLater(target)) return "later";
      if (target === undefined) this.#create(createdAtMs, maxId, oldest);
      else if (!mayBeLater || !this.#extendFar(target)) this.#extend(target);
      this.shortage = "";
      return "more";
    } catch (error) {
      if (!isShortage(error)) throw error;
      this.shortage = systemCode(error);
      return "full";
    }
  }

  /**
   * Makes room in the next segment by one step, until that has its full size and the current one
   * can be left early.
   */
  fillNext(): FillResult {
    const next = this.next;
    assert(next !== undefined, "there is a segment to make room in");
    if (next.fileBytes >= this.segmentBytes) return "enough";
    try {
      this.#extend(next);
      return "more";
    } catch (error) {
      if (!isShortage(error)) throw error;
      // The log itself has the room that it wants.
      return "full";
    }
  }

  /**
   * Returns the segment in which to make room: the next one once the current one has its full size.
   */
  #target(): Segment | undefined {
    const { current, next } = this;
    const grows = (current as Segment | undefined) !== undefined && current.fileBytes < this.segmentBytes;
    return next !== undefined && grows ? current : next;
  }

  /**
   * Makes that much room with one sync, as far as one segment allows. At a start, no batch waits
   * for the sync, and one sync is faster than one per extent. If there isn't enough space, `fill`
   * finds out how much there is.
   */
  fillAtOnce(roomBytes: number): void {
    assert(roomBytes > 0 && roomBytes <= this.segmentBytes, "room at a start is part of a segment");
    const target = this.#target();
    const lackingBytes = roomBytes - this.roomBytes;
    if (target === undefined || lackingBytes <= 0) return;
    const pages = Math.ceil(lackingBytes / PAGE_BYTES) * PAGE_BYTES;
    try {
      this.#extend(target, Math.min(pages, this.segmentBytes - target.fileBytes));
    } catch (error) {
      if (!isShortage(error)) throw error;
    }
  }

  #extend(
    segment: Segment,
    length = Math.min(this.#zeros.length, this.segmentBytes - segment.fileBytes),
  ): void {
    const { fileBytes } = segment;
    assert(length > 0, "an extent has bytes");
    assert(fileBytes + length <= this.segmentBytes, "a segment never grows beyond its size");
    this.#zeroFill(segment, length);
    this.#syncExtent(segment);
    segment.fileBytes += length;
  }

  #zeroFill({ handle, fileBytes }: Segment, length: number): void {
    assert(handle !== undefined, "a segment that grows is open");
    for (let done = 0; done < length; done += this.#zeros.length) {
      const some = Math.min(this.#zeros.length, length - done);
      this.#disk.write(handle, this.#zeros, 0, some, fileBytes + done);
    }
  }

  /**
   * Makes room in the next segment in the background, or returns false. The current segment gets
   * none there: a failed sync might be that of its records.
   */
  #extendLater(segment: Segment): boolean {
    const later = this.#later;
    if (later !== undefined) return later.segment === segment && !later.isSettled;
    if (this.#background === undefined || segment !== this.next) return false;
    const length = this.#laterLength(segment);
    this.#zeroFill(segment, length);
    if (!this.#background.begin(segmentName(segment.number), segment.handle!)) return false;
    this.#later = { segment, endBytes: segment.fileBytes + length, isSettled: false };
    return true;
  }

  /** Bytes of room that the background would make in a segment with one sync. */
  #laterLength({ fileBytes }: Segment): number {
    const extent = this.#zeros.length;
    const extents = Math.min(Math.ceil(this.laterBytes / extent), LATER_EXTENTS_MAX);
    const length = Math.min(extents * extent, this.segmentBytes - fileBytes);
    assert(length >= 0, "a segment never grows beyond its size");
    return length;
  }

  /**
   * Makes the room that the background has not made in time, with one sync. Returns false if there
   * is nothing of the kind, or no space for it.
   */
  #extendFar(segment: Segment): boolean {
    // After a start, the current segment grows by single extents: clients wait for each.
    if (segment !== this.next) return false;
    const length = this.#laterLength(segment);
    assert(length <= LATER_EXTENTS_MAX * this.#zeros.length, "one sync makes a limited number of extents");
    if (length === 0) return false;
    try {
      this.#extend(segment, length);
      return true;
    } catch (error) {
      if (!isShortage(error)) throw error;
      return false;
    }
  }

  /** Counts the room that the background has made. */
  #takeLater(): void {
    const later = this.#later!;
    const ended = this.#background!.take();
    if (ended === undefined) return;
    this.#later = undefined;
    if (later.isSettled) return;
    assert(later.segment === this.next, "the background makes room in the next segment");
    // The kernel reports a failure to the log's own descriptor as well. It must do so now, and not
    // when records are synced. Then the room doesn't count.
    if (ended.error !== undefined) this.#disk.sync(later.segment.handle!);
    else this.#countLater(later);
  }

  /** Meanwhile, a record may have needed some of the room, and the log has made it. */
  #countLater({ segment, endBytes }: LaterRoom): void {
    assert(endBytes <= this.segmentBytes, "a segment never grows beyond its size in the background");
    segment.fileBytes = Math.max(segment.fileBytes, endBytes);
    this.shortage = "";
  }

  /**
   * Syncs the room that the background is making, before records follow in that segment: from then
   * on, a failure of that sync might be one of theirs.
   */
  #settleLater(): void {
    const later = this.#later;
    if (later === undefined || later.isSettled) return;
    assert(later.segment === this.next, "only the room of the next segment is made in the background");
    later.isSettled = true;
    try {
      this.#disk.sync(later.segment.handle!);
      this.#countLater(later);
    } catch (error) {
      // The next step of `fill` finds out how much room there is.
      if (!isShortage(error)) throw error;
    }
  }

  /** Ends its work in the background for good. */
  close(): void {
    this.#background?.close();
    this.#later = undefined;
  }

  #syncExtent(segment: Segment): void {
    try {
      this.#disk.sync(segment.handle!);
    } catch (error) {
      // The current segment has records: the kernel has dropped pages that it could not write, and
      // a later sync would not report that.
      throw segment === this.current && isShortage(error) ? this.ioError("sync", error) : error;
    }
  }

  #create(createdAtMs: number, maxId: number, oldest: number): Segment {
    const last = this.#table.all.at(-1);
    const number = last === undefined ? this.#first : last.number + 1;
    assert(this.next === undefined, "one segment is created ahead at a time");
    assert(oldest <= number, "a new segment counts");
    const salt = this.#randomSalt() >>> 0;
    const name = segmentName(number);
    const handle = this.#disk.open(name, "create");
    try {
      const first = this.#zeros.slice();
      first.set(encodeHeader({ number, createdAtMs, maxId, oldest, salt }));
      this.#disk.truncate(handle, 0);
      this.#disk.write(handle, first, 0, first.length, 0);
      this.#disk.sync(handle);
      this.#disk.syncFolder();
      const segment = { number, salt, createdAtMs, liveBytes: 0, sealed: false, handle };
      const created = { ...segment, fileBytes: first.length, usedBytes: HEADER_BYTES };
      this.next = created;
      this.#table.add(created);
      return created;
    } catch (error) {
      this.#disk.close(handle);
      if (["ENOSPC", "EDQUOT"].includes(systemCode(error))) this.#disk.unlink(name);
      throw error;
    }
  }

  /** Leaves the current segment, which must be written and synced, for the next one. */
  leave(): void {
    const sealed = this.current;
    assert(this.next !== undefined, "a next segment exists");
    assert(sealed.usedBytes > HEADER_BYTES, "the log leaves a segment only after its END");
    assert(this.next.number === sealed.number + 1, "segments are numbered without gaps");
    assert(this.next.usedBytes === HEADER_BYTES, "the next segment has no record yet");
    this.#settleLater();
    this.#disk.truncate(sealed.handle!, sealed.usedBytes);
    this.#disk.close(sealed.handle!);
    sealed.handle = undefined;
    sealed.fileBytes = sealed.usedBytes;
    this.#table.seal(sealed);
    this.current = this.next;
    this.next = undefined;
    // The space of a file is free only when nothing has it open.
    this.#background?.forget();
  }

  /** Releases the zero-filled space. The current segment must have its END. */
  trim(): void {
    const current = this.current;
    assert(current.usedBytes <= current.fileBytes, "a trim only shortens a segment");
    this.#disk.truncate(current.handle!, current.usedBytes);
    if (this.next !== undefined) this.#disk.truncate(this.next.handle!, PAGE_BYTES);
  }

  beginError(error: unknown): unknown {
    if (!isSystemError(error)) return error;
    if (!["ENOSPC", "EDQUOT"].includes(systemCode(error))) return this.ioError("start a segment of", error);
    return new BinlogError(
      "BINLOG_NO_SPACE",
      `There is no room in ${this.#disk.path} to start a segment (${systemCode(error)})`,
      "Make room on that disk and start again.",
      error,
    );
  }

  /** Returns the error for a record without room: a system error, and temporary. */
  noRoom(): Error {
    const code = this.shortage || "ENOSPC";
    return Object.assign(new Error(`${code}: no room for a record`), { code });
  }

  noRoomError(error: unknown): BinlogError {
    const what = isDescriptorShortage(error) ? "Raise the limit of open files" : "Make room on that disk";
    return new BinlogError(
      "BINLOG_NO_SPACE",
      `The binlog in ${this.#disk.path} has no room left for a record, not even in its reserve (${systemCode(error)})`,
      `${what} and start again: everything acknowledged is in the log.`,
      error,
    );
  }

  ioError(what: string, error: unknown): BinlogError {
    return new BinlogError(
      "BINLOG_IO",
      `Cannot ${what} the binlog in ${this.#disk.path}: ${reasonOf(error)}`,
      "Check the disk (dmesg, mount), then start again: everything acknowledged is in the log.",
      error,
    );
  }
}
