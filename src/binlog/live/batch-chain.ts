// Gives each batch of a group's log its place in the chain, and passes it on to the shared log.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Memory } from "../../base/bytes.ts";
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
import { FRAME_BYTES, frameIsWhole, sealFrame } from "../segments/segment-format.ts";

/** The write buffer of the log: consecutive frames, written with a single call. */
export interface WriteBatch {
  readonly memory: Memory;
  usedBytes: number;
  records: number;
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

  /** Begins a batch, whose LINK record has this sequence. */
  begin(sequence: number): void {
    assert(sequence > this.#sequence, "the sequence of batches rises");
    this.#sequence = sequence;
  }

  /** Completes a batch that has all its records: assigns its place. */
  seal({ memory, usedBytes, records }: WriteBatch, segment: Segment, syncedSequence: number): void {
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
  handOn({ memory, usedBytes }: WriteBatch, numbers: Float64Array): void {
    assert(this.#sealed !== undefined, "a batch is sealed before it is passed on");
    const { epoch, n, tag } = this.#sealed;
    assert(n === this.#place.n + 1, "batches have consecutive numbers");
    assert(tag > 0, "a batch has a tag");
    this.#place = { epoch, n, tag };
    this.kind = LogBatchKind.data;
    this.#options.sink.take(memory.bytes.subarray(FRAME_BYTES, usedBytes), numbers);
  }
}
