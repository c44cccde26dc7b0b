// The log in use: takes records, writes and syncs them in batches, and reclaims space. Its owner
// drives it step by step; it starts no timer and no thread. See "How a thread drives it" in
// ../README.md.

import { pack } from "msgpackr/pack";
import { assert, CHECKED } from "../../base/assert.ts";
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
import {
  Compaction,
  type CompactionHost,
  RETRY_ROOM_MS,
  RoomShortage,
  SegmentDrop,
  SegmentReader,
  TightRoom,
} from "./compaction.ts";
import { LogCut } from "./log-cut.ts";
import { LogWriter, PACE, type StorageTimings } from "./log-writer.ts";
import type { PendingRecord, StorageOptions } from "./storage-options.ts";

const SLICE_BYTES_MIN = 64 * 1024;
const SLICE_BYTES_MAX = 4 * 1024 * 1024;
/** A slice ends soon after this time, so that no reply waits noticeably for it. */
const SLICE_MS = 5;

export class Storage implements CompactionHost {
  readonly #disk: Disk;
  readonly #tail: LogWriter;
  readonly #shortage: RoomShortage;
  readonly #compaction: Compaction;
  readonly #drop: SegmentDrop;
  readonly #tight: TightRoom;
  readonly #options: StorageOptions;
  readonly table: SegmentTable;
  readonly index: RecordIndex;
  readonly reader: SegmentReader;
  readonly timings: StorageTimings;
  /** For backups. */
  readonly cut: LogCut;
  #workBytes = 0;
  /** The time until which compaction pauses; 0 if it doesn't. */
  #compactAtMs = 0;
  /** The record that was taken but had no room. */
  #pending: PendingRecord | undefined;
  /** Set once the log can't continue; nothing is taken or becomes durable from then on. */
  failure: BinlogError | undefined;
  /** Number of records written since the start, including compaction's copies. */
  recordsWritten = 0;
  recordsMigrated = 0;
  #closed = false;
  #nowMs = 0;
  /** Whether space was being reclaimed at the end of the last slice of work. */
  compacts = false;

  constructor(options: StorageOptions) {
    const { disk, log } = options;
    const { table, index } = log;
    this.#options = options;
    this.#disk = disk;
    this.table = table;
    this.index = index;
    index.batches.endRecovery();
    this.reader = new SegmentReader(disk);
    this.#shortage = new RoomShortage(disk.path, options.notice);
    const tail = new LogWriter(options);
    this.#tail = tail;
    this.timings = tail.timings;
    const compaction = new Compaction(this, tail);
    this.#compaction = compaction;
    this.cut = new LogCut(disk, tail);
    const { reader, cut } = this;
    this.#drop = new SegmentDrop({ disk, table, reader, tail, cut, shortage: this.#shortage });
    this.#tight = new TightRoom({ table, tail, compaction, drop: this.#drop });
    this.#shortage.begin(0, this.shortage);
  }

  /** In a group: whether the shared log is so far behind that the log must take no more for now. */
  get isBackedUp(): boolean {
    const { chain } = this.#tail;
    return chain !== undefined && !chain.hasRoom;
  }

  /** Whether puts must be refused: there is room only for records no longer than an update. */
  get full(): boolean {
    return this.#shortage.full;
  }

  /**
   * Whether a write is waiting for room; some file systems need new blocks even to overwrite.
   * Nothing is lost: the log keeps the data and retries every second. Until then, nothing may be
   * appended, so it keeps at most one record besides the batch. Shards keep their records, and the
   * replies to them wait.
   */
  get waiting(): boolean {
    return this.#shortage.waiting;
  }

  /** Why the log is full: ENOSPC, EDQUOT, EMFILE or ENFILE; "" if it is not. */
  get shortage(): string {
    return this.#tail.segments.shortage;
  }

  /** Returns the number up to which all records of the shard are durable. */
  syncedUpTo(shard: number): number {
    return this.#tail.synced[shard]!;
  }

  /** Returns the last record of the shard up to which all are written, and survive the process. */
  writtenUpTo(shard: number): number {
    return this.#tail.written[shard]!;
  }

  /** Time since which a record waits for a sync; Infinity if none does, as always with -F. */
  get unsyncedSinceMs(): number {
    return this.#tail.unsyncedSinceMs;
  }

  /** Returns the segment of the job's full record (`file` in stats-job); 0 for no job. */
  fileOf(id: number): number {
    return this.index.fullSegmentOf(id);
  }

  /** The highest id that clients may see, because its lend is durable. 0 for none. */
  get idsLent(): number {
    return this.#tail.lending.durableUpTo;
  }

  /** Whether the log must turn for the sake of ids, given the highest id taken so far. */
  lendIsDue(highestId: number): boolean {
    // While the log is full, puts are refused, so none waits for a lend.
    const { lending } = this.#tail;
    return (lending.isDue(highestId) || lending.isUrgent(highestId)) && !this.#shortage.full;
  }

  /** Lends ids after `highestId` if due; they count once a flush has made that durable. */
  lendIds(highestId: number): void {
    const { lending } = this.#tail;
    lending.takenUpTo = highestId;
    if (!lending.isDue(highestId) || this.#shortage.full || this.#closed) return;
    const before = lending.upTo;
    try {
      this.#tail.makeOwnFit();
      lending.extend(highestId);
      this.#tail.appendOwn(OwnKind.mark);
      lending.lent(this.#tail.sequence);
    } catch (error) {
      lending.upTo = before;
      // Puts wait for the lend; the next turn retries it.
      if (!isShortage(error)) this.#fail("write to", error);
      else if (this.#tail.isEnding) this.#shortage.wait(this.#nowMs, systemCode(error));
      else this.#shortage.begin(this.#nowMs, systemCode(error));
    }
  }

  /** Copies record `n` of a shard; it is neither written nor durable before a flush. */
  // put 12/18
  append(shard: number, n: number, bytes: Uint8Array, start: number, length: number): void {
    if (this.failure !== undefined) return;
    assert(!this.#shortage.waiting, "nothing is appended while the log waits for room");
    try {
      this.#take(bytes, start, length);
      this.#tail.appended(shard, n);
    } catch (error) {
      if (!isShortage(error)) this.#fail("write to", error);
      else {
        assert(this.#pending === undefined, "at most one record has no place yet");
        assert(length > 0 && start + length <= bytes.length, "a waiting record lies in its memory");
        this.#pending = { shard, n, bytes: bytes.slice(start, start + length) };
        this.#shortage.wait(this.#nowMs, systemCode(error));
      }
    }
  }

  /** Takes a record during a restore, takeover or rewrite. There, a full disk is a failure. */
  appendOwned(bytes: Uint8Array, start: number, length: number): void {
    if (this.failure !== undefined) return;
    try {
      this.#take(bytes, start, length);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Takes a record of the log itself. Returns false if there is no room for it now. */
  appendNow(bytes: Uint8Array): boolean {
    if (
      this.failure !== undefined ||
      this.#closed ||
      this.#shortage.waiting ||
      this.#shortage.full ||
      this.isBackedUp
    )
      return false;
    try {
      this.#take(bytes, 0, bytes.length);
      return true;
    } catch (error) {
      if (!isShortage(error)) this.#fail("write to", error);
      else if (this.#tail.isEnding) this.#shortage.wait(this.#nowMs, systemCode(error));
      else this.#shortage.begin(this.#nowMs, systemCode(error));
      return false;
    }
  }

  #take(bytes: Uint8Array, start: number, length: number): void {
    if (CHECKED) assert(start + length <= bytes.length, "a taken record lies in its memory");
    assert(!this.#closed, "a closed log takes no record");
    if (this.#tail.segments.shortage !== "") this.#tight.squeeze(FRAME_BYTES + length, this.#nowMs);
    this.#tail.place(bytes, start, length);
    this.recordsWritten++;
    this.#workBytes += PACE * length;
  }

  /** Continues after a lack of room; all interrupted steps are repeatable. */
  #resume(): void {
    this.#compactAtMs = this.#tight.openAtMs = 0;
    this.cut.giveWay();
    this.#tail.resume();
    const pending = this.#pending;
    if (pending !== undefined) {
      this.#take(pending.bytes, 0, pending.bytes.length);
      this.#tail.appended(pending.shard, pending.n);
      this.#pending = undefined;
    }
    // The data has waited longer than the policy allows without a sync.
    if (!this.#tail.policy.never) this.#tail.syncAll(this.#nowMs, false);
    this.#shortage.goOn();
  }

  /** Writes a note into the log itself; it disappears with its segment. */
  appendNote(content: unknown): void {
    const packed = pack(content);
    const bytes = new Uint8Array(1 + packed.length);
    bytes[0] = OwnKind.note;
    bytes.set(packed, 1);
    try {
      this.#tail.place(bytes, 0, bytes.length);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Appends a record for compaction. */
  migrate(bytes: Uint8Array, start: number, length: number): void {
    assert(!this.#closed, "a closed log copies no record");
    this.#tail.place(bytes, start, length);
    this.recordsWritten++;
    this.recordsMigrated++;
  }

  /** Returns, for compaction, whether that many bytes can be copied without new room. */
  hasRoomFor(bytes: number): boolean {
    return this.#tight.isEnoughFor(bytes);
  }

  /** Writes all appended records, and syncs if the policy says so. `nowMs` is monotonic. */
  // put 13/18
  flush(nowMs: number): void {
    if (this.failure !== undefined || this.#closed) return;
    this.#nowMs = nowMs;
    try {
      this.#tail.endSync(nowMs);
    } catch (error) {
      this.#fail("sync", error);
      return;
    }
    try {
      if (this.#shortage.waiting && nowMs >= this.#shortage.resumeAtMs) this.#resume();
      if (!this.#shortage.waiting) this.#tail.flush(nowMs);
    } catch (error) {
      if (isShortage(error)) this.#shortage.wait(nowMs, systemCode(error));
      else this.#fail("write to", error);
    }
    if (this.#shortage.waiting) this.#syncWritten(nowMs);
  }

  /** Syncs in time the records that were acknowledged before the log had to wait. */
  #syncWritten(nowMs: number): void {
    if (this.failure !== undefined) return;
    try {
      this.#tail.syncWritten(nowMs);
    } catch (error) {
      this.#fail("sync", error);
    }
  }

  /** Makes everything durable now, whatever the policy. */
  syncNow(nowMs: number): void {
    if (this.failure !== undefined || this.#closed) return;
    try {
      this.#tail.syncAll(nowMs, false);
    } catch (error) {
      this.#fail("sync", error);
    }
  }

  /**
   * Does one slice of background work, a few milliseconds at most: makes room and compacts. Call it
   * after each flush, and again while it returns true and there is nothing else to do.
   */
  work(nowMs: number): boolean {
    if (this.failure !== undefined || this.#closed || this.#shortage.waiting || this.isBackedUp) return false;
    this.#nowMs = nowMs;
    try {
      const worksOn = this.#work(nowMs);
      const { cut } = this;
      return (cut.isBusy && cut.work(this.#shortage.full)) || worksOn;
    } catch (error) {
      if (!isShortage(error)) this.#fail("compact", error);
      else if (this.#tail.isEnding) this.#shortage.wait(nowMs, systemCode(error));
      else {
        // Nothing is lost: retry later. The next flush writes the batch.
        this.#shortage.begin(nowMs, systemCode(error));
        this.#compactAtMs = nowMs + RETRY_ROOM_MS;
        if (isDescriptorShortage(error)) this.#tight.openAtMs = this.#compactAtMs;
      }
      return false;
    }
  }

  #work(nowMs: number): boolean {
    const waits = this.#shortage.full && nowMs < this.#shortage.retryAtMs;
    const filling = waits ? "full" : this.#tail.keepRoom(!this.#shortage.full);
    if (filling === "full" && !waits) this.#shortage.begin(nowMs, this.shortage);
    else if (filling === "enough") this.#shortage.end();
    const mayCompact = nowMs >= this.#compactAtMs;
    if (mayCompact && this.#tail.dropping !== 0) {
      if (!this.#drop.finish(nowMs)) return filling === "more";
    } else if (mayCompact && this.#compaction.wanted) this.#compactSlice();
    else this.#workBytes = 0;
    this.compacts = this.#tail.dropping !== 0 || this.#compaction.wanted;
    return filling === "more" || (mayCompact && this.compacts);
  }

  #compactSlice(): void {
    // Copies read from the disk, so nothing may remain in the batch.
    this.#tail.write();
    const slice = Math.min(SLICE_BYTES_MAX, Math.max(SLICE_BYTES_MIN, this.#workBytes));
    this.#workBytes = Math.max(0, this.#workBytes - slice);
    const stopAtMs = this.#options.clockMs() + SLICE_MS;
    assert(slice > 0 && this.#workBytes >= 0, "a slice of work has bytes");
    if (this.#compaction.step(slice, () => this.#options.clockMs() >= stopAtMs)) this.#drop.begin();
  }

  /**
   * States in the log, durably, that all segments below this one no longer count. For a rewrite of
   * the whole log into new segments; the caller removes the old ones.
   */
  dropBelow(segment: number, nowMs: number): void {
    if (this.failure !== undefined) return;
    assert(segment <= this.currentSegment, "a log never drops its current segment");
    try {
      this.#tail.oldest = segment;
      this.#tail.appendOwn(OwnKind.drop);
      this.#tail.syncAll(nowMs, false);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Returns when flush or work must be called next if nothing is appended; Infinity for never. */
  nextDeadline(): number {
    if (this.failure !== undefined || this.#closed) return Number.POSITIVE_INFINITY;
    const tail = this.#tail;
    const { syncAtMs, markAtMs } = tail.policy;
    if (this.#shortage.waiting) return Math.min(this.#shortage.resumeAtMs, syncAtMs);
    if (!tail.isFlushed) return 0;
    // While the shared log is behind, its thread rings.
    const dueAtMs = Math.min(syncAtMs, markAtMs, tail.beatAtMs);
    if (this.isBackedUp) return dueAtMs;
    const { retryAtMs } = this.#shortage;
    if (tail.dropping !== 0)
      return Math.min(dueAtMs, this.#drop.lookAtMs(this.#nowMs) ?? this.#compactAtMs, retryAtMs);
    return Math.min(dueAtMs, this.#compaction.wanted ? this.#compactAtMs : retryAtMs, retryAtMs);
  }

  #fail(what: string, error: unknown): void {
    if (error instanceof BinlogError) this.failure = error;
    else if (isShortage(error)) this.failure = this.#tail.segments.noRoomError(error);
    else this.failure = this.#tail.segments.ioError(what, error);
    this.#shortage.full = true;
    // A broken invariant is not a fault of the disk.
    if (error !== this.failure && !isSystemError(error)) throw error;
    const { code, message, nextStep } = this.failure;
    this.#options.notice({ level: "error", code, message: `${message}. ${nextStep}` });
  }

  /** Number of the oldest segment; 0 for none. */
  get oldestSegment(): number {
    return this.table.oldest?.number ?? 0;
  }

  get currentSegment(): number {
    return this.#tail.segments.current.number;
  }

  /** Tries once more to write the waiting records; then the log continues or has failed. */
  endWait(nowMs: number): void {
    assert(this.#shortage.waiting, "only a waiting log ends its wait");
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
    if (this.#shortage.waiting) this.endWait(nowMs);
    if (this.failure === undefined) {
      this.syncNow(nowMs);
      if (this.#tail.needsEnd) this.#endSegment(nowMs, trim);
    }
    this.#closed = true;
    this.#tail.close();
    this.reader.close();
    for (const segment of this.table.all) {
      if (segment.handle !== undefined) this.#disk.close(segment.handle);
      segment.handle = undefined;
    }
  }

  #endSegment(nowMs: number, trim: boolean): void {
    assert(!this.#shortage.waiting, "a log without room can't end its segment");
    try {
      // At a clean end, clients have seen only ids of records, so the rest of the lend is returned.
      this.#tail.lending.upTo = 0;
      const { chain } = this.#tail;
      if (chain !== undefined) chain.kind = LogBatchKind.yield;
      this.#tail.appendOwn(OwnKind.end);
      this.#tail.syncAll(nowMs, true);
      if (trim) this.#tail.segments.trim();
    } catch (error) {
      // Everything is durable; only END is missing. The next start writes it, as after a kill.
      if (!isShortage(error)) this.#fail("close", error);
    }
  }
}
