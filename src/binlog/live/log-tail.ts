// The end of the log: records and the log's own come behind one another there, from segment to segment, and are written and
// synced as the policy says. What is dead at the other end, and what to do without room, others decide.

import type { LogState } from "../books/log-state.ts";
import { FRAME_BYTES, OWN_RECORD_BYTES, OwnKind } from "../format/segment-format.ts";
import { BatchChain, type ChainOptions } from "./batch-chain.ts";
import { IdLending } from "./id-lending.ts";
import { LogWriter } from "./log-writer.ts";
import { type FillResult, SegmentWriter } from "./segment-writer.ts";
import type { StorageOptions } from "./storage-options.ts";
import { SyncPolicy } from "./sync-policy.ts";

/**
 * Room made for each byte that is appended: a segment is left at three quarters, so each needs a third more.
 */
const ROOM_PER_BYTE = 1.4;
/** In a group: an empty batch after so much silence. */
const BEAT_MS = 1000;

export class LogTail {
  readonly #log: LogState;
  readonly #wallMs: () => number;
  readonly segments: SegmentWriter;
  readonly records: LogWriter;
  readonly lending: IdLending;
  readonly policy: SyncPolicy;
  /** Undefined outside of a group. */
  readonly chain: BatchChain | undefined;
  /** Segments below this one no longer count. */
  oldest: number;
  /** The segment that will be gone once its DROP is durable; 0: none. */
  dropping = 0;
  #flushedSequence: number;
  /** Bytes appended since room was last made. */
  #placedBytes = 0;
  /** The current segment has its END, so nothing may follow; it could not be left yet. */
  #ending = false;
  /** When an empty batch is due, and the last record before. */
  #beatAtMs = Number.POSITIVE_INFINITY;
  #beatSequence = -1;

  constructor(options: StorageOptions) {
    const { disk, log, shards, segmentBytes, randomSalt, clockMs, onFull } = options;
    const { index, lastSequence, table } = log;
    this.#log = log;
    this.#wallMs = options.wallMs;
    this.oldest = log.oldest;
    this.#flushedSequence = lastSequence;
    this.policy = new SyncPolicy(options.syncEvery);
    this.lending = new IdLending(options.lentIds);
    this.segments = new SegmentWriter({ disk, table, segmentBytes, randomSalt, first: log.first });
    const chain = options.chain === undefined ? undefined : this.#makeChain(options.chain);
    this.chain = chain;
    const { segments } = this;
    this.records = new LogWriter({ disk, segments, index, shards, lastSequence, clockMs, onFull, chain });
    this.#begin();
  }

  #makeChain(options: ChainOptions): BatchChain {
    this.#beatAtMs = 0;
    return new BatchChain({
      ...options,
      idsLent: () => Math.max(this.#log.index.maxId, this.lending.upTo),
      oldest: () => this.oldest,
    });
  }

  #begin(): void {
    const { segments } = this;
    const { empty, index, oldest } = this.#log;
    try {
      segments.begin(empty, this.#wallMs(), index.maxId, oldest);
      // The reserve of deletes and compaction has to be there before the first put is taken.
      segments.fillAtOnce(segments.softLimitBytes);
      while (segments.roomBytes < segments.softLimitBytes && this.fill() === "more") {}
    } catch (error) {
      throw segments.beginError(error);
    }
  }

  get sequence(): number {
    return this.records.sequence;
  }

  get syncedSequence(): number {
    return this.records.syncedSequence;
  }

  /** All that was appended has been written by a flush. */
  get isFlushed(): boolean {
    return this.sequence <= this.#flushedSequence;
  }

  /** A segment has its END and was not left. */
  get isEnding(): boolean {
    return this.#ending;
  }

  get beatAtMs(): number {
    return this.#beatAtMs;
  }

  /** What the longest record so far may need in a segment. */
  get largestBytes(): number {
    return this.records.bytesFor(this.records.largestBytes);
  }

  /** Puts a record there, if need be in the next segment; the bytes are copied. */
  place(bytes: Uint8Array, start: number, length: number): void {
    const framedBytes = FRAME_BYTES + length;
    const neededBytes = this.records.bytesFor(framedBytes);
    if (!this.segments.fits(neededBytes)) this.#makeFit(neededBytes);
    this.#placedBytes += framedBytes;
    this.records.place(bytes, start, length);
  }

  /** The current segment is full: goes to the next one, making room there if that was not done in time. */
  #makeFit(framedBytes: number): void {
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
  }

  /** One step of making room. */
  fill(): FillResult {
    // The header of a new segment is durable at once. The segment that is being dropped counts until its DROP
    // is, too, and with it the copies before it.
    const oldest = this.dropping === 0 ? this.oldest : this.dropping;
    return this.segments.fill(this.#wallMs(), this.#log.index.maxId, oldest);
  }

  /**
   * One step of making room, or as many as what was appended since the last slice has used up: room that
   * falls behind under load would have to be made up for in the middle of an append, and a full disk would
   * show too late.
   */
  keepRoom(): FillResult {
    const { extentBytes } = this.segments;
    let filling = this.fill();
    for (
      let owedBytes = this.#placedBytes * ROOM_PER_BYTE - extentBytes;
      filling === "more" && owedBytes > 0;
      owedBytes -= extentBytes
    ) {
      filling = this.fill();
    }
    this.#placedBytes = 0;
    return filling;
  }

  /** END, all durable, then on to the next segment: only the newest segment can ever have a torn tail. */
  leave(): void {
    if (!this.#ending) this.appendOwn(OwnKind.end);
    this.#ending = true;
    this.write();
    this.#sync();
    this.segments.leave();
    this.#ending = false;
    // Before the first record goes into a segment, the next one is there: a file that is gone is noticed
    // then.
    this.fill();
  }

  /** Goes on where it found no room. */
  resume(): void {
    this.write();
    if (this.#ending) this.leave();
  }

  /** Appends an END, MARK or DROP, for which there is room. */
  appendOwn(kind: number): void {
    const hasNext = this.segments.next !== undefined;
    const maxId = Math.max(this.#log.index.maxId, this.lending.upTo);
    this.records.placeOwn({ kind, hasNext, oldest: this.oldest, maxId });
  }

  /** Makes room for a MARK or DROP, if need be in the next segment. */
  makeOwnFit(): void {
    const neededBytes = this.records.bytesFor(FRAME_BYTES + OWN_RECORD_BYTES);
    if (!this.segments.fitsTightly(neededBytes)) this.#makeFit(neededBytes);
  }

  write(): void {
    this.records.write();
  }

  /** Returns how long it took, ms. */
  #sync(marked = false): number {
    const tookMs = this.records.sync(marked);
    this.lending.synced(this.syncedSequence);
    return tookMs;
  }

  /** Writes what was appended, and makes it durable. */
  syncAll(nowMs: number, marked: boolean): void {
    this.write();
    this.#flushedSequence = this.sequence;
    const tookMs = this.#sync(marked);
    this.policy.synced(nowMs, tookMs, marked);
  }

  /** Writes what was appended, and syncs if the policy says so. */
  flush(nowMs: number): void {
    if (!this.isFlushed) {
      this.write();
      this.#flushedSequence = this.sequence;
      if (this.sequence > this.syncedSequence) this.policy.dirty(nowMs);
    }
    if (this.chain !== undefined) this.#beat(nowMs);
    const lends = this.lending.waitsForSync(this.syncedSequence);
    if (lends || nowMs >= this.policy.syncAtMs) this.syncAll(nowMs, false);
    else if (nowMs >= this.policy.markAtMs) this.#mark(nowMs);
  }

  /** What is written is synced in time also while what came after it finds no room. */
  syncWritten(nowMs: number): void {
    if (!this.records.isSynced) this.policy.dirty(nowMs);
    if (nowMs < this.policy.syncAtMs) return;
    const tookMs = this.#sync();
    this.policy.synced(nowMs, tookMs, true);
  }

  /** An empty batch, if none came for a while: others hear that this node lives, and it may go on serving. */
  #beat(nowMs: number): void {
    if (this.sequence === this.#beatSequence) {
      if (nowMs < this.#beatAtMs) return;
      this.makeOwnFit();
      this.records.beginEmpty();
      this.write();
      this.#flushedSequence = this.sequence;
      this.policy.dirty(nowMs);
    }
    this.#beatSequence = this.sequence;
    this.#beatAtMs = nowMs + BEAT_MS;
  }

  #mark(nowMs: number): void {
    this.makeOwnFit();
    this.appendOwn(OwnKind.mark);
    this.syncAll(nowMs, true);
  }
}
