// The log in use: takes records, writes and syncs them in batches, and reclaims space. Its owner
// drives it step by step; it starts no timer and no thread. See "How a thread drives it" in
// ../README.md.

import { pack } from "msgpackr/pack";
import { assert } from "../../base/assert.ts";
import { LogBatchKind } from "../../message/log-batch.ts";
import {
  BinlogError,
  isDescriptorShortage,
  isShortage,
  isSystemError,
  systemCode,
} from "../disk/binlog-error.ts";
import type { Disk } from "../disk/disk.ts";
import type { RecordIndex, SegmentTable } from "../segments/books.ts";
import { FRAME_BYTES, OwnKind } from "../segments/segment-format.ts";
import { Compaction } from "./compaction.ts";
import { FullDisk, RETRY_ROOM_MS } from "./full-disk.ts";
import { LogCut } from "./log-cut.ts";
import { LogWriter, PACE, type StorageOptions } from "./log-writer.ts";

const SLICE_BYTES_MIN = 64 * 1024;
const SLICE_BYTES_MAX = 4 * 1024 * 1024;
/** A slice ends soon after this time, so that no reply waits noticeably for it. */
const SLICE_MS = 5;

/** A record that was taken from its shard and has no place in the log yet. */
interface PendingRecord {
  shard: number;
  n: number;
  bytes: Uint8Array;
}

export class Storage {
  readonly #disk: Disk;
  readonly #options: StorageOptions;
  /** The end of the log, where records are appended. */
  readonly tail: LogWriter;
  /** Whether the log has room, and what it does without. */
  readonly room: FullDisk;
  readonly #compaction: Compaction;
  readonly table: SegmentTable;
  readonly index: RecordIndex;
  /** For backups. */
  readonly cut: LogCut;
  #workBytes = 0;
  /** The time until which compaction pauses; 0 if it doesn't. */
  #compactAtMs = 0;
  /** The record that was taken but had no room. */
  #pending: PendingRecord | undefined;
  /** Set once the log can't continue; nothing is taken or becomes durable from then on. */
  failure: BinlogError | undefined;
  #closed = false;
  #nowMs = 0;
  /** Whether space was being reclaimed at the end of the last slice of work. */
  compacts = false;

  constructor(options: StorageOptions) {
    const { disk, log } = options;
    this.#options = options;
    this.#disk = disk;
    this.table = log.table;
    this.index = log.index;
    log.index.batches.endRecovery();
    this.tail = new LogWriter(options);
    this.cut = new LogCut(disk, this.tail);
    this.#compaction = new Compaction(options, this.tail, this.cut);
    this.room = new FullDisk(options, this.tail, this.#compaction);
  }

  /** Returns whether the log must turn for the sake of ids, given the highest id taken so far. */
  lendIsDue(highestId: number): boolean {
    // While the log is full, puts are refused, so none waits for a lend.
    if (this.room.full) return false;
    const { lending } = this.tail;
    return lending.isDue(highestId) || (highestId > lending.durableUpTo && lending.isUrgent(highestId));
  }

  /** Lends ids after `highestId` if due; they count once a flush has made that durable. */
  lendIds(highestId: number): void {
    const { lending } = this.tail;
    lending.takenUpTo = highestId;
    if (!lending.isDue(highestId) || this.room.full || this.#closed) return;
    const before = lending.upTo;
    try {
      this.tail.makeOwnFit();
      lending.extend(highestId);
      this.tail.appendOwn(OwnKind.mark);
      lending.lent(this.tail.sequence);
    } catch (error) {
      lending.upTo = before;
      // Puts wait for the lend; the next turn retries it.
      if (!isShortage(error)) this.#fail("write to", error);
      else if (this.tail.isEnding) this.room.wait(this.#nowMs, systemCode(error));
      else this.room.begin(this.#nowMs, systemCode(error));
    }
  }

  /** Copies record `n` of a shard; it is neither written nor durable before a flush. */
  // put 12/18
  append(shard: number, n: number, bytes: Uint8Array, start: number, length: number): void {
    if (this.failure !== undefined) return;
    assert(!this.room.waiting, "nothing is appended while the log waits for room");
    try {
      this.#prepare(length);
      this.tail.place(bytes, start, length, shard, n);
    } catch (error) {
      if (!isShortage(error)) this.#fail("write to", error);
      else {
        assert(this.#pending === undefined, "at most one record has no place yet");
        assert(length > 0 && start + length <= bytes.length, "a waiting record lies in its memory");
        this.#pending = { shard, n, bytes: bytes.slice(start, start + length) };
        this.room.wait(this.#nowMs, systemCode(error));
      }
    }
  }

  /** Takes a record during a restore, takeover or rewrite. There, a full disk is a failure. */
  appendOwned(bytes: Uint8Array, start: number, length: number): void {
    if (this.failure !== undefined) return;
    try {
      this.#prepare(length);
      this.tail.place(bytes, start, length);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Takes a record of the log itself. Returns false if there is no room for it now. */
  appendNow(bytes: Uint8Array): boolean {
    const { full, waiting } = this.room;
    if (this.failure !== undefined || this.#closed || waiting || full || this.tail.chain?.hasRoom === false)
      return false;
    try {
      this.#prepare(bytes.length);
      this.tail.place(bytes, 0, bytes.length);
      return true;
    } catch (error) {
      if (!isShortage(error)) this.#fail("write to", error);
      else if (this.tail.isEnding) this.room.wait(this.#nowMs, systemCode(error));
      else this.room.begin(this.#nowMs, systemCode(error));
      return false;
    }
  }

  /** Called before a record of `length` bytes is appended. */
  #prepare(length: number): void {
    assert(!this.#closed, "a closed log takes no record");
    if (this.tail.segments.shortage !== "") this.room.squeeze(FRAME_BYTES + length, this.#nowMs);
    this.#workBytes += PACE * length;
  }

  /** Continues after a lack of room; all interrupted steps are repeatable. */
  #resume(): void {
    this.#compactAtMs = this.room.openAtMs = 0;
    this.cut.giveWay();
    this.tail.resume();
    const pending = this.#pending;
    if (pending !== undefined) {
      const { shard, n, bytes } = pending;
      this.#prepare(bytes.length);
      this.tail.place(bytes, 0, bytes.length, shard, n);
      this.#pending = undefined;
    }
    // The data has waited longer than the policy allows without a sync.
    if (!this.tail.policy.never) this.tail.syncAll(this.#nowMs, false);
    this.room.goOn();
  }

  /** Writes a note into the log itself; it disappears with its segment. */
  appendNote(content: unknown): void {
    const packed = pack(content);
    const bytes = new Uint8Array(1 + packed.length);
    bytes[0] = OwnKind.note;
    bytes.set(packed, 1);
    try {
      this.tail.place(bytes, 0, bytes.length);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Writes all appended records, and syncs if the policy says so. `nowMs` is monotonic. */
  // put 13/18
  flush(nowMs: number): void {
    if (this.failure !== undefined || this.#closed) return;
    this.#nowMs = nowMs;
    if (this.tail.isSyncing && !this.#endSync(nowMs)) return;
    try {
      if (this.room.waiting && nowMs >= this.room.resumeAtMs) this.#resume();
      if (!this.room.waiting) this.tail.flush(nowMs);
    } catch (error) {
      if (isShortage(error)) this.room.wait(nowMs, systemCode(error));
      else this.#fail("write to", error);
    }
    if (this.room.waiting) this.#syncWritten(nowMs);
  }

  /** Notes the end of a sync in the background. Returns false if it failed. */
  #endSync(nowMs: number): boolean {
    try {
      this.tail.endSync(nowMs);
      return true;
    } catch (error) {
      this.#fail("sync", error);
      return false;
    }
  }

  /** Syncs in time the records that were acknowledged before the log had to wait. */
  #syncWritten(nowMs: number): void {
    if (this.failure !== undefined) return;
    try {
      this.tail.syncWritten(nowMs);
    } catch (error) {
      this.#fail("sync", error);
    }
  }

  /** Makes everything durable now, whatever the policy. */
  syncNow(nowMs: number): void {
    if (this.failure !== undefined || this.#closed) return;
    try {
      this.tail.syncAll(nowMs, false);
    } catch (error) {
      this.#fail("sync", error);
    }
  }

  /**
   * Does one slice of background work, a few milliseconds at most: makes room and compacts. Call it
   * after each flush, and again while it returns true and there is nothing else to do.
   */
  work(nowMs: number): boolean {
    if (this.failure !== undefined || this.#closed || this.room.waiting) return false;
    if (this.tail.chain?.hasRoom === false) return false;
    this.#nowMs = nowMs;
    try {
      const worksOn = this.#work(nowMs);
      const { cut } = this;
      return (cut.isBusy && cut.work(this.room.full)) || worksOn;
    } catch (error) {
      if (!isShortage(error)) this.#fail("compact", error);
      else if (this.tail.isEnding) this.room.wait(nowMs, systemCode(error));
      else {
        // Nothing is lost: retry later. The next flush writes the batch.
        this.room.begin(nowMs, systemCode(error));
        this.#compactAtMs = nowMs + RETRY_ROOM_MS;
        if (isDescriptorShortage(error)) this.room.openAtMs = this.#compactAtMs;
      }
      return false;
    }
  }

  #work(nowMs: number): boolean {
    const waits = this.room.full && nowMs < this.room.retryAtMs;
    const filling = waits ? "later" : this.tail.keepRoom(!this.room.full);
    if (filling === "full") this.room.begin(nowMs, this.tail.segments.shortage);
    else if (filling === "enough" && this.room.full) this.room.end();
    const mayCompact = nowMs >= this.#compactAtMs;
    if (mayCompact && this.tail.dropping !== 0) {
      if (!this.#compaction.finishDrop(nowMs)) return filling === "more";
      this.room.segmentIsGone();
    } else if (mayCompact && this.#isCompactionWanted()) this.#compactSlice();
    else this.#workBytes = 0;
    this.compacts = this.tail.dropping !== 0 || this.#isCompactionWanted();
    return filling === "more" || (mayCompact && this.compacts);
  }

  #isCompactionWanted(): boolean {
    return this.table.sealedCount > 0 && this.#compaction.isWanted(this.room.full);
  }

  #compactSlice(): void {
    // Copies read from the disk, so nothing may remain in the batch.
    this.tail.write();
    const slice = Math.min(SLICE_BYTES_MAX, Math.max(SLICE_BYTES_MIN, this.#workBytes));
    this.#workBytes = Math.max(0, this.#workBytes - slice);
    const stopAtMs = this.#options.clockMs() + SLICE_MS;
    assert(slice > 0 && this.#workBytes >= 0, "a slice of work has bytes");
    if (this.#compaction.step(slice, () => this.#options.clockMs() >= stopAtMs)) this.#compaction.beginDrop();
    else if (this.#compaction.restMs > 0) this.#compactAtMs = this.#nowMs + this.#compaction.restMs;
  }

  /**
   * States in the log, durably, that all segments below this one no longer count. For a rewrite of
   * the whole log into new segments; the caller removes the old ones.
   */
  dropBelow(segment: number, nowMs: number): void {
    if (this.failure !== undefined) return;
    assert(segment <= this.tail.segments.current.number, "a log never drops its current segment");
    try {
      this.tail.oldest = segment;
      this.tail.appendOwn(OwnKind.drop);
      this.tail.syncAll(nowMs, false);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Returns when flush or work must be called next if nothing is appended; Infinity for never. */
  nextDeadline(): number {
    if (this.failure !== undefined || this.#closed) return Number.POSITIVE_INFINITY;
    const tail = this.tail;
    const { syncAtMs, markAtMs } = tail.policy;
    if (this.room.waiting) return Math.min(this.room.resumeAtMs, syncAtMs);
    if (tail.sequence > tail.flushedSequence) return 0;
    // While the shared log is behind, its thread rings.
    const dueAtMs = Math.min(syncAtMs, markAtMs, tail.beatAtMs);
    if (tail.chain?.hasRoom === false) return dueAtMs;
    const { retryAtMs } = this.room;
    if (tail.dropping !== 0)
      return Math.min(dueAtMs, this.#compaction.dropLookAtMs(this.#nowMs) ?? this.#compactAtMs, retryAtMs);
    return Math.min(dueAtMs, this.#isCompactionWanted() ? this.#compactAtMs : retryAtMs, retryAtMs);
  }

  #fail(what: string, error: unknown): void {
    if (error instanceof BinlogError) this.failure = error;
    else if (isShortage(error)) this.failure = this.tail.segments.noRoomError(error);
    else this.failure = this.tail.segments.ioError(what, error);
    this.room.full = true;
    // A broken invariant is not a fault of the disk.
    if (error !== this.failure && !isSystemError(error)) throw error;
    const { code, message, nextStep } = this.failure;
    this.#options.notice({ level: "error", code, message: `${message}. ${nextStep}` });
  }

  /** Tries once more to write the waiting records; then the log continues or has failed. */
  endWait(nowMs: number): void {
    assert(this.room.waiting, "only a waiting log ends its wait");
    this.#nowMs = nowMs;
    try {
      this.#resume();
    } catch (error) {
      this.#fail("close", error);
    }
  }

  /**
   * Makes everything durable, ends the segment and closes the files. `trim` releases the
   * zero-filled space, which a server that restarts soon should keep.
   */
  close(nowMs: number, trim = false): void {
    if (this.#closed) return;
    if (this.room.waiting) this.endWait(nowMs);
    if (this.failure === undefined) {
      this.syncNow(nowMs);
      if (this.tail.needsEnd) this.#endSegment(nowMs, trim);
    }
    this.#closed = true;
    this.tail.close();
    this.#compaction.close();
    for (const segment of this.table.all) {
      if (segment.handle !== undefined) this.#disk.close(segment.handle);
      segment.handle = undefined;
    }
  }

  #endSegment(nowMs: number, trim: boolean): void {
    assert(!this.room.waiting, "a log without room can't end its segment");
    try {
      // At a clean end, clients have seen only ids of records, so the rest of the lend is returned.
      this.tail.lending.upTo = 0;
      const { chain } = this.tail;
      if (chain !== undefined) chain.kind = LogBatchKind.yield;
      this.tail.appendOwn(OwnKind.end);
      this.tail.syncAll(nowMs, true);
      if (trim) this.tail.segments.trim();
    } catch (error) {
      // Everything is durable; only END is missing. The next start writes it, as after a kill.
      if (!isShortage(error)) this.#fail("close", error);
    }
  }
}
