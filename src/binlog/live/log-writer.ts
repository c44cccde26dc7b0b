// Puts records into the current segment: frames them, keeps the books, writes a batch at a time, syncs, and knows how far each
// shard's records have come. Which segment is the current one, and when to write and sync, others decide.

import { latin1 } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import { patternBytesOf, RECORD_ID_AT, RecordKind, SETTING_HEADER_BYTES } from "../../message/record.ts";
import type { RecordIndex } from "../books/record-index.ts";
import { isShortage } from "../disk/binlog-error.ts";
import type { Disk } from "../disk/disk.ts";
import {
  encodeOwn,
  FRAME_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  type OwnRecord,
  recordExtra,
  recordIsKnown,
} from "../format/segment-format.ts";
import type { BatchChain } from "./batch-chain.ts";
import { RecordBatch } from "./record-batch.ts";
import type { SegmentWriter } from "./segment-writer.ts";
import { StorageTimings } from "./storage-timings.ts";

const BATCH_BYTES = 1024 * 1024;

export interface LogWriterOptions {
  disk: Disk;
  segments: SegmentWriter;
  index: RecordIndex;
  shards: number;
  /** The last sequence number in the log. */
  lastSequence: number;
  clockMs: () => number;
  onFull?: ((id: number, segment: number) => void) | undefined;
  /** In a group: each batch gets its place in the chain, and is handed on. */
  chain?: BatchChain | undefined;
}

export class LogWriter {
  readonly timings = new StorageTimings();
  readonly #disk: Disk;
  readonly #segments: SegmentWriter;
  readonly #index: RecordIndex;
  readonly #clockMs: () => number;
  readonly #onFull: ((id: number, segment: number) => void) | undefined;
  readonly #chain: BatchChain | undefined;
  readonly #batch: RecordBatch;
  readonly #own: Memory = Memory.ofSize(OWN_RECORD_BYTES);
  /** The newest record number of each shard that was appended, that is written, and that is durable. */
  readonly #appended: Float64Array;
  readonly #written: Float64Array;
  readonly #synced: Float64Array;
  /** Of the last record that was appended, that is written, and that is durable. */
  sequence: number;
  #writtenSequence: number;
  syncedSequence: number;
  #writtenBytes = 0;
  #batchSinceMs = 0;
  /** When the oldest record that is not durable came. */
  #unsyncedSinceMs = 0;
  /** The longest frame so far. */
  largestBytes = 0;
  /** What a batch takes besides its records. */
  readonly #batchHeadBytes: number;

  constructor(options: LogWriterOptions) {
    const { disk, segments, index, shards, lastSequence, chain } = options;
    this.#disk = disk;
    this.#segments = segments;
    this.#index = index;
    this.#clockMs = options.clockMs;
    this.#onFull = options.onFull;
    this.#chain = chain;
    this.#batchHeadBytes = chain === undefined ? 0 : chain.frameBytes;
    this.#batch = new RecordBatch(chain?.batchBytesMax ?? BATCH_BYTES);
    this.#appended = new Float64Array(shards);
    this.#written = new Float64Array(shards);
    this.#synced = new Float64Array(shards);
    this.sequence = this.#writtenSequence = this.syncedSequence = lastSequence;
  }

  /** What may be needed in a segment for a frame: with it may begin a batch, and behind it one that holds END. */
  bytesFor(framedBytes: number): number {
    return framedBytes + 2 * this.#batchHeadBytes;
  }

  writtenUpTo(shard: number): number {
    return this.#written[shard]!;
  }

  syncedUpTo(shard: number): number {
    return this.#synced[shard]!;
  }

  /** Whether all that is written is durable. */
  get isSynced(): boolean {
    return this.#writtenBytes === 0;
  }

  /** When the oldest record that is not durable came; Infinity: all are. */
  get unsyncedSinceMs(): number {
    return this.sequence > this.syncedSequence ? this.#unsyncedSinceMs : Number.POSITIVE_INFINITY;
  }

  /** Record `n` of the shard has been placed. */
  appended(shard: number, n: number): void {
    this.#appended[shard] = n;
  }

  /** Puts a record, for which there is room, at the end of the current segment. The bytes are copied. */
  place(bytes: Uint8Array, start: number, length: number): void {
    // What recovery would not accept must not get in: it would be taken for damage.
    if (!recordIsKnown(bytes, start, length)) throw new Error("not a record that the log can hold");
    const framedBytes = FRAME_BYTES + length;
    if (framedBytes > this.largestBytes) this.largestBytes = framedBytes;
    const at = this.#add(bytes, start, length);
    this.#book(this.#segments.current.number, this.#segments.current.usedBytes - framedBytes, at, length);
  }

  /** Puts an END, MARK or DROP there. */
  placeOwn(own: OwnRecord): void {
    encodeOwn(this.#own, 0, own);
    this.#add(this.#own.bytes, 0, OWN_RECORD_BYTES);
  }

  /** Writes what is in the buffer if a record of this length finds no room there, so that the next one can't fail. */
  makeRoom(length: number): void {
    if (!this.#batch.fits(length)) this.write();
  }

  /** Returns where the record lies in the buffer. */
  #add(bytes: Uint8Array, start: number, length: number): number {
    const batch = this.#batch;
    this.makeRoom(length);
    if (batch.usedBytes === 0) this.#begin();
    const segment = this.#segments.current;
    segment.usedBytes += FRAME_BYTES + length;
    return batch.add(bytes, start, length, segment.salt, ++this.sequence, this.syncedSequence);
  }

  #begin(): void {
    this.#batchSinceMs = this.#clockMs();
    if (this.#writtenBytes === 0) this.#unsyncedSinceMs = this.#batchSinceMs;
    if (this.#chain === undefined) return;
    this.#chain.begin(this.#batch, ++this.sequence);
    this.#segments.current.usedBytes += this.#batchHeadBytes;
  }

  /** Begins a batch although there is no record for it: with `write` behind it the shared log hears that this node lives. */
  beginEmpty(): void {
    if (this.#batch.usedBytes === 0) this.#begin();
  }

  #book(segment: number, offset: number, record: number, length: number): void {
    const { memory } = this.#batch;
    const kind = memory.bytes[record]!;
    if (kind >= OwnKind.end) return;
    if (kind === RecordKind.setting) {
      this.#bookSetting(segment, offset, record, length);
      return;
    }
    const id = memory.view.getFloat64(record + RECORD_ID_AT, true);
    const extra = recordExtra(memory, record, length);
    this.#index.book(kind, id, segment, offset, FRAME_BYTES + length, extra);
    if (kind === RecordKind.put) this.#onFull?.(id, segment);
  }

  #bookSetting(segment: number, offset: number, record: number, length: number): void {
    const { bytes, view } = this.#batch.memory;
    const patternAt = record + SETTING_HEADER_BYTES;
    const textAt = patternAt + patternBytesOf(view, record);
    const text = latin1(bytes, textAt, record + length);
    this.#index.setSetting(latin1(bytes, patternAt, textAt), text, segment, offset, FRAME_BYTES + length);
  }

  /** One write for all that was appended. */
  write(): void {
    const batch = this.#batch;
    const { memory, usedBytes, records } = batch;
    if (usedBytes === 0) return;
    const segment = this.#segments.current;
    if (this.#chain !== undefined) this.#chain.seal(batch, segment, this.syncedSequence);
    this.#disk.write(this.#segments.handle, memory.bytes, 0, usedBytes, segment.usedBytes - usedBytes);
    // A record counts as appended after it was placed, so whatever counts is in this batch or an earlier one.
    this.#chain?.handOn(batch, this.#appended);
    batch.clear();
    this.#written.set(this.#appended);
    this.#writtenSequence = this.sequence;
    this.#writtenBytes += usedBytes;
    this.timings.recordWrite(usedBytes, records);
  }

  /** One sync for all that was written. Returns how long it took, ms. */
  sync(marked = false): number {
    if (this.#writtenBytes === 0) return 0;
    const beganMs = this.#clockMs();
    try {
      this.#disk.sync(this.#segments.handle);
    } catch (error) {
      // Also if it is for want of room: the pages are gone, and writing them again is not what a second sync
      // does.
      throw isShortage(error) ? this.#segments.ioError("sync", error) : error;
    }
    const endedMs = this.#clockMs();
    // Nobody waits for a mark.
    this.timings.recordSync(endedMs - beganMs, marked ? undefined : endedMs - this.#batchSinceMs);
    this.#writtenBytes = 0;
    // There may be a batch that finds no room.
    this.#unsyncedSinceMs = this.#batchSinceMs;
    this.syncedSequence = this.#writtenSequence;
    this.#synced.set(this.#written);
    return endedMs - beganMs;
  }
}
