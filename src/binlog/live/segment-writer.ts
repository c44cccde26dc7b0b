// The current segment and the next one, zero-filled ahead so that a sync never waits for metadata.
//
//       sealed segments        current                        next
//   [####][######][###]   [H|######|<- room ->|000]    [H|<- room ->| not yet filled
//
// The log keeps room for one and a quarter segments, spread over both files; this window moves
// along as records are written. Room grows in whole extents, because each costs a sync that a batch
// of records waits for. A full disk shows when room is made, never when a record is written.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/segment-name.ts";
import type { Segment, SegmentTable } from "../books/segment-table.ts";
import {
  BinlogError,
  isDescriptorShortage,
  isShortage,
  isSystemError,
  reasonOf,
  systemCode,
} from "../disk/binlog-error.ts";
import type { Disk, Handle } from "../disk/disk.ts";
import { encodeHeader, HEADER_BYTES, SEGMENT_BYTES_MAX, SPARE_BYTES } from "../format/segment-format.ts";

const PAGE_BYTES = 4096;
const EXTENT_BYTES_MAX = 512 * 1024;

export type FillResult = "enough" | "more" | "full";

export interface SegmentWriterOptions {
  disk: Disk;
  table: SegmentTable;
  segmentBytes: number;
  /** Returns a random 32-bit number for each new segment. */
  randomSalt: () => number;
  /** Number of the first segment if none exists. */
  first: number;
}

export class SegmentWriter {
  readonly #disk: Disk;
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
  #current: Segment | undefined;
  #next: Segment | undefined;
  /** Why there is less room than wanted: the system's code of the last attempt, or "". */
  shortage = "";

  constructor(options: SegmentWriterOptions) {
    this.#disk = options.disk;
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
    this.#zeros = new Uint8Array(Math.min(EXTENT_BYTES_MAX, extent));
  }

  get current(): Segment {
    assert(this.#current !== undefined, "the log has a current segment");
    return this.#current;
  }

  get next(): Segment | undefined {
    return this.#next;
  }

  get handle(): Handle {
    const { handle } = this.current;
    assert(handle !== undefined, "the current segment is open");
    return handle;
  }

  /** Maximum bytes of room that one step of `fill` makes. */
  get extentBytes(): number {
    return this.#zeros.length;
  }

  /** Bytes that can be written without asking the file system for space. */
  get roomBytes(): number {
    const current = this.#current;
    if (current === undefined) return 0;
    const next = this.#next === undefined ? 0 : this.#next.fileBytes - HEADER_BYTES;
    assert(current.usedBytes <= current.fileBytes && next >= 0, "the room in a segment is never negative");
    return current.fileBytes - current.usedBytes + next;
  }

  /** Takes over segments that recovery found empty, and creates the missing ones. */
  begin(empty: Segment[], createdAtMs: number, maxId: number, oldest: number): void {
    assert(this.#current === undefined, "a log begins once");
    assert(empty.length <= 2, "at most two segments are empty at a start");
    const [first, second] = empty;
    this.#current = first;
    this.#next = second;
    if (first === undefined) {
      this.#create(createdAtMs, maxId, oldest);
      this.#current = this.#next;
      this.#next = undefined;
    }
    if (this.#next !== undefined) return;
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
    assert(this.#next?.usedBytes !== 0, "the next segment has its header");
    const next = this.#next;
    return next !== undefined && HEADER_BYTES + framedBytes + SPARE_BYTES <= next.fileBytes;
  }

  /** Makes room by one step: writes and syncs at most one extent. */
  fill(createdAtMs: number, maxId: number, oldest: number): FillResult {
    const next = this.#next;
    const target = this.#target();
    if (target !== undefined && target.fileBytes >= this.segmentBytes) return "enough";
    if (next !== undefined && this.roomBytes >= this.#wantedRoomBytes) return "enough";
    try {
      if (target === undefined) this.#create(createdAtMs, maxId, oldest);
      else this.#extend(target);
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
    const next = this.#next;
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
    const current = this.#current;
    const next = this.#next;
    return next !== undefined && current !== undefined && current.fileBytes < this.segmentBytes
      ? current
      : next;
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
    for (let done = 0; done < length; done += this.#zeros.length) {
      const some = Math.min(this.#zeros.length, length - done);
      this.#disk.write(segment.handle!, this.#zeros, 0, some, fileBytes + done);
    }
    this.#syncExtent(segment);
    segment.fileBytes += length;
  }

  #syncExtent(segment: Segment): void {
    try {
      this.#disk.sync(segment.handle!);
    } catch (error) {
      // The current segment has records: the kernel has dropped pages that it could not write, and
      // a later sync would not report that.
      throw segment === this.#current && isShortage(error) ? this.ioError("sync", error) : error;
    }
  }

  #create(createdAtMs: number, maxId: number, oldest: number): void {
    const last = this.#table.all.at(-1);
    const number = last === undefined ? this.#first : last.number + 1;
    assert(this.#next === undefined, "one segment is created ahead at a time");
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
      this.#next = { ...segment, fileBytes: first.length, usedBytes: HEADER_BYTES };
      this.#table.add(this.#next);
    } catch (error) {
      this.#disk.close(handle);
      if (["ENOSPC", "EDQUOT"].includes(systemCode(error))) this.#disk.unlink(name);
      throw error;
    }
  }

  /** Leaves the current segment, which must be written and synced, for the next one. */
  leave(): void {
    const sealed = this.current;
    assert(this.#next !== undefined, "a next segment exists");
    assert(sealed.usedBytes > HEADER_BYTES, "the log leaves a segment only after its END");
    assert(this.#next.number === sealed.number + 1, "segments are numbered without gaps");
    assert(this.#next.usedBytes === HEADER_BYTES, "the next segment has no record yet");
    this.#disk.truncate(sealed.handle!, sealed.usedBytes);
    this.#disk.close(sealed.handle!);
    sealed.handle = undefined;
    sealed.fileBytes = sealed.usedBytes;
    this.#table.seal(sealed);
    this.#current = this.#next;
    this.#next = undefined;
  }

  /** Releases the zero-filled space. The current segment must have its END. */
  trim(): void {
    const current = this.current;
    assert(current.usedBytes <= current.fileBytes, "a trim only shortens a segment");
    this.#disk.truncate(current.handle!, current.usedBytes);
    if (this.#next !== undefined) this.#disk.truncate(this.#next.handle!, PAGE_BYTES);
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

  /** Returns the error that ends the log for lack of room. */
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
