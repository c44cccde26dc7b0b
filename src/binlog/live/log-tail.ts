// The tail of the log, where all records are appended, segment after segment, and written and
// synced according to the policy. Other modules handle dead records at the other end and the lack
// of room.

import { assert } from "../../base/assert.ts";
import type { LogState } from "../books/log-state.ts";
import { FRAME_BYTES, HEADER_BYTES, OWN_RECORD_BYTES, OwnKind } from "../format/segment-format.ts";
import { BatchChain, type ChainOptions } from "./batch-chain.ts";
import { IdLending } from "./id-lending.ts";
import { LogWriter } from "./log-writer.ts";
import { type FillResult, SegmentWriter } from "./segment-writer.ts";
import type { StorageOptions } from "./storage-options.ts";
import { SyncPolicy } from "./sync-policy.ts";

/**
 * Bytes of room to make per appended byte. The log leaves a segment at three quarters, so each
 * needs a third more.
 */
const ROOM_PER_BYTE = 1.4;
/** Bytes that compaction goes through per appended byte: faster than the log can grow. */
export const PACE = 4;
/** In a group: the silence after which an empty batch is due. */
const BEAT_MS = 1000;

export class LogTail {
  readonly #log: LogState;
  readonly #wallMs: () => number;
  readonly segments: SegmentWriter;
  readonly records: LogWriter;
  readonly lending: IdLending;
  readonly policy: SyncPolicy;
  /** Undefined outside a group. */
  readonly chain: BatchChain | undefined;
  /** Segments below this one no longer count. */
  oldest: number;
  /** The segment that is removed once its DROP is durable; 0 for none. */
  dropping = 0;
  #flushedSequence: number;
  /** Bytes appended since room was last made. */
  #placedBytes = 0;
  /**
   * Whether the current segment has its END but could not be left yet; nothing may be appended
   * meanwhile.
   */
  #ending = false;
  /** Time at which an empty batch is due, and the last record before the silence. */
  #beatAtMs = Number.POSITIVE_INFINITY;
  #beatSequence = -1;

  constructor(options: StorageOptions) {
    const { disk, log, shards, segmentBytes, randomSalt, clockMs, onFull } = options;
    const { index, lastSequence, table } = log;
    this.#log = log;
    this.#wallMs = options.wallMs;
    this.oldest = log.oldest;
    assert(this.oldest >= 1, "the oldest segment has a number");
    this.#flushedSequence = lastSequence;
    this.policy = new SyncPolicy(options.syncEvery, options.background !== undefined);
    this.lending = new IdLending(options.lentIds);
    this.segments = new SegmentWriter({
      disk,
      background: options.background?.(),
      table,
      segmentBytes,
      randomSalt,
      first: log.first,
    });
    const chain = options.chain === undefined ? undefined : this.#makeChain(options.chain);
    this.chain = chain;
    const { segments } = this;
    this.records = new LogWriter({
      disk,
      background: options.background?.(),
      segments,
      index,
      shards,
      lastSequence,
      clockMs,
      onFull,
      chain,
    });
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
      // The reserve for deletes and compaction must exist before the first put.
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

  /** Whether a flush has written everything that was appended. */
  get isFlushed(): boolean {
    return this.sequence <= this.#flushedSequence;
  }

  /** Whether a segment has its END but could not be left. */
  get isEnding(): boolean {
    return this.#ending;
  }

  /**
   * Whether the log needs an END when it is closed: after records, to return lent ids, and in a
   * group to yield the lead.
   */
  get needsEnd(): boolean {
    const hasRecords = this.segments.current.usedBytes > HEADER_BYTES;
    return hasRecords || this.lending.upTo > this.#log.index.maxId || this.chain !== undefined;
  }

  get beatAtMs(): number {
    return this.#beatAtMs;
  }

  /** Compaction rewrites segments below this one regardless of their live bytes. */
  get rewriteBelow(): number {
    return this.chain?.rewriteBelow ?? 0;
  }

  /** Bytes by which the files may still grow: "Promise" in docs/architecture/log-space.md. */
  get promisedBytes(): number {
    const { table } = this.#log;
    return 2 * (table.liveBytes + this.segments.segmentBytes) - table.fileBytes();
  }

  /** The most bytes by which they grow while compaction goes through a segment, without copies. */
  get growthBytes(): number {
    const { softLimitBytes, extentBytes, laterBytes } = this.segments;
    return softLimitBytes / PACE + extentBytes + laterBytes;
  }

  /** The room in a segment that the longest record so far may need. */
  get largestBytes(): number {
    return this.records.bytesFor(this.records.largestBytes);
  }

  /** Appends a copy of a record, in the next segment if necessary. */
  place(bytes: Uint8Array, start: number, length: number): void {
    assert(!this.#ending, "no record follows an END");
    const framedBytes = FRAME_BYTES + length;
    const neededBytes = this.records.bytesFor(framedBytes);
    if (!this.segments.fits(neededBytes)) this.#makeFit(neededBytes);
    this.#placedBytes += framedBytes;
    this.records.place(bytes, start, length);
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
    return this.segments.fill(this.#wallMs(), this.#log.index.maxId, oldest, mayBeLater);
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
    const { extentBytes } = this.segments;
    let filling = this.fill(mayBeLater);
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
    if (!this.#ending) this.appendOwn(OwnKind.end);
    this.#ending = true;
    this.write();
    this.#sync();
    assert(this.syncedSequence === this.sequence, "the log leaves only a durable segment");
    this.segments.leave();
    this.records.forgetSegment();
    this.#ending = false;
    // The next segment must exist before the first record goes into this one; a missing file is
    // then noticed.
    this.fill();
  }

  /** Continues after a lack of room. */
  resume(): void {
    this.write();
    if (this.#ending) this.leave();
  }

  /** Appends an END, MARK or DROP; there must be room. */
  appendOwn(kind: number): void {
    assert(!this.#ending, "no record of the log follows an END");
    const hasNext = this.segments.next !== undefined;
    assert(this.oldest <= this.segments.current.number, "the oldest segment is not ahead of the current one");
    const maxId = Math.max(this.#log.index.maxId, this.lending.upTo);
    this.records.placeOwn({ kind, hasNext, oldest: this.oldest, maxId });
  }

  /** Makes room for a MARK or DROP, in the next segment if necessary. */
  makeOwnFit(): void {
    const neededBytes = this.records.bytesFor(FRAME_BYTES + OWN_RECORD_BYTES);
    if (!this.segments.fitsTightly(neededBytes)) this.#makeFit(neededBytes);
  }

  write(): void {
    this.records.write();
  }

  /** Returns the duration in ms. */
  #sync(marked = false): number {
    const tookMs = this.records.sync(marked);
    assert(this.syncedSequence <= this.sequence, "only records of the log are durable");
    this.lending.synced(this.syncedSequence);
    return tookMs;
  }

  /** Writes all appended records, and makes them durable. */
  syncAll(nowMs: number, marked: boolean): void {
    this.write();
    this.#flushedSequence = this.sequence;
    const tookMs = this.#sync(marked);
    assert(this.syncedSequence === this.sequence, "a sync makes all records durable");
    this.policy.synced(nowMs, tookMs, marked);
  }

  /** Writes all appended records, and syncs if the policy says so. */
  flush(nowMs: number): void {
    if (!this.isFlushed) {
      this.write();
      this.#flushedSequence = this.sequence;
      if (this.sequence > this.syncedSequence) this.policy.dirty(nowMs);
    }
    if (this.chain !== undefined) this.#beat(nowMs);
    const lends = this.lending.waitsForSync(this.syncedSequence);
    if (lends && (this.lending.isUrgent || !this.#lendLater(nowMs))) this.syncAll(nowMs, false);
    else if (lends) return;
    else if (nowMs >= this.policy.syncAtMs) this.#syncInTime(nowMs);
    else if (nowMs >= this.policy.markAtMs) this.#mark(nowMs);
  }

  /** Syncs in the background, or at once if that is not possible. */
  #syncInTime(nowMs: number): void {
    assert(this.isFlushed, "a sync follows written records");
    if (this.policy.mayBegin(nowMs) && this.records.beginSync()) this.policy.begun();
    else this.syncAll(nowMs, false);
  }

  /**
   * Makes a lend durable in the background, as long as no put waits for it: after a sync that is
   * under way, if that doesn't include it. Returns false if that is impossible now.
   */
  #lendLater(nowMs: number): boolean {
    assert(this.isFlushed, "a lend that waits for a sync is written");
    if (this.records.isSyncing) return nowMs < this.policy.syncAtMs;
    if (!this.policy.mayBegin(nowMs) || !this.records.beginSync()) return false;
    this.policy.begun();
    return true;
  }

  /** Ends all work in the background for good. */
  close(): void {
    this.records.close();
    this.segments.close();
  }

  /** Notes the end of a sync in the background; throws if it failed. */
  endSync(nowMs: number): void {
    const tookMs = this.records.endSync();
    if (tookMs === undefined) return;
    this.lending.synced(this.syncedSequence);
    this.policy.ended(nowMs, tookMs);
  }

  /** Syncs written records in time even while later ones find no room. */
  syncWritten(nowMs: number): void {
    if (!this.records.isSynced) this.policy.dirty(nowMs);
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
    assert(this.isFlushed, "a MARK follows written records");
    this.makeOwnFit();
    this.appendOwn(OwnKind.mark);
    this.syncAll(nowMs, true);
  }
}
