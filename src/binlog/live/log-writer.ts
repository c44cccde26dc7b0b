// Appends records to the current segment: frames and books them, writes one batch at a time, syncs,
// and tracks the progress of each shard's records. Its policy says when to sync; callers choose the
// current segment, and when to write.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes, Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import { decodeBatch, decodeTally } from "../../message/flow-record.ts";
import { createHistogram, type Histogram } from "../../message/histogram.ts";
import {
  BATCH_BOUNDS_RECORDS,
  LOG_FIGURES,
  LogFigures,
  SYNC_BOUNDS_SECONDS,
} from "../../message/log-figures.ts";
import { RECORD_ID_AT, RecordKind } from "../../message/record.ts";
import { isShortage } from "../disk/binlog-error.ts";
import type { BackgroundSync, Disk } from "../disk/disk.ts";
import type { LogState, RecordIndex, SegmentTable } from "../segments/books.ts";
import {
  encodeOwn,
  FRAME_BYTES,
  frameIsWhole,
  HEADER_BYTES,
  MAX_FRAMED_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  recordExtra,
  recordIsKnown,
  SPARE_BYTES,
  sealFrame,
  settingOf,
} from "../segments/segment-format.ts";
import { BatchChain, type ChainOptions, type WriteBatch } from "./batch-chain.ts";
import { type FillResult, SegmentWriter } from "./segment-writer.ts";

// Options of a log in use, and its callbacks.

/** A line for the server's log output. */
export interface StorageNotice {
  level: "info" | "warn" | "error";
  code: string;
  message: string;
}

/** Asks the shards, which have all jobs in memory, to record parts of jobs once more. */
export interface Restater {
  /** Whether all shards have answered the last request. */
  readonly isAnswered: boolean;
  readonly partsMax: number;
  ask(parts: readonly DamagedPart[]): void;
}

/** See JobPart in ring/shared-words.ts. */
export interface DamagedPart {
  readonly id: number;
  readonly from: number;
  readonly bytes: number;
}

export interface StorageOptions {
  disk: Disk;
  /** Creates a sync in the background; without it, every sync holds up the thread. */
  background?: (() => BackgroundSync) | undefined;
  log: LogState;
  shards: number;
  segmentBytes: number;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  /** Returns wall-clock time, for the headers of segments. */
  wallMs: () => number;
  /** Returns monotonic time with fractions, for measurements and for ending slices of work. */
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  /** Number of ids per lend; LENT_IDS by default. */
  lentIds?: number;
  /**
   * In a group: the place where the log continues the chain of batches, and the sink that sends
   * them to the shared log.
   */
  chain?: ChainOptions | undefined;
  /** Gets records again that can't be read; without it, damage in a sealed segment ends the log. */
  restater?: Restater | undefined;
  /** Takes the segment of a job's full record whenever that changes. */
  files?: { set(id: number, segment: number): void };
}

// Decides when to sync: with every batch (-f 0), early enough that at most MS milliseconds can be
// lost (-f MS), or never (-F).

/**
 * Maximum milliseconds between syncs; 0 for each batch; "never" for syncs only when the log itself
 * needs them.
 */
export type SyncEvery = number | "never";

/**
 * Silence after which the log states that it is durable, so that recovery can tell damage from a
 * torn tail.
 */
const MARK_AFTER_MS = 100;

/**
 * A sync in the background begins at the latest this part of -f before it must be over, because
 * some syncs take a few times as long as most. One that isn't over in time holds up everything.
 */
const BACKGROUND_PART = 0.2;

export class SyncPolicy {
  readonly #every: SyncEvery;
  readonly never: boolean;
  readonly #headStartMs: number;
  /** Arrival of the oldest record that is not durable; Infinity for none. */
  #dirtySinceMs = Number.POSITIVE_INFINITY;
  /** Time at which the log states that it is durable; Infinity for none. */
  markAtMs = Number.POSITIVE_INFINITY;
  #lastSyncTookMs = 0;
  /** When the sync in the background must be over; Infinity for none. */
  #overAtMs = Number.POSITIVE_INFINITY;

  constructor(every: SyncEvery, inBackground = false) {
    assert(every === "never" || every >= 0, "the interval of syncs is never negative");
    this.#every = every;
    this.never = every === "never";
    this.#headStartMs = inBackground && every !== "never" ? every * BACKGROUND_PART : 0;
  }

  /** Starts the time until the next sync when the first records arrive. */
  dirty(nowMs: number): void {
    if (nowMs < this.#dirtySinceMs) this.#dirtySinceMs = nowMs;
    this.markAtMs = Number.POSITIVE_INFINITY;
  }

  mayBegin(nowMs: number): boolean {
    return this.#every === "never" || nowMs < this.#dirtySinceMs + this.#every;
  }

  /** Notes the begin of a sync in the background, of everything that has arrived. */
  begun(): void {
    assert(this.#dirtySinceMs < Number.POSITIVE_INFINITY, "a sync has something to make durable");
    this.#overAtMs = this.#every === "never" ? Number.POSITIVE_INFINITY : this.#dirtySinceMs + this.#every;
    this.#dirtySinceMs = Number.POSITIVE_INFINITY;
  }

  /** Notes the end of a sync in the background. */
  ended(nowMs: number, tookMs: number): void {
    this.#overAtMs = Number.POSITIVE_INFINITY;
    this.#lastSyncTookMs = tookMs;
    if (this.#dirtySinceMs === Number.POSITIVE_INFINITY && !this.never) this.markAtMs = nowMs + MARK_AFTER_MS;
  }

  /** Records that everything is durable. `marked` means that the log itself states it. */
  synced(nowMs: number, tookMs: number, marked: boolean): void {
    assert(!Number.isNaN(tookMs), "the duration of a sync is a number");
    assert(!Number.isNaN(nowMs), "the end of a sync is a number");
    this.#dirtySinceMs = this.#overAtMs = Number.POSITIVE_INFINITY;
    this.markAtMs = marked || this.never ? Number.POSITIVE_INFINITY : nowMs + MARK_AFTER_MS;
    this.#lastSyncTookMs = tookMs;
  }

  /**
   * Time at which the next sync must begin: early enough to finish in time if it takes twice as
   * long as the last one. While one runs in the background: the time at which it must be over.
   */
  get syncAtMs(): number {
    if (this.#every === "never") return Number.POSITIVE_INFINITY;
    const headStartMs = Math.max(this.#headStartMs, 2 * this.#lastSyncTookMs);
    return Math.min(
      this.#overAtMs,
      this.#dirtySinceMs + this.#every - Math.min(this.#every / 2, headStartMs),
    );
  }
}

// HDR histograms of the disk: sync times, batch sizes, and how long batches wait to become durable.

const MINUTE_US = 60_000_000;
const BATCH_BYTES_MAX = 2 ** 31;

/** Counts one value. `at` is the index of the first count. */
export function countFigure(
  figures: Float64Array,
  at: number,
  bounds: readonly number[],
  value: number,
): void {
  let bound = 0;
  while (bound < bounds.length && value > bounds[bound]!) bound++;
  figures[at + bound]!++;
  figures[at + bounds.length + 1]! += value;
}

class StorageTimings {
  /** Duration of a sync, in microseconds. */
  readonly syncUs = createHistogram(MINUTE_US);
  /** Time from the first record of a batch to its sync, in microseconds. */
  readonly waitUs = createHistogram(MINUTE_US);
  /** Bytes of a write. */
  readonly batchBytes = createHistogram(BATCH_BYTES_MAX);
  /** Records of a write. */
  readonly batchRecords = createHistogram(BATCH_BYTES_MAX);
  /** The same with fixed bounds, for metrics: see message/log-figures.ts. */
  readonly figures: Float64Array = new Float64Array(LOG_FIGURES);

  recordSync(tookMs: number, waitedMs: number | undefined): void {
    assert(tookMs >= 0 && (waitedMs ?? 0) >= 0, "a sync takes time");
    countFigure(this.figures, LogFigures.Sync, SYNC_BOUNDS_SECONDS, tookMs / 1000);
    this.syncUs.recordValue(Math.min(MINUTE_US, Math.round(tookMs * 1000)));
    if (waitedMs === undefined) return;
    countFigure(this.figures, LogFigures.Wait, SYNC_BOUNDS_SECONDS, waitedMs / 1000);
    this.waitUs.recordValue(Math.min(MINUTE_US, Math.round(waitedMs * 1000)));
  }

  recordWrite(bytes: number, records: number): void {
    assert(records > 0 && bytes > 0, "a write has records");
    countFigure(this.figures, LogFigures.Batch, BATCH_BOUNDS_RECORDS, records);
    this.figures[LogFigures.WrittenBytes]! += bytes;
    this.batchBytes.recordValue(bytes);
    this.batchRecords.recordValue(records);
  }

  summary(): string {
    const quantiles = (each: Histogram): string =>
      `p50 ${each.getValueAtPercentile(50)}, p99 ${each.getValueAtPercentile(99)}, max ${each.maxValue}`;
    return [
      `${this.syncUs.totalCount} syncs of ${quantiles(this.syncUs)} us`,
      `waits for the disk of ${quantiles(this.waitUs)} us`,
      `batches of ${quantiles(this.batchRecords)} records and ${quantiles(this.batchBytes)} bytes`,
    ].join("; ");
  }
}

// Lends job ids in durable ranges: only lent ids become visible, and after a crash the next id
// comes after all of them.

/** Number of ids per lend. The log lends more when half of the last range is used. */
export const LENT_IDS = 65_536;

export class IdLending {
  readonly #idsAtATime: number;
  /**
   * The highest lent id according to the log, including its next own record. 0 if it has lent none.
   */
  upTo = 0;
  /** Sequence of the record that states the lend, which a put may wait for. */
  sequence = 0;
  /** The highest id that clients may see, because its lend is durable. 0 for none. */
  durableUpTo = 0;
  /** The highest id that a put has taken, as far as the log knows. */
  takenUpTo = 0;

  constructor(idsAtATime = LENT_IDS) {
    assert(idsAtATime > 0, "a lend has ids");
    this.#idsAtATime = idsAtATime;
  }

  /** Returns whether the log must lend more ids, given the highest id taken so far. */
  isDue(highestId: number): boolean {
    return highestId > 0 && highestId + this.#idsAtATime / 2 > this.upTo;
  }

  /**
   * Lends the ids after `highestId`. The caller then appends the record that states the lend, and
   * calls `lent`.
   */
  extend(highestId: number): void {
    assert(highestId > 0 && highestId + this.#idsAtATime > this.upTo, "a lend only adds ids");
    this.upTo = highestId + this.#idsAtATime;
  }

  lent(sequence: number): void {
    assert(sequence > this.sequence, "each lend has its own record");
    this.sequence = sequence;
  }

  /** Whether a put waits until a lend is durable, given the highest id taken so far. */
  isUrgent(highestId: number): boolean {
    return this.upTo > this.durableUpTo && highestId > this.durableUpTo;
  }

  synced(syncedSequence: number): void {
    if (this.sequence <= syncedSequence) this.durableUpTo = this.upTo;
  }
}

// The end of the log, where all records are appended, segment after segment, and written and synced
// according to the policy. Other modules handle dead records at the other end and the lack of room.

const BATCH_BYTES = 1024 * 1024;
/**
 * Bytes of room to make per appended byte. The log leaves a segment at three quarters, so each
 * needs a third more.
 */
const ROOM_PER_BYTE = 1.4;
/** Bytes that compaction goes through per appended byte: faster than the log can grow. */
export const PACE = 4;
/** In a group: the silence after which an empty batch is due. */
const BEAT_MS = 1000;

export class LogWriter {
  readonly timings = new StorageTimings();
  readonly #disk: Disk;
  readonly #background: BackgroundSync | undefined;
  readonly table: SegmentTable;
  readonly index: RecordIndex;
  readonly #clockMs: () => number;
  readonly #wallMs: () => number;
  readonly #files: StorageOptions["files"];
  readonly segments: SegmentWriter;
  readonly lending: IdLending;
  readonly policy: SyncPolicy;
  /** Undefined outside a group. */
  readonly chain: BatchChain | undefined;
  /** Segments below this one no longer count. */
  oldest: number;
  /** Number of records written since the start, including compaction's copies. */
  recordsWritten = 0;
  recordsMigrated = 0;
  /** The segment that is removed once its DROP is durable; 0 for none. */
  dropping = 0;
  /** Consecutive frames that one call writes, and the batch's bytes besides its records. */
  readonly #batch: WriteBatch;
  readonly #batchHeadBytes: number;
  readonly #own: Memory = Memory.ofSize(OWN_RECORD_BYTES);
  /** For each shard, its newest record number that is appended, written, and durable. */
  readonly #appended: Float64Array;
  readonly written: Float64Array;
  readonly synced: Float64Array;
  /** The last sequence that is appended, written, durable, and that a flush has written. */
  sequence: number;
  #writtenSequence: number;
  syncedSequence: number;
  flushedSequence: number;
  /** Bytes written since the last sync began. */
  #writtenBytes = 0;
  #batchSinceMs = 0;
  /** Whether a sync runs in the background. */
  isSyncing = false;
  /** What the sync in the background makes durable: of each shard, and the last sequence. */
  readonly #syncing: Float64Array;
  #syncingSequence = 0;
  #syncingBeganMs = 0;
  /** Arrival of the newest batch in it, and of the oldest after it. */
  #syncingSinceMs = 0;
  #laterSinceMs = 0;
  /** Arrival of the oldest record that is not durable. */
  #unsyncedSinceMs = 0;
  /** The longest frame so far. */
  #largestBytes = 0;
  /** Bytes appended since room was last made. */
  #placedBytes = 0;
  /**
   * Whether the current segment has its END but could not be left yet; nothing may be appended
   * meanwhile.
   */
  isEnding = false;
  /** Time at which an empty batch is due, and the last record before the silence. */
  beatAtMs = Number.POSITIVE_INFINITY;
  #beatSequence = -1;

  constructor(options: StorageOptions) {
    const { disk, log, shards, segmentBytes, randomSalt } = options;
    const { lastSequence } = log;
    assert(shards > 0, "a log has a shard");
    this.#disk = disk;
    this.table = log.table;
    this.index = log.index;
    this.#clockMs = options.clockMs;
    this.#wallMs = options.wallMs;
    this.#files = options.files;
    this.oldest = log.oldest;
    assert(this.oldest >= 1, "the oldest segment has a number");
    this.sequence = this.#writtenSequence = this.syncedSequence = this.flushedSequence = lastSequence;
    this.#appended = new Float64Array(shards);
    this.written = new Float64Array(shards);
    this.synced = new Float64Array(shards);
    this.#syncing = new Float64Array(shards);
    this.policy = new SyncPolicy(options.syncEvery, options.background !== undefined);
    this.lending = new IdLending(options.lentIds);
    this.segments = new SegmentWriter({
      disk,
      background: options.background?.(),
      table: log.table,
      segmentBytes,
      randomSalt,
      first: log.first,
    });
    const chain = options.chain === undefined ? undefined : this.#makeChain(options.chain);
    this.chain = chain;
    this.#batchHeadBytes = chain === undefined ? 0 : chain.frameBytes;
    const memory = Memory.ofSize(chain?.batchBytesMax ?? BATCH_BYTES);
    assert(memory.bytes.length >= MAX_FRAMED_BYTES, "the longest record fits into a batch");
    this.#batch = { memory, usedBytes: 0, records: 0 };
    this.#background = options.background?.();
    this.#beginSegments(log);
  }

  #makeChain(options: ChainOptions): BatchChain {
    this.beatAtMs = 0;
    return new BatchChain({
      ...options,
      idsLent: () => Math.max(this.index.maxId, this.lending.upTo),
      oldest: () => this.oldest,
    });
  }

  #beginSegments({ empty, index, oldest }: LogState): void {
    const { segments } = this;
    try {
      segments.begin(empty, this.#wallMs(), index.maxId, oldest);
      // The spare room for deletes and compaction must exist before the first put.
      segments.fillAtOnce(segments.softLimitBytes);
      while (segments.roomBytes < segments.softLimitBytes && this.fill() === "more") {}
    } catch (error) {
      throw segments.beginError(error);
    }
  }

  /**
   * Whether the log needs an END when it is closed: after records, to return lent ids, and in a
   * group to yield the lead.
   */
  get needsEnd(): boolean {
    const hasRecords = this.segments.current.usedBytes > HEADER_BYTES;
    return hasRecords || this.lending.upTo > this.index.maxId || this.chain !== undefined;
  }

  /** Compaction rewrites segments below this one regardless of their live bytes. */
  get rewriteBelow(): number {
    return Math.max(this.damagedBelow, this.chain?.rewriteBelow ?? 0);
  }

  /** Segments below this one hold damage here or on another server of the group. */
  damagedBelow = 0;

  /** Bytes by which the files may still grow: "Promise" in docs/architecture/log-space.md. */
  get promisedBytes(): number {
    return 2 * (this.table.liveBytes + this.segments.segmentBytes) - this.table.fileBytes();
  }

  /** The most bytes by which they grow while compaction goes through a segment, without copies. */
  get growthBytes(): number {
    const { softLimitBytes, extentBytes, laterBytes } = this.segments;
    return softLimitBytes / PACE + extentBytes + laterBytes;
  }

  /** The bytes that may be lost at the ends of segments where the longest record does not fit. */
  get marginBytes(): number {
    return 2 * (this.#largestBytes + 2 * this.#batchHeadBytes) + 2 * SPARE_BYTES;
  }

  /** Returns whether that many bytes can be copied without new room. */
  hasRoomFor(bytes: number): boolean {
    const { segments } = this;
    return segments.shortage === "" || segments.roomBytes >= bytes + this.marginBytes;
  }

  /** Arrival of the oldest record that is not durable; 0 if all are, as always with -F. */
  get unsyncedSinceMs(): number {
    const isUnsynced = this.sequence > this.syncedSequence && !this.policy.never;
    return isUnsynced ? this.#unsyncedSinceMs : 0;
  }

  // --- records -----------------------------------------------------------------------------------

  /**
   * Appends a copy of a record, in the next segment if necessary: record `n` of a shard or, without
   * a shard, one that has no number.
   */
  place(bytes: Uint8Array, start: number, length: number, shard = -1, n = 0): void {
    assert(!this.isEnding, "no record follows an END");
    // Recovery would mistake an unknown record for damage, so the log must not contain one.
    assert(recordIsKnown(bytes, start, length), "the log can hold the record");
    const framedBytes = FRAME_BYTES + length;
    // A batch may begin with the frame, and another one, for END, may follow.
    const neededBytes = framedBytes + 2 * this.#batchHeadBytes;
    if (!this.segments.fits(neededBytes)) this.#makeFit(neededBytes);
    this.#placedBytes += framedBytes;
    if (framedBytes > this.#largestBytes) this.#largestBytes = framedBytes;
    const at = this.#add(bytes, start, length);
    const { current } = this.segments;
    this.#book(current.number, current.usedBytes - framedBytes, at, length);
    this.recordsWritten++;
    if (CHECKED)
      assert(current.liveBytes <= current.usedBytes - HEADER_BYTES, "live bytes are part of the used bytes");
    if (shard < 0) return;
    assert(n === this.#appended[shard]! + 1, "a shard's records have consecutive numbers");
    this.#appended[shard] = n;
  }

  /** Appends a copy of a record for compaction. */
  migrate(bytes: Uint8Array, start: number, length: number): void {
    this.place(bytes, start, length);
    this.recordsMigrated++;
  }

  /**
   * Switches to the next segment when the current one is full, and makes room there if none was
   * made in time.
   */
  #makeFit(framedBytes: number): void {
    assert(framedBytes > 0, "room is made for a frame");
    const { segments } = this;
    for (;;) {
      if (segments.fits(framedBytes)) return;
      const filled = segments.current.fileBytes >= segments.softLimitBytes;
      if (filled && segments.nextFits(framedBytes)) break;
      if (this.fill() === "more") continue;
      if (segments.fitsTightly(framedBytes)) return;
      if (!segments.nextFits(framedBytes)) throw segments.noRoom();
      break;
    }
    this.leave();
    assert(segments.fitsTightly(framedBytes), "a record fits into the next segment");
  }

  /** Makes room by one step, which with `mayBeLater` need not be over when this returns. */
  fill(mayBeLater = false): FillResult {
    // The header of a new segment is durable at once. A segment being dropped counts until its DROP
    // is durable, and with it the copies before the DROP.
    assert(this.dropping < this.oldest, "a dropped segment no longer counts");
    const oldest = this.dropping === 0 ? this.oldest : this.dropping;
    return this.segments.fill(this.#wallMs(), this.index.maxId, oldest, mayBeLater);
  }

  /** Bytes by which `fillNext` makes the files grow. */
  get fillNextBytes(): number {
    const { extentBytes, next, segmentBytes } = this.segments;
    return Math.min(extentBytes, segmentBytes - (next?.fileBytes ?? 0));
  }

  /** Makes room by one step so that the current segment can be left early. */
  fillNext(): FillResult {
    if (this.segments.next === undefined) return this.fill();
    return this.segments.fillNext();
  }

  /**
   * Makes room by one step, or by as many as were used up since the last slice. If room fell behind
   * under load, an append would have to make it, and a full disk would show too late.
   */
  keepRoom(mayBeLater: boolean): FillResult {
    const { extentBytes, hasEnough } = this.segments;
    let filling = hasEnough ? "enough" : this.fill(mayBeLater);
    for (
      let owedBytes = this.#placedBytes * ROOM_PER_BYTE - extentBytes;
      filling === "more" && owedBytes > 0;
      owedBytes -= extentBytes
    ) {
      filling = this.fill(mayBeLater);
    }
    assert(this.#placedBytes >= 0, "the number of placed bytes is never negative");
    this.#placedBytes = 0;
    return filling;
  }

  /**
   * Appends END, syncs everything, and switches to the next segment. Hence only the newest segment
   * can have a torn tail.
   */
  leave(): void {
    if (!this.isEnding) this.appendOwn(OwnKind.end);
    this.isEnding = true;
    this.write();
    this.#sync();
    assert(this.syncedSequence === this.sequence, "the log leaves only a durable segment");
    this.segments.leave();
    // Its space is free only when nothing has it open.
    this.#background?.forget();
    this.isEnding = false;
    // The next segment must exist before the first record goes into this one; a missing file is
    // then noticed.
    this.fill();
  }

  /** Continues after a lack of room. */
  resume(): void {
    this.write();
    if (this.isEnding) this.leave();
  }

  /** Appends an END, MARK or DROP; there must be room. */
  appendOwn(kind: number): void {
    assert(!this.isEnding, "no record of the log follows an END");
    const hasNext = this.segments.next !== undefined;
    assert(this.oldest <= this.segments.current.number, "the oldest segment is not ahead of the current one");
    const maxId = Math.max(this.index.maxId, this.lending.upTo);
    encodeOwn(this.#own, 0, { kind, hasNext, oldest: this.oldest, maxId });
    this.#add(this.#own.bytes, 0, OWN_RECORD_BYTES);
  }

  /** Writes the batch if it has no room for a MARK or DROP, so that the next one can't fail. */
  makeOwnRoom(): void {
    const { memory, usedBytes } = this.#batch;
    if (usedBytes + FRAME_BYTES + OWN_RECORD_BYTES > memory.bytes.length) this.write();
  }

  /** Makes room for a MARK or DROP, in the next segment if necessary. */
  makeOwnFit(): void {
    const neededBytes = FRAME_BYTES + OWN_RECORD_BYTES + 2 * this.#batchHeadBytes;
    if (!this.segments.fitsTightly(neededBytes)) this.#makeFit(neededBytes);
  }

  /** Copies a record behind its frame to the end of the batch. Returns the record's position. */
  #add(bytes: Uint8Array, start: number, length: number): number {
    const batch = this.#batch;
    const { memory } = batch;
    if (batch.usedBytes + FRAME_BYTES + length > memory.bytes.length) this.write();
    if (batch.usedBytes === 0) this.#beginBatch();
    const segment = this.segments.current;
    segment.usedBytes += FRAME_BYTES + length;
    assert(segment.usedBytes <= segment.fileBytes, "a record ends inside its segment");
    const at = batch.usedBytes;
    const record = at + FRAME_BYTES;
    copyBytes(memory.bytes, record, bytes, start, length);
    sealFrame(memory, at, length, segment.salt, ++this.sequence, this.syncedSequence);
    if (CHECKED) assert(frameIsWhole(memory, at, segment.salt), "a sealed frame is intact");
    batch.usedBytes = record + length;
    batch.records++;
    assert(batch.usedBytes <= memory.bytes.length, "a record ends inside its batch");
    return record;
  }

  #beginBatch(): void {
    this.#batchSinceMs = this.#clockMs();
    if (this.#writtenBytes === 0) {
      if (this.#isAhead) this.#laterSinceMs = this.#batchSinceMs;
      else this.#unsyncedSinceMs = this.#batchSinceMs;
    }
    if (this.chain === undefined) return;
    assert(this.sequence === this.#writtenSequence, "a batch follows written records");
    const { current } = this.segments;
    // The LINK is written when the batch is sealed.
    this.chain.begin(++this.sequence);
    this.#batch.usedBytes = this.#batchHeadBytes;
    this.#batch.records = 1;
    current.usedBytes += this.#batchHeadBytes;
    assert(current.usedBytes <= current.fileBytes, "the head of a batch ends inside its segment");
  }

  #book(segment: number, offset: number, record: number, length: number): void {
    const { memory } = this.#batch;
    const kind = memory.bytes[record]!;
    if (kind >= OwnKind.end) return;
    if (kind === RecordKind.setting) {
      const { pattern, text } = settingOf(memory, record, length);
      this.index.setSetting(pattern, text, segment, offset, FRAME_BYTES + length);
      return;
    }
    if (kind === RecordKind.batch) {
      this.index.setBatch(decodeBatch(memory, record), segment, offset, FRAME_BYTES + length);
      return;
    }
    const id = memory.view.getFloat64(record + RECORD_ID_AT, true);
    if (kind === RecordKind.tally) {
      this.index.batches.setTally(decodeTally(memory.view, record), segment, offset, FRAME_BYTES + length);
      if (id === 0) return;
    }
    assert(id > 0, "the record of a job has an id");
    const extra = recordExtra(memory, record, length);
    assert(offset >= HEADER_BYTES, "a record lies after the header");
    this.index.book(kind, id, segment, offset, FRAME_BYTES + length, extra);
    if (kind === RecordKind.put) this.#files?.set(id, segment);
  }

  // --- writes and syncs --------------------------------------------------------------------------

  /** Whether everything written is durable. */
  get #isSynced(): boolean {
    return this.#writtenBytes === 0 && !this.#isAhead;
  }

  /** Whether a sync in the background makes more durable than is. */
  get #isAhead(): boolean {
    return this.isSyncing && this.#syncingSequence > this.syncedSequence;
  }

  /** Writes everything appended with one call. */
  write(): void {
    const batch = this.#batch;
    const { memory, usedBytes, records } = batch;
    if (usedBytes === 0) return;
    const segment = this.segments.current;
    assert(usedBytes <= segment.usedBytes - HEADER_BYTES, "a batch lies after its segment's header");
    this.chain?.seal(batch, segment, this.syncedSequence);
    assert(segment.handle !== undefined, "the current segment is open");
    this.#disk.write(segment.handle, memory.bytes, 0, usedBytes, segment.usedBytes - usedBytes);
    // A record counts as appended once it is placed, so all records that count are in this batch or
    // an earlier one.
    this.chain?.handOn(batch, this.#appended);
    assert(this.sequence - this.#writtenSequence === records, "each record of a batch has a sequence");
    batch.usedBytes = batch.records = 0;
    this.written.set(this.#appended);
    if (CHECKED)
      assert(
        this.written.every((n, shard) => n >= this.synced[shard]!),
        "durable records were written",
      );
    this.#writtenSequence = this.sequence;
    this.#writtenBytes += usedBytes;
    this.timings.recordWrite(usedBytes, records);
  }

  /** Syncs everything written with one call. Returns the duration in ms; 0 if there is nothing. */
  #sync(marked = false): number {
    if (this.#isSynced) return 0;
    assert(this.#writtenSequence > this.syncedSequence, "bytes to sync belong to records");
    const beganMs = this.#clockMs();
    try {
      this.#disk.sync(this.segments.current.handle!);
    } catch (error) {
      throw this.#syncError(error);
    }
    const endedMs = this.#clockMs();
    assert(endedMs >= beganMs, "a sync takes time");
    // No client waits for a mark.
    this.timings.recordSync(endedMs - beganMs, marked ? undefined : endedMs - this.#batchSinceMs);
    this.#writtenBytes = 0;
    // A batch may remain if there was no room for it.
    this.#unsyncedSinceMs = this.#batchSinceMs;
    this.syncedSequence = this.#writtenSequence;
    assert(this.syncedSequence <= this.sequence, "no record is durable before it is placed");
    this.synced.set(this.written);
    this.lending.synced(this.syncedSequence);
    return endedMs - beganMs;
  }

  /**
   * Begins to sync everything written, in the background. Returns false if that is impossible now.
   */
  #beginSync(): boolean {
    const background = this.#background;
    if (background === undefined || this.isSyncing || this.#writtenBytes === 0) return false;
    assert(this.#writtenSequence > this.syncedSequence, "bytes to sync belong to records");
    const beganMs = this.#clockMs();
    const { number, handle } = this.segments.current;
    if (!background.begin(segmentName(number), handle!)) return false;
    this.isSyncing = true;
    this.#syncingBeganMs = beganMs;
    this.#syncing.set(this.written);
    this.#syncingSequence = this.#writtenSequence;
    this.#syncingSinceMs = this.#batchSinceMs;
    this.#writtenBytes = 0;
    // A batch may remain if there was no room for it.
    this.#laterSinceMs = this.#batchSinceMs;
    return true;
  }

  /**
   * Returns the error of a failed sync. A lack of room is fatal here too: the kernel has dropped
   * the pages, and a second sync doesn't write them again.
   */
  #syncError(error: unknown): unknown {
    return isShortage(error) ? this.segments.ioError("sync", error) : error;
  }

  /** Writes all appended records, and makes them durable. */
  syncAll(nowMs: number, marked: boolean): void {
    this.write();
    this.flushedSequence = this.sequence;
    const tookMs = this.#sync(marked);
    assert(this.syncedSequence === this.sequence, "a sync makes all records durable");
    this.policy.synced(nowMs, tookMs, marked);
  }

  /** Writes all appended records, and syncs if the policy says so. */
  flush(nowMs: number): void {
    if (this.sequence > this.flushedSequence) {
      this.write();
      this.flushedSequence = this.sequence;
      if (this.sequence > this.syncedSequence) this.policy.dirty(nowMs);
    }
    if (this.chain !== undefined) this.#beat(nowMs);
    const lends = this.lending.sequence > this.syncedSequence;
    if (lends && (this.lending.isUrgent(this.lending.takenUpTo) || !this.#lendLater(nowMs)))
      this.syncAll(nowMs, false);
    else if (lends) return;
    else if (nowMs >= this.policy.syncAtMs) this.#syncInTime(nowMs);
    else if (nowMs >= this.policy.markAtMs) this.#mark(nowMs);
  }

  /** Syncs in the background, or at once if that is not possible. */
  #syncInTime(nowMs: number): void {
    assert(this.sequence === this.flushedSequence, "a sync follows written records");
    if (this.policy.mayBegin(nowMs) && this.#beginSync()) this.policy.begun();
    else this.syncAll(nowMs, false);
  }

  /**
   * Makes a lend durable in the background, as long as no put waits for it: after a sync that is
   * under way, if that doesn't include it. Returns false if that is impossible now.
   */
  #lendLater(nowMs: number): boolean {
    assert(this.sequence === this.flushedSequence, "a lend that waits for a sync is written");
    if (this.isSyncing) return nowMs < this.policy.syncAtMs;
    if (!this.policy.mayBegin(nowMs) || !this.#beginSync()) return false;
    this.policy.begun();
    return true;
  }

  /** Ends all work in the background for good. */
  close(): void {
    this.#background?.close();
    this.segments.close();
  }

  /** Notes the end of the sync in the background, if that has ended. Throws if it failed. */
  endSync(nowMs: number): void {
    assert(this.isSyncing, "only a sync that runs ends");
    const ended = this.#background!.take();
    if (ended === undefined) return;
    const { tookMs, error } = ended;
    const wasAhead = this.#isAhead;
    this.isSyncing = false;
    if (error !== undefined) throw this.#syncError(error);
    // Meanwhile, the end of a segment or a lend of ids may have synced everything.
    if (!wasAhead) return;
    assert(this.#syncingSequence > this.syncedSequence, "a sync that is ahead makes records durable");
    // The thread may have slept since the end.
    this.timings.recordSync(tookMs, this.#syncingBeganMs + tookMs - this.#syncingSinceMs);
    this.#unsyncedSinceMs = this.#laterSinceMs;
    this.syncedSequence = this.#syncingSequence;
    assert(this.syncedSequence <= this.#writtenSequence, "no record is durable before it is written");
    this.synced.set(this.#syncing);
    this.lending.synced(this.syncedSequence);
    this.policy.ended(nowMs, tookMs);
  }

  /** Syncs written records in time even while later ones find no room. */
  syncWritten(nowMs: number): void {
    if (!this.#isSynced) this.policy.dirty(nowMs);
    if (nowMs < this.policy.syncAtMs) return;
    const tookMs = this.#sync();
    this.policy.synced(nowMs, tookMs, true);
  }

  /**
   * Writes an empty batch after a silence, so that other nodes hear that this one is alive, and it
   * may keep serving.
   */
  #beat(nowMs: number): void {
    assert(this.sequence >= this.#beatSequence, "the sequence only grows");
    if (this.sequence === this.#beatSequence) {
      if (nowMs < this.beatAtMs) return;
      this.makeOwnFit();
      if (this.#batch.usedBytes === 0) this.#beginBatch();
      assert(this.#batch.records > 0, "an empty batch has its own record");
      this.write();
      this.flushedSequence = this.sequence;
      this.policy.dirty(nowMs);
    }
    this.#beatSequence = this.sequence;
    this.beatAtMs = nowMs + BEAT_MS;
  }

  #mark(nowMs: number): void {
    assert(this.sequence === this.flushedSequence, "a MARK follows written records");
    this.makeOwnFit();
    this.appendOwn(OwnKind.mark);
    this.syncAll(nowMs, true);
  }
}
