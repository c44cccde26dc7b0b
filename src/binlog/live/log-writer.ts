// Appends records to the current segment: frames and books them, writes one batch at a time, syncs,
// and tracks the progress of each shard's records. Callers choose the current segment, and when to
// write and sync.

import { assert, CHECKED } from "../../base/assert.ts";
import { Memory } from "../../base/memory.ts";
import { segmentName } from "../../base/segment-name.ts";
import { decodeBatch, decodeTally } from "../../message/flow-record.ts";
import { RECORD_ID_AT } from "../../message/record.ts";
import type { RecordIndex } from "../books/record-index.ts";
import { isShortage } from "../disk/binlog-error.ts";
import type { BackgroundSync, Disk } from "../disk/disk.ts";
import {
  isBatch,
  isFull,
  isSetting,
  isTally,
  recordExtra,
  recordIsKnown,
  settingOf,
} from "../format/record-kinds.ts";
import {
  encodeOwn,
  FRAME_BYTES,
  frameIsWhole,
  HEADER_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  type OwnRecord,
} from "../format/segment-format.ts";
import type { BatchChain } from "./batch-chain.ts";
import { RecordBatch } from "./record-batch.ts";
import type { SegmentWriter } from "./segment-writer.ts";
import { StorageTimings } from "./storage-timings.ts";

const BATCH_BYTES = 1024 * 1024;

interface LogWriterOptions {
  disk: Disk;
  background: BackgroundSync | undefined;
  segments: SegmentWriter;
  index: RecordIndex;
  shards: number;
  /** The last sequence number in the log. */
  lastSequence: number;
  clockMs: () => number;
  onFull?: ((id: number, segment: number) => void) | undefined;
  /** In a group: assigns each batch its place in the chain, and passes it on. */
  chain?: BatchChain | undefined;
}

export class LogWriter {
  readonly timings = new StorageTimings();
  readonly #disk: Disk;
  readonly #background: BackgroundSync | undefined;
  readonly #segments: SegmentWriter;
  readonly #index: RecordIndex;
  readonly #clockMs: () => number;
  readonly #onFull: ((id: number, segment: number) => void) | undefined;
  readonly #chain: BatchChain | undefined;
  readonly #batch: RecordBatch;
  readonly #own: Memory = Memory.ofSize(OWN_RECORD_BYTES);
  /** For each shard, its newest record number that is appended, written, and durable. */
  readonly #appended: Float64Array;
  readonly #written: Float64Array;
  readonly #synced: Float64Array;
  /** The last sequence that is appended, written, and durable. */
  sequence: number;
  #writtenSequence: number;
  syncedSequence: number;
  /** Bytes written since the last sync began. */
  #writtenBytes = 0;
  #batchSinceMs = 0;
  #isSyncing = false;
  /** What it makes durable: of each shard, and the last sequence. */
  readonly #syncing: Float64Array;
  #syncingSequence = 0;
  #syncingBeganMs = 0;
  /** Arrival of the newest batch in it, and of the oldest after it. */
  #syncingSinceMs = 0;
  #laterSinceMs = 0;
  /** Arrival of the oldest record that is not durable. */
  #unsyncedSinceMs = 0;
  /** The longest frame so far. */
  largestBytes = 0;
  /** Bytes of a batch besides its records. */
  readonly #batchHeadBytes: number;

  constructor(options: LogWriterOptions) {
    const { disk, segments, index, shards, lastSequence, chain } = options;
    this.#disk = disk;
    this.#background = options.background;
    this.#segments = segments;
    this.#index = index;
    this.#clockMs = options.clockMs;
    this.#onFull = options.onFull;
    this.#chain = chain;
    this.#batchHeadBytes = chain === undefined ? 0 : chain.frameBytes;
    this.#batch = new RecordBatch(chain?.batchBytesMax ?? BATCH_BYTES);
    assert(shards > 0, "a log has a shard");
    this.#appended = new Float64Array(shards);
    this.#written = new Float64Array(shards);
    this.#synced = new Float64Array(shards);
    this.#syncing = new Float64Array(shards);
    this.sequence = this.#writtenSequence = this.syncedSequence = lastSequence;
  }

  /**
   * Returns the room that a frame may need in a segment: a batch may begin with it, and another
   * one, for END, may follow.
   */
  bytesFor(framedBytes: number): number {
    if (CHECKED) assert(framedBytes >= 0, "a frame has a length");
    return framedBytes + 2 * this.#batchHeadBytes;
  }

  writtenUpTo(shard: number): number {
    assert(shard >= 0 && shard < this.#written.length, "a shard has written records");
    return this.#written[shard]!;
  }

  syncedUpTo(shard: number): number {
    assert(shard >= 0 && shard < this.#synced.length, "a shard has durable records");
    return this.#synced[shard]!;
  }

  /** Whether everything written is durable. */
  get isSynced(): boolean {
    return this.#writtenBytes === 0 && !this.#isAhead;
  }

  /** Whether a sync in the background has not ended. */
  get isSyncing(): boolean {
    return this.#isSyncing;
  }

  /** Whether a sync in the background makes more durable than is. */
  get #isAhead(): boolean {
    return this.#isSyncing && this.#syncingSequence > this.syncedSequence;
  }

  /** Arrival of the oldest record that is not durable; Infinity if all are durable. */
  get unsyncedSinceMs(): number {
    return this.sequence > this.syncedSequence ? this.#unsyncedSinceMs : Number.POSITIVE_INFINITY;
  }

  /** Registers record `n` of the shard as placed. */
  appended(shard: number, n: number): void {
    assert(n === this.#appended[shard]! + 1, "a shard's records have consecutive numbers");
    this.#appended[shard] = n;
  }

  /** Copies a record to the end of the current segment; there must be room. */
  place(bytes: Uint8Array, start: number, length: number): void {
    // Recovery would mistake an unknown record for damage, so the log must not contain one.
    assert(recordIsKnown(bytes, start, length), "the log can hold the record");
    const framedBytes = FRAME_BYTES + length;
    if (framedBytes > this.largestBytes) this.largestBytes = framedBytes;
    const at = this.#add(bytes, start, length);
    const { current } = this.#segments;
    this.#book(current.number, current.usedBytes - framedBytes, at, length);
    if (CHECKED)
      assert(current.liveBytes <= current.usedBytes - HEADER_BYTES, "live bytes are part of the used bytes");
  }

  /** Appends an END, MARK or DROP. */
  placeOwn(own: OwnRecord): void {
    encodeOwn(this.#own, 0, own);
    this.#add(this.#own.bytes, 0, OWN_RECORD_BYTES);
  }

  /**
   * Writes the buffer if it has no room for a record of this length, so that the next record can't
   * fail.
   */
  makeRoom(length: number): void {
    assert(length > 0, "a record has bytes");
    if (!this.#batch.fits(length)) this.write();
  }

  /** Returns the record's position in the buffer. */
  #add(bytes: Uint8Array, start: number, length: number): number {
    const batch = this.#batch;
    this.makeRoom(length);
    if (batch.usedBytes === 0) this.#begin();
    const segment = this.#segments.current;
    segment.usedBytes += FRAME_BYTES + length;
    assert(segment.usedBytes <= segment.fileBytes, "a record ends inside its segment");
    if (CHECKED) assert(batch.fits(length), "a record ends inside its batch");
    const at = batch.add(bytes, start, length, segment.salt, ++this.sequence, this.syncedSequence);
    if (CHECKED)
      assert(frameIsWhole(batch.memory, at - FRAME_BYTES, segment.salt), "a sealed frame is intact");
    return at;
  }

  #begin(): void {
    this.#batchSinceMs = this.#clockMs();
    if (this.#writtenBytes === 0) {
      if (this.#isAhead) this.#laterSinceMs = this.#batchSinceMs;
      else this.#unsyncedSinceMs = this.#batchSinceMs;
    }
    if (this.#chain === undefined) return;
    assert(this.sequence === this.#writtenSequence, "a batch follows written records");
    this.#chain.begin(this.#batch, ++this.sequence);
    this.#segments.current.usedBytes += this.#batchHeadBytes;
    const { current } = this.#segments;
    assert(current.usedBytes <= current.fileBytes, "the head of a batch ends inside its segment");
  }

  /**
   * Begins a batch without records. After `write`, it tells the shared log that this node is alive.
   */
  beginEmpty(): void {
    assert(this.#chain !== undefined, "only a group needs an empty batch");
    if (this.#batch.usedBytes === 0) this.#begin();
    assert(this.#batch.records > 0, "an empty batch has its own record");
  }

  #book(segment: number, offset: number, record: number, length: number): void {
    const { memory } = this.#batch;
    const kind = memory.bytes[record]!;
    if (kind >= OwnKind.end) return;
    if (isSetting(kind)) {
      const { pattern, text } = settingOf(memory, record, length);
      this.#index.setSetting(pattern, text, segment, offset, FRAME_BYTES + length);
      return;
    }
    if (isBatch(kind)) {
      this.#index.setBatch(decodeBatch(memory, record), segment, offset, FRAME_BYTES + length);
      return;
    }
    const id = memory.view.getFloat64(record + RECORD_ID_AT, true);
    if (isTally(kind)) {
      this.#index.batches.setTally(decodeTally(memory.view, record), segment, offset, FRAME_BYTES + length);
      if (id === 0) return;
    }
    assert(id > 0, "the record of a job has an id");
    const extra = recordExtra(memory, record, length);
    assert(offset >= HEADER_BYTES, "a record lies after the header");
    this.#index.book(kind, id, segment, offset, FRAME_BYTES + length, extra);
    if (isFull(kind)) this.#onFull?.(id, segment);
  }

  /** Writes everything appended with one call. */
  write(): void {
    const batch = this.#batch;
    const { memory, usedBytes, records } = batch;
    if (usedBytes === 0) return;
    const segment = this.#segments.current;
    assert(usedBytes <= segment.usedBytes - HEADER_BYTES, "a batch lies after its segment's header");
    if (this.#chain !== undefined) this.#chain.seal(batch, segment, this.syncedSequence);
    this.#disk.write(this.#segments.handle, memory.bytes, 0, usedBytes, segment.usedBytes - usedBytes);
    // A record counts as appended once it is placed, so all records that count are in this batch or
    // an earlier one.
    this.#chain?.handOn(batch, this.#appended);
    assert(this.sequence - this.#writtenSequence === records, "each record of a batch has a sequence");
    batch.clear();
    this.#written.set(this.#appended);
    if (CHECKED)
      assert(
        this.#written.every((n, shard) => n >= this.#synced[shard]!),
        "durable records were written",
      );
    this.#writtenSequence = this.sequence;
    this.#writtenBytes += usedBytes;
    this.timings.recordWrite(usedBytes, records);
  }

  /** Syncs everything written with one call. Returns the duration in ms. */
  sync(marked = false): number {
    if (this.isSynced) return 0;
    assert(this.#writtenSequence > this.syncedSequence, "bytes to sync belong to records");
    const beganMs = this.#clockMs();
    try {
      this.#disk.sync(this.#segments.handle);
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
    this.#synced.set(this.#written);
    return endedMs - beganMs;
  }

  /**
   * Begins to sync everything written, in the background. Returns false if that is impossible now.
   */
  beginSync(): boolean {
    const background = this.#background;
    if (background === undefined || this.#isSyncing || this.#writtenBytes === 0) return false;
    assert(this.#writtenSequence > this.syncedSequence, "bytes to sync belong to records");
    const beganMs = this.#clockMs();
    if (!background.begin(segmentName(this.#segments.current.number), this.#segments.handle)) return false;
    this.#isSyncing = true;
    this.#syncingBeganMs = beganMs;
    this.#syncing.set(this.#written);
    this.#syncingSequence = this.#writtenSequence;
    this.#syncingSinceMs = this.#batchSinceMs;
    this.#writtenBytes = 0;
    // A batch may remain if there was no room for it.
    this.#laterSinceMs = this.#batchSinceMs;
    return true;
  }

  /** Lets go of a segment that is left: its space is free only when nothing has it open. */
  forgetSegment(): void {
    this.#background?.forget();
  }

  /** Begins no sync in the background from now on. */
  close(): void {
    this.#background?.close();
  }

  /**
   * Ends a sync in the background. Returns its duration in ms, or undefined if none has ended that
   * made anything durable. Throws if it failed.
   */
  endSync(): number | undefined {
    if (!this.#isSyncing) return undefined;
    const ended = this.#background!.take();
    if (ended === undefined) return undefined;
    const { tookMs, error } = ended;
    const wasAhead = this.#isAhead;
    this.#isSyncing = false;
    if (error !== undefined) throw this.#syncError(error);
    // Meanwhile, the end of a segment or a lend of ids may have synced everything.
    if (!wasAhead) return undefined;
    assert(this.#syncingSequence > this.syncedSequence, "a sync that is ahead makes records durable");
    // The thread may have slept since the end.
    this.timings.recordSync(tookMs, this.#syncingBeganMs + tookMs - this.#syncingSinceMs);
    this.#unsyncedSinceMs = this.#laterSinceMs;
    this.syncedSequence = this.#syncingSequence;
    assert(this.syncedSequence <= this.#writtenSequence, "no record is durable before it is written");
    this.#synced.set(this.#syncing);
    return tookMs;
  }

  /**
   * Returns the error of a failed sync. A lack of room is fatal here too: the kernel has dropped
   * the pages, and a second sync doesn't write them again.
   */
  #syncError(error: unknown): unknown {
    return isShortage(error) ? this.#segments.ioError("sync", error) : error;
  }
}
