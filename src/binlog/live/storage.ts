// The log while it is in use: takes records, writes and syncs them in batches, and gives space back. Driven
// step by step by whoever owns it; it starts no timer and no thread. "How a thread drives this" is in
// ../README.md.

import { pack } from "msgpackr";
import { BatchKind } from "../../message/batch.ts";
import type { LogState } from "../books/log-state.ts";
import type { RecordIndex } from "../books/record-index.ts";
import type { SegmentTable } from "../books/segment-table.ts";
import { BinlogError, isDescriptorShortage, isShortage, systemCode } from "../disk/binlog-error.ts";
import type { Disk } from "../disk/disk.ts";
import {
  FRAME_BYTES,
  HEADER_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  SPARE_BYTES,
  segmentName,
} from "../format/segment-format.ts";
import { BatchChain, type ChainOptions } from "./batch-chain.ts";
import { Compaction, type CompactionHost } from "./compaction.ts";
import { LogWriter } from "./log-writer.ts";
import { SegmentReader } from "./segment-reader.ts";
import { SegmentWriter } from "./segment-writer.ts";
import type { StorageTimings } from "./storage-timings.ts";
import { type SyncEvery, SyncPolicy } from "./sync-policy.ts";

const SLICE_BYTES_MIN = 64 * 1024;
const SLICE_BYTES_MAX = 4 * 1024 * 1024;
/** A slice ends soon after this long, so that no reply waits noticeably for it. */
const SLICE_MS = 5;
/** Compaction goes through this many bytes for each byte that is appended: faster than the log can grow. */
const PACE = 4;
/**
 * Room made for each byte that is appended: a segment is left at three quarters, so each needs a third more.
 */
const ROOM_PER_BYTE = 1.4;
const RETRY_ROOM_MS = 1000;
/** In a group: an empty batch after so much silence. */
const BEAT_MS = 1000;
/** How long until the next look at whether the shared log has a DROP. */
const DROP_LOOK_MS = 5;
/**
 * So many job ids are lent at a time: after a crash the next id is behind all of them. A new lend is made when half of
 * the last one is used up.
 */
export const LENT_IDS = 65_536;

/** A record that has been taken from its shard and has no place in the log yet. */
interface PendingRecord {
  shard: number;
  n: number;
  bytes: Uint8Array;
}

/** A line for the log of the server. */
export interface StorageNotice {
  level: "info" | "warn" | "error";
  code: string;
  message: string;
}

export interface StorageOptions {
  disk: Disk;
  log: LogState;
  shards: number;
  segmentBytes: number;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  /** Wall clock, for the headers of segments. */
  wallMs: () => number;
  /** Monotonic clock with fractions, for measuring and for ending slices of work. */
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  /** Ids lent at a time; LENT_IDS if it is left out. */
  lentIds?: number;
  /** In a group: where the log goes on in the chain of batches, and who brings them to the shared log. */
  chain?: ChainOptions | undefined;
  /** Told in which segment a job's full record is now. */
  onFull?: (id: number, segment: number) => void;
}

export interface StorageStats {
  oldestSegment: number;
  currentSegment: number;
  recordsWritten: number;
  recordsMigrated: number;
  diskBytes: number;
  /** What a rewrite of the live jobs would take. */
  liveBytes: number;
  jobs: number;
}

export class Storage implements CompactionHost {
  readonly #disk: Disk;
  readonly #writer: SegmentWriter;
  readonly #records: LogWriter;
  readonly #policy: SyncPolicy;
  readonly #compaction: Compaction;
  readonly #options: StorageOptions;
  readonly table: SegmentTable;
  readonly index: RecordIndex;
  readonly reader: SegmentReader;
  readonly timings: StorageTimings;
  #flushedSequence: number;
  #oldest: number;
  /** The segment whose live records are all appended again, and the DROP that says so; 0: none. */
  #dropping = 0;
  #dropSequence = 0;
  /** Its file is gone, and its name may not be yet. */
  #unlinked = false;
  #workBytes = 0;
  /** Bytes appended since room was last made. */
  #placedBytes = 0;
  #retryRoomAtMs = Number.POSITIVE_INFINITY;
  /** Compaction waits until then; 0: it does not. */
  #compactAtMs = 0;
  /** No file can be opened before then: there was no descriptor. */
  #openAtMs = 0;
  #full = false;
  /** Nothing can be written until there is room: see `waiting`. */
  #waiting = false;
  #resumeAtMs = 0;
  #pending: PendingRecord | undefined;
  /** The current segment has its END, so nothing may follow; it could not be left yet. */
  #ending = false;
  #failure: BinlogError | undefined;
  /** What the log says about ids: none up to this one is given again after a crash. 0: it has lent none yet. */
  #lentUpTo = 0;
  readonly #lentIds: number;
  #lendSequence = 0;
  #durablyLentUpTo = 0;
  /** Undefined outside of a group. */
  readonly #chain: BatchChain | undefined;
  /** The batch that holds the DROP under way, or a later one; 0: it is not written. */
  #dropBatch = 0;
  /** When an empty batch is due, and the last record before. */
  #beatAtMs = Number.POSITIVE_INFINITY;
  #beatSequence = -1;
  #recordsWritten = 0;
  #recordsMigrated = 0;
  #closed = false;
  #nowMs = 0;

  constructor(options: StorageOptions) {
    const { disk, log, shards } = options;
    this.#options = options;
    this.#lentIds = options.lentIds ?? LENT_IDS;
    this.#disk = disk;
    this.table = log.table;
    this.index = log.index;
    this.reader = new SegmentReader(disk);
    this.#policy = new SyncPolicy(options.syncEvery);
    this.#flushedSequence = log.lastSequence;
    this.#oldest = log.oldest;
    const { segmentBytes, randomSalt, clockMs, onFull } = options;
    this.#writer = new SegmentWriter({ disk, table: log.table, segmentBytes, randomSalt, first: log.first });
    const { index, lastSequence } = log;
    this.#chain = options.chain === undefined ? undefined : this.#makeChain(options.chain);
    this.#records = new LogWriter({
      disk,
      segments: this.#writer,
      index,
      shards,
      lastSequence,
      clockMs,
      onFull,
      chain: this.#chain,
    });
    this.timings = this.#records.timings;
    try {
      this.#writer.begin(log.empty, options.wallMs(), log.index.maxId, log.oldest);
      // The reserve of deletes and compaction has to be there before the first put is taken.
      while (this.#writer.roomBytes < this.#writer.softLimitBytes && this.#fill() === "more") {}
    } catch (error) {
      throw this.#writer.beginError(error);
    }
    this.#compaction = new Compaction(this);
    this.#noteShortage(0);
  }

  #makeChain(options: ChainOptions): BatchChain {
    this.#beatAtMs = 0;
    return new BatchChain({
      ...options,
      idsLent: () => Math.max(this.index.maxId, this.#lentUpTo),
      oldest: () => this.#oldest,
    });
  }

  /** In a group: the shared log is so far behind that nothing more may be taken for now. */
  get isBackedUp(): boolean {
    return this.#chain !== undefined && !this.#chain.hasRoom;
  }

  /** Called by compaction: segments below this one go, whatever is live in them. */
  get rewriteBelow(): number {
    return this.#chain?.rewriteBelow ?? 0;
  }

  /** Set once the log cannot go on: from then on nothing is taken and nothing more becomes durable. */
  get failure(): BinlogError | undefined {
    return this.#failure;
  }

  /** Puts must be refused (OUT_OF_MEMORY): there is only room for what needs no more than an update. */
  get full(): boolean {
    return this.#full;
  }

  /**
   * Something could not be written for want of room; some file systems want new blocks even for what is
   * written over. Nothing was lost: it is kept and tried again each second. Until then nothing may be
   * appended, so at most one record is kept besides the batch; shards wait with theirs, and replies with
   * those.
   */
  get waiting(): boolean {
    return this.#waiting;
  }

  /** Why it is full: ENOSPC, EDQUOT, EMFILE or ENFILE; "" if it is not. */
  get shortage(): string {
    return this.#writer.shortage;
  }

  get softLimitBytes(): number {
    return this.#writer.softLimitBytes;
  }

  /** All records of the shard up to this number are durable. */
  syncedUpTo(shard: number): number {
    return this.#records.syncedUpTo(shard);
  }

  /** All records of the shard up to this number are written: they outlive the process. */
  writtenUpTo(shard: number): number {
    return this.#records.writtenUpTo(shard);
  }

  /** The segment that holds the job's latest full record (`file` in stats-job); 0: no such job. */
  fileOf(id: number): number {
    return this.index.fullSegmentOf(id);
  }

  /** Ids up to this one may be seen by clients: it is durable that they were lent. 0: none. */
  get idsLent(): number {
    return this.#durablyLentUpTo;
  }

  /** Whether ids have to be lent before many are taken behind `highestId`, the last that was. */
  lendIsDue(highestId: number): boolean {
    // While it is full puts are refused, and nobody waits for a lend.
    return highestId > 0 && highestId + this.#lentIds / 2 > this.#lentUpTo && !this.#full;
  }

  /** Lends the ids behind `highestId`, if that is due; they are lent once the next flush has made it durable. */
  lendIds(highestId: number): void {
    if (!this.lendIsDue(highestId)) return;
    if (this.#failure !== undefined || this.#waiting || this.#closed) return;
    const before = this.#lentUpTo;
    try {
      this.#makeOwnFit();
      this.#lentUpTo = highestId + this.#lentIds;
      this.#appendOwnKind(OwnKind.mark);
      this.#lendSequence = this.#sequence;
    } catch (error) {
      this.#lentUpTo = before;
      // Puts wait for it, and it is tried again in the next turn.
      if (isShortage(error)) this.#noteShortage(this.#nowMs, systemCode(error));
      else this.#fail("write to", error);
    }
  }

  /**
   * Takes record number `n` of a shard; the bytes are copied. Not durable, not even written, before flush.
   */
  append(shard: number, n: number, bytes: Uint8Array, start: number, length: number): void {
    if (this.#failure !== undefined) return;
    if (this.#waiting) throw new Error("the log waits for room");
    try {
      this.#take(bytes, start, length);
      this.#records.appended(shard, n);
    } catch (error) {
      if (!isShortage(error)) this.#fail("write to", error);
      else {
        this.#pending = { shard, n, bytes: bytes.slice(start, start + length) };
        this.#wait(error);
      }
    }
  }

  /**
   * Takes a record that no shard waits for: what a restore, a takeover or a rewrite brings in. A full disk
   * ends that.
   */
  appendOwned(bytes: Uint8Array, start: number, length: number): void {
    if (this.#failure !== undefined) return;
    try {
      this.#take(bytes, start, length);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  #take(bytes: Uint8Array, start: number, length: number): void {
    if (this.#writer.shortage !== "") this.#squeeze(FRAME_BYTES + length);
    this.#place(bytes, start, length);
    this.#recordsWritten++;
    this.#workBytes += PACE * length;
  }

  /**
   * Something found no room: all that was appended is kept, and nothing more is taken until it is written.
   */
  #wait(error: unknown): void {
    const code = systemCode(error);
    this.#resumeAtMs = this.#nowMs + RETRY_ROOM_MS;
    this.#noteShortage(this.#nowMs, code);
    if (this.#waiting) return;
    this.#waiting = true;
    const message = `Nothing can be written to ${this.#disk.path} (${code}): changes of jobs wait until there is room`;
    this.#options.notice({ level: "error", code: "BINLOG_WAITS", message });
  }

  /** Goes on where it found no room. Every step that may have been interrupted by that can be taken again. */
  #resume(): void {
    this.#compactAtMs = this.#openAtMs = 0;
    this.#write();
    if (this.#ending) this.#leave();
    const pending = this.#pending;
    if (pending !== undefined) {
      this.#take(pending.bytes, 0, pending.bytes.length);
      this.#records.appended(pending.shard, pending.n);
      this.#pending = undefined;
    }
    // It has waited for longer than it may be without a sync.
    if (!this.#policy.never) this.#syncAll(this.#nowMs, false);
    this.#waiting = false;
    const message = `Changes of jobs are written to ${this.#disk.path} again`;
    this.#options.notice({ level: "info", code: "BINLOG_GOES_ON", message });
  }

  /** Notes something in the log itself; it is dropped with its segment. */
  appendNote(content: unknown): void {
    const packed = pack(content);
    const bytes = new Uint8Array(1 + packed.length);
    bytes[0] = OwnKind.note;
    bytes.set(packed, 1);
    try {
      this.#place(bytes, 0, bytes.length);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  /** Called by compaction. */
  migrate(bytes: Uint8Array, start: number, length: number): void {
    this.#place(bytes, start, length);
    this.#recordsWritten++;
    this.#recordsMigrated++;
  }

  #place(bytes: Uint8Array, start: number, length: number): void {
    const framedBytes = FRAME_BYTES + length;
    const neededBytes = this.#records.bytesFor(framedBytes);
    if (!this.#writer.fits(neededBytes)) this.#makeFit(neededBytes);
    this.#placedBytes += framedBytes;
    this.#records.place(bytes, start, length);
  }

  /** The current segment is full: goes to the next one, making room there if that was not done in time. */
  #makeFit(framedBytes: number): void {
    const writer = this.#writer;
    for (;;) {
      if (writer.fits(framedBytes)) return;
      const filled = writer.current.fileBytes >= writer.softLimitBytes;
      if (filled && writer.nextFits(framedBytes)) break;
      if (this.#fill() === "more") continue;
      if (writer.fitsTightly(framedBytes)) return;
      if (!writer.nextFits(framedBytes)) throw writer.noRoom();
      break;
    }
    this.#leave();
  }

  /**
   * There is no new room. What is needed to empty the oldest segment is kept for just that: before a record
   * would take of it, the log is compacted here and now. The shards wait meanwhile; better than having no way
   * out.
   */
  #squeeze(framedBytes: number): void {
    // In a group a segment goes when the shared log has its DROP: nothing here may wait for that.
    if (this.#chain !== undefined) return;
    let rounds = 2 * this.table.all.length;
    while (rounds > 0 && this.#writer.roomBytes < this.#reserveBytes() + framedBytes) {
      if (!this.#emptyOldest(framedBytes)) return;
      this.#syncAll(this.#nowMs, false);
      this.#dropOldest();
      while (this.#fill() === "more") {}
      rounds--;
    }
  }

  /** What the segment with most live bytes needs to be copied. */
  #reserveBytes(): number {
    let mostBytes = this.#writer.softLimitBytes / 8;
    for (const segment of this.table.all)
      if (segment.sealed) mostBytes = Math.max(mostBytes, segment.liveBytes);
    return mostBytes + this.#marginBytes();
  }

  /**
   * Copies what is live in the oldest segment, and appends its DROP; false if that gains nothing, or cannot
   * be done now.
   */
  #emptyOldest(framedBytes: number): boolean {
    const { table } = this;
    const writer = this.#writer;
    if (this.#compaction.deadBytes < writer.softLimitBytes / 16) return false;
    if (this.#dropping === 0 && !this.hasRoomFor(table.oldest?.liveBytes ?? 0)) return false;
    this.#write();
    if (table.sealedCount === 0) {
      if (!writer.nextFits(framedBytes)) return false;
      this.#leave();
    }
    if (this.#dropping !== 0) return true;
    if (!this.#compactNow()) return false;
    this.#beginDrop();
    return true;
  }

  /** Empties the oldest segment; false if that has to wait for a descriptor. */
  #compactNow(): boolean {
    if (this.#nowMs < this.#openAtMs) return false;
    try {
      return this.#compaction.step(Number.POSITIVE_INFINITY, () => false);
    } catch (error) {
      // What was copied by then is booked; the room that is left is all there is until one can be opened.
      if (!isDescriptorShortage(error)) throw error;
      this.#openAtMs = this.#nowMs + RETRY_ROOM_MS;
      return false;
    }
  }

  /** Called by compaction: whether so much can be copied without new room. */
  hasRoomFor(bytes: number): boolean {
    return this.#writer.shortage === "" || this.#writer.roomBytes >= bytes + this.#marginBytes();
  }

  /** What may be lost at the ends of segments because a record does not fit there. */
  #marginBytes(): number {
    return 2 * this.#records.bytesFor(this.#records.largestBytes) + 2 * SPARE_BYTES;
  }

  #fill(): "enough" | "more" | "full" {
    // The header of a new segment is durable at once. The segment that is being dropped counts until its DROP
    // is, too, and with it the copies before it.
    const oldest = this.#dropping === 0 ? this.#oldest : this.#dropping;
    return this.#writer.fill(this.#options.wallMs(), this.index.maxId, oldest);
  }

  /** END, all durable, then on to the next segment: only the newest segment can ever have a torn tail. */
  #leave(): void {
    if (!this.#ending) this.#appendOwnKind(OwnKind.end);
    this.#ending = true;
    this.#write();
    this.#sync();
    this.#writer.leave();
    this.#ending = false;
    // Before the first record goes into a segment, the next one is there: a file that is gone is noticed
    // then.
    this.#fill();
  }

  #appendOwnKind(kind: number): void {
    const hasNext = this.#writer.next !== undefined;
    const maxId = Math.max(this.index.maxId, this.#lentUpTo);
    this.#records.placeOwn({ kind, hasNext, oldest: this.#oldest, maxId });
  }

  #write(): void {
    this.#records.write();
  }

  /** Returns how long it took, ms. */
  #sync(marked = false): number {
    const tookMs = this.#records.sync(marked);
    if (this.#lendSequence <= this.#syncedSequence) this.#durablyLentUpTo = this.#lentUpTo;
    return tookMs;
  }

  get #sequence(): number {
    return this.#records.sequence;
  }

  get #syncedSequence(): number {
    return this.#records.syncedSequence;
  }

  /** Writes what was appended, and syncs if the policy says so. `nowMs` is monotonic. */
  flush(nowMs: number): void {
    if (this.#failure !== undefined || this.#closed) return;
    this.#nowMs = nowMs;
    if (this.#waiting && nowMs < this.#resumeAtMs) return;
    try {
      if (this.#waiting) this.#resume();
      this.#flush(nowMs);
    } catch (error) {
      if (isShortage(error)) this.#wait(error);
      else this.#fail("write to", error);
    }
  }

  #flush(nowMs: number): void {
    if (this.#sequence > this.#flushedSequence) {
      this.#write();
      this.#flushedSequence = this.#sequence;
      if (this.#sequence > this.#syncedSequence) this.#policy.dirty(nowMs);
    }
    if (this.#chain !== undefined) this.#beat(nowMs);
    const lends = this.#lendSequence > this.#syncedSequence;
    if (lends || nowMs >= this.#policy.syncAtMs) this.#syncAll(nowMs, false);
    else if (nowMs >= this.#policy.markAtMs) this.#mark(nowMs);
  }

  /** An empty batch, if none came for a while: others hear that this node lives, and it may go on serving. */
  #beat(nowMs: number): void {
    if (this.#sequence === this.#beatSequence) {
      if (nowMs < this.#beatAtMs) return;
      this.#makeOwnFit();
      this.#records.beginEmpty();
      this.#write();
      this.#flushedSequence = this.#sequence;
      this.#policy.dirty(nowMs);
    }
    this.#beatSequence = this.#sequence;
    this.#beatAtMs = nowMs + BEAT_MS;
  }

  #syncAll(nowMs: number, marked: boolean): void {
    this.#write();
    this.#flushedSequence = this.#sequence;
    const tookMs = this.#sync(marked);
    this.#policy.synced(nowMs, tookMs, marked);
  }

  /** Makes room for a MARK or DROP, if need be in the next segment. */
  #makeOwnFit(): void {
    const neededBytes = this.#records.bytesFor(FRAME_BYTES + OWN_RECORD_BYTES);
    if (!this.#writer.fitsTightly(neededBytes)) this.#makeFit(neededBytes);
  }

  #mark(nowMs: number): void {
    this.#makeOwnFit();
    this.#appendOwnKind(OwnKind.mark);
    this.#syncAll(nowMs, true);
  }

  /** Makes everything durable now, whatever the policy. */
  syncNow(nowMs: number): void {
    if (this.#failure !== undefined || this.#closed) return;
    try {
      this.#syncAll(nowMs, false);
    } catch (error) {
      this.#fail("sync", error);
    }
  }

  /**
   * One slice of background work: room ahead, compaction. Call it after each flush, and again at once while
   * it returns true and nothing else is to do. A slice takes a few milliseconds at most.
   */
  work(nowMs: number): boolean {
    if (this.#failure !== undefined || this.#closed || this.#waiting || this.isBackedUp) return false;
    this.#nowMs = nowMs;
    try {
      return this.#work(nowMs);
    } catch (error) {
      if (!isShortage(error)) this.#fail("compact", error);
      else if (this.#ending) this.#wait(error);
      else {
        // Nothing was lost: later. What is in the batch is for the next flush to write.
        this.#noteShortage(nowMs, systemCode(error));
        this.#compactAtMs = nowMs + RETRY_ROOM_MS;
        if (isDescriptorShortage(error)) this.#openAtMs = this.#compactAtMs;
      }
      return false;
    }
  }

  #work(nowMs: number): boolean {
    const waits = this.#full && nowMs < this.#retryRoomAtMs;
    const filling = waits ? "full" : this.#keepRoom();
    if (filling === "full" && !waits) this.#noteShortage(nowMs);
    else if (filling === "enough") this.#noteRoom();
    const mayCompact = nowMs >= this.#compactAtMs;
    if (mayCompact && this.#dropping !== 0) {
      if (!this.#finishDrop(nowMs)) return filling === "more";
    } else if (mayCompact && this.#compaction.wanted) this.#compactSlice();
    else this.#workBytes = 0;
    return filling === "more" || (mayCompact && (this.#dropping !== 0 || this.#compaction.wanted));
  }

  /** Removes the segment whose DROP is durable; false while the shared log does not have that. */
  #finishDrop(nowMs: number): boolean {
    if (this.#syncedSequence < this.#dropSequence) this.#syncAll(nowMs, false);
    if (!this.#dropIsAcknowledged()) return false;
    this.#dropOldest();
    return true;
  }

  /** In a group a segment is needed until the shared log has all copies, and the DROP behind them. */
  #dropIsAcknowledged(): boolean {
    if (this.#chain === undefined) return true;
    this.#dropBatch ||= this.#chain.place.n;
    return this.#chain.isAcknowledged(this.#dropBatch);
  }

  #compactSlice(): void {
    // Copies read what is on the disk, so nothing may wait in the batch.
    this.#write();
    const slice = Math.min(SLICE_BYTES_MAX, Math.max(SLICE_BYTES_MIN, this.#workBytes));
    this.#workBytes = Math.max(0, this.#workBytes - slice);
    const stopAtMs = this.#options.clockMs() + SLICE_MS;
    if (this.#compaction.step(slice, () => this.#options.clockMs() >= stopAtMs)) this.#beginDrop();
  }

  /**
   * One step of making room, or as many as what was appended since the last slice has used up: room that
   * falls behind under load would have to be made up for in the middle of an append, and a full disk would
   * show too late.
   */
  #keepRoom(): "enough" | "more" | "full" {
    const { extentBytes } = this.#writer;
    let filling = this.#fill();
    for (
      let owedBytes = this.#placedBytes * ROOM_PER_BYTE - extentBytes;
      filling === "more" && owedBytes > 0;
      owedBytes -= extentBytes
    ) {
      filling = this.#fill();
    }
    this.#placedBytes = 0;
    return filling;
  }

  #beginDrop(): void {
    this.#makeOwnFit();
    this.#records.makeRoom(OWN_RECORD_BYTES);
    // From here on nothing may fail: a segment is only dropped by a DROP that is in the log.
    this.#dropBatch = 0;
    this.#dropping = this.table.oldest!.number;
    this.#oldest = this.#dropping + 1;
    this.#appendOwnKind(OwnKind.drop);
    this.#dropSequence = this.#sequence;
  }

  #dropOldest(): void {
    const { number } = this.table.oldest!;
    this.reader.forget(number);
    // A quota may refuse even this: the segment is booked out when it is gone, so that each step is tried
    // again.
    if (!this.#unlinked) this.#disk.unlink(segmentName(number));
    this.#unlinked = true;
    this.#disk.syncFolder();
    this.#unlinked = false;
    this.table.removeOldest();
    this.#dropping = 0;
    this.#retryRoomAtMs = 0;
  }

  /**
   * Says in the log that all segments below this one no longer count, and makes that durable. For a rewrite
   * of the whole log into new segments; the caller removes the old ones.
   */
  dropBelow(segment: number, nowMs: number): void {
    if (this.#failure !== undefined) return;
    try {
      this.#oldest = segment;
      this.#appendOwnKind(OwnKind.drop);
      this.#syncAll(nowMs, false);
    } catch (error) {
      this.#fail("write to", error);
    }
  }

  #noteShortage(nowMs: number, code = this.#writer.shortage): void {
    if (code === "") return;
    this.#retryRoomAtMs = nowMs + RETRY_ROOM_MS;
    if (this.#full) return;
    this.#full = true;
    const what = code.endsWith("FILE") ? "There are no file descriptors left" : "The disk is full";
    const message = `${what} (${code}): puts are refused until there is room in ${this.#disk.path}`;
    this.#options.notice({ level: "error", code: "BINLOG_FULL", message });
  }

  #noteRoom(): void {
    this.#retryRoomAtMs = Number.POSITIVE_INFINITY;
    if (!this.#full) return;
    this.#full = false;
    const message = `There is room again in ${this.#disk.path}: puts are taken`;
    this.#options.notice({ level: "info", code: "BINLOG_ROOM", message });
  }

  /** When flush or work has to be called next, if nothing is appended before; Infinity: never. */
  nextDeadline(): number {
    if (this.#failure !== undefined || this.#closed) return Number.POSITIVE_INFINITY;
    if (this.#waiting) return this.#resumeAtMs;
    if (this.#sequence > this.#flushedSequence) return 0;
    if (this.#dropping !== 0) return this.#dropDeadline();
    const compactAtMs = this.#compaction.wanted ? this.#compactAtMs : Number.POSITIVE_INFINITY;
    const { syncAtMs, markAtMs } = this.#policy;
    return Math.min(compactAtMs, syncAtMs, markAtMs, this.#retryRoomAtMs, this.#beatAtMs);
  }

  #dropDeadline(): number {
    if (this.#chain === undefined || this.#dropBatch === 0) return this.#compactAtMs;
    return Math.min(this.#nowMs + DROP_LOOK_MS, this.#policy.syncAtMs, this.#beatAtMs);
  }

  #fail(what: string, error: unknown): void {
    if (error instanceof BinlogError) this.#failure = error;
    else if (isShortage(error)) this.#failure = this.#writer.noRoomError(error);
    else this.#failure = this.#writer.ioError(what, error);
    this.#full = true;
    const { code, message, nextStep } = this.#failure;
    this.#options.notice({ level: "error", code, message: `${message}. ${nextStep}` });
  }

  /** What the files take on the disk. */
  get fileBytes(): number {
    return this.table.fileBytes();
  }

  /** What a rewrite of all live jobs would take. */
  get liveBytes(): number {
    return this.table.liveBytes;
  }

  /** Number of the oldest segment, 0 for none. */
  get oldestSegment(): number {
    return this.table.oldest?.number ?? 0;
  }

  get currentSegment(): number {
    return this.#writer.current.number;
  }

  /** Since the start, with those that compaction wrote again. */
  get recordsWritten(): number {
    return this.#recordsWritten;
  }

  get recordsMigrated(): number {
    return this.#recordsMigrated;
  }

  stats(): StorageStats {
    return {
      oldestSegment: this.oldestSegment,
      currentSegment: this.currentSegment,
      recordsWritten: this.#recordsWritten,
      recordsMigrated: this.#recordsMigrated,
      diskBytes: this.table.fileBytes(),
      liveBytes: this.table.liveBytes,
      jobs: this.index.jobs,
    };
  }

  /** The last try of what waits for room, before the end: the log goes on, or it has failed. */
  endWait(nowMs: number): void {
    this.#nowMs = nowMs;
    try {
      this.#resume();
    } catch (error) {
      this.#fail("close", error);
    }
  }

  /**
   * Makes everything durable, ends the segment and closes the files. `trim` gives back what was zero-filled
   * ahead; a server that starts again soon is better off with it.
   */
  close(nowMs: number, trim = false): void {
    if (this.#closed) return;
    if (this.#waiting) this.endWait(nowMs);
    if (this.#failure === undefined) {
      this.syncNow(nowMs);
      if (this.#writer.current.usedBytes > HEADER_BYTES) this.#endSegment(nowMs, trim);
    }
    this.#closed = true;
    this.reader.close();
    for (const segment of this.table.all) {
      if (segment.handle !== undefined) this.#disk.close(segment.handle);
      segment.handle = undefined;
    }
  }

  #endSegment(nowMs: number, trim: boolean): void {
    try {
      // In order: no id was seen but those of records, so the rest of the lend is given back.
      this.#lentUpTo = 0;
      if (this.#chain !== undefined) this.#chain.kind = BatchKind.yield;
      this.#appendOwnKind(OwnKind.end);
      this.#syncAll(nowMs, true);
      if (trim) this.#writer.trim();
    } catch (error) {
      // All is durable; only END is missing, and the next start writes that as after a kill.
      if (!isShortage(error)) this.#fail("close", error);
    }
  }
}
