// Gives each batch of a group's log its place in the chain, and passes it on to the shared log.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes, Memory } from "../../base/bytes.ts";
import {
  type ChainPlace,
  encodeLogBatchHeader,
  LOG_BATCH_BYTES_MAX,
  LOG_BATCH_HEADER_BYTES,
  type LogBatchHeader,
  LogBatchKind,
  sealLogBatch,
} from "../../message/log-batch.ts";
import type { Segment } from "../segments/books.ts";
import { FRAME_BYTES, frameIsWhole, MAX_FRAMED_BYTES, sealFrame } from "../segments/segment-format.ts";

// The write buffer: consecutive frames, written with a single call.

export class RecordBatch {
  readonly memory: Memory;
  usedBytes = 0;
  records = 0;

  constructor(capacityBytes: number) {
    assert(capacityBytes >= MAX_FRAMED_BYTES, "the longest record fits into a batch");
    this.memory = Memory.ofSize(capacityBytes);
  }

  fits(recordBytes: number): boolean {
    if (CHECKED) assert(recordBytes > 0, "a record that fits has bytes");
    return this.usedBytes + FRAME_BYTES + recordBytes <= this.memory.bytes.length;
  }

  /** Copies a record after its frame, and returns the record's position in the buffer. */
  add(
    from: Uint8Array,
    start: number,
    recordBytes: number,
    salt: number,
    sequence: number,
    synced: number,
  ): number {
    assert(recordBytes > 0, "a record has bytes");
    assert(sequence >= synced, "no record is durable before it is added");
    const at = this.usedBytes;
    const record = at + FRAME_BYTES;
    copyBytes(this.memory.bytes, record, from, start, recordBytes);
    sealFrame(this.memory, at, recordBytes, salt, sequence, synced);
    this.usedBytes = record + recordBytes;
    this.records++;
    assert(this.usedBytes <= this.memory.bytes.length, "a batch ends inside its buffer");
    return record;
  }

  clear(): void {
    this.usedBytes = 0;
    this.records = 0;
  }
}

/** Takes batches as they are written. */
export interface BatchSink {
  /** Whether the log may accept more: its next step may write several batches. */
  readonly hasRoom: boolean;
  /** The last batch that the shared log has acknowledged. */
  readonly acknowledged: number;
  /** The lower 32 bits of the shared log's message that holds that batch; 0 if unknown. */
  readonly acknowledgedMessage: number;
  /**
   * Takes header and frames in `bytes`, valid during the call. `numbers` has, for each shard, its
   * last record in this batch or an earlier one.
   */
  take(bytes: Uint8Array, numbers: Float64Array): void;
}

export interface ChainOptions {
  place: ChainPlace;
  node: number;
  sink: BatchSink;
  randomTag: () => number;
  /** Segments below this one must be rewritten, so that the shared log gets their contents. */
  rewriteBelow: number;
}

interface BatchChainOptions extends ChainOptions {
  /** Returns the highest id that the log has lent. */
  idsLent: () => number;
  /** Returns the oldest segment that counts. */
  oldest: () => number;
}

export class BatchChain {
  readonly frameBytes: number = FRAME_BYTES + LOG_BATCH_HEADER_BYTES;
  readonly batchBytesMax: number = LOG_BATCH_BYTES_MAX;
  readonly #options: BatchChainOptions;
  readonly #empty = new Uint8Array(LOG_BATCH_HEADER_BYTES);
  #place: ChainPlace;
  #sequence = 0;
  /** The kind of the next batch. */
  kind: LogBatchKind = LogBatchKind.data;

  constructor(options: BatchChainOptions) {
    this.#options = options;
    this.#place = options.place;
  }

  get hasRoom(): boolean {
    return this.#options.sink.hasRoom;
  }

  /** Returns whether the shared log has batch `n`. */
  isAcknowledged(n: number): boolean {
    assert(n <= this.#place.n, "the server waits only for a written batch");
    return this.#options.sink.acknowledged >= n;
  }

  get rewriteBelow(): number {
    return this.#options.rewriteBelow;
  }

  get place(): ChainPlace {
    return this.#place;
  }

  /** Reserves room for the LINK record, which has number `sequence`. */
  begin(batch: RecordBatch, sequence: number): void {
    assert(batch.usedBytes === 0, "a batch begins with its own record");
    assert(sequence > this.#sequence, "the sequence of batches rises");
    this.#sequence = sequence;
    batch.add(this.#empty, 0, LOG_BATCH_HEADER_BYTES, 0, sequence, sequence);
  }

  /** Completes a batch that has all its records: assigns its place. */
  seal({ memory, usedBytes, records }: RecordBatch, segment: Segment, syncedSequence: number): void {
    const { epoch, n, tag: previousTag } = this.#place;
    assert(records > 0, "only a batch with records is sealed");
    assert(this.#options.sink.acknowledged <= n, "no batch is acknowledged before it is written");
    assert(usedBytes >= this.frameBytes, "a batch has room for its own record");
    const header: LogBatchHeader = {
      kind: this.kind,
      epoch,
      segment: segment.number,
      n: n + 1,
      previousTag,
      tag: this.#options.randomTag(),
      sequence: this.#sequence,
      idsLent: this.#options.idsLent(),
      frames: records - 1,
      bodyBytes: usedBytes - this.frameBytes,
      node: this.#options.node,
      oldest: this.#options.oldest(),
      unacknowledged: n - this.#options.sink.acknowledged,
      message: this.#options.sink.acknowledgedMessage,
    };
    encodeLogBatchHeader(memory, FRAME_BYTES, header);
    sealLogBatch(memory, FRAME_BYTES);
    sealFrame(memory, 0, LOG_BATCH_HEADER_BYTES, segment.salt, this.#sequence, syncedSequence);
    if (CHECKED) assert(frameIsWhole(memory, 0, segment.salt), "the frame of a LINK is intact");
    this.#sealed = header;
  }

  #sealed: LogBatchHeader | undefined;

  /**
   * Adds the written batch to the chain. A batch whose write failed for lack of room is sealed
   * again instead.
   */
  handOn({ memory, usedBytes }: RecordBatch, numbers: Float64Array): void {
    assert(this.#sealed !== undefined, "a batch is sealed before it is passed on");
    const { epoch, n, tag } = this.#sealed;
    assert(n === this.#place.n + 1, "batches have consecutive numbers");
    assert(tag > 0, "a batch has a tag");
    this.#place = { epoch, n, tag };
    this.kind = LogBatchKind.data;
    this.#options.sink.take(memory.bytes.subarray(FRAME_BYTES, usedBytes), numbers);
  }
}
