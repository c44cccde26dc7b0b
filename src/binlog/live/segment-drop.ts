// Removes the oldest segment after its live records were appended again. First the log states this
// with a DROP. The file goes only when that DROP is durable and, in a group, when the shared log
// has it.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/segment-name.ts";
import type { SegmentTable } from "../books/segment-table.ts";
import type { Disk } from "../disk/disk.ts";
import { OWN_RECORD_BYTES, OwnKind } from "../format/segment-format.ts";
import type { LogCut } from "./log-cut.ts";
import type { LogTail } from "./log-tail.ts";
import type { RoomShortage } from "./room-shortage.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** Delay before the next check whether the shared log has a DROP. */
const LOOK_MS = 5;

interface SegmentDropOptions {
  disk: Disk;
  table: SegmentTable;
  reader: SegmentReader;
  tail: LogTail;
  /** Keeps segments that a backup still reads. */
  cut: LogCut;
  /** Retries to make room as soon as a segment is gone. */
  shortage: RoomShortage;
}

export class SegmentDrop {
  readonly #disk: Disk;
  readonly #table: SegmentTable;
  readonly #reader: SegmentReader;
  readonly #tail: LogTail;
  readonly #cut: LogCut;
  readonly #shortage: RoomShortage;
  #sequence = 0;
  /** Whether the file is removed, but perhaps not durably. */
  #unlinked = false;
  /** The batch that holds the current DROP, or a later one; 0 until it is written. */
  #batch = 0;

  constructor(options: SegmentDropOptions) {
    this.#disk = options.disk;
    this.#table = options.table;
    this.#reader = options.reader;
    this.#tail = options.tail;
    this.#cut = options.cut;
    this.#shortage = options.shortage;
  }

  get isUnderWay(): boolean {
    return this.#tail.dropping !== 0;
  }

  /** Appends the DROP of the oldest segment, which has no live records left. */
  begin(): void {
    const tail = this.#tail;
    const { oldest } = this.#table;
    assert(!this.isUnderWay, "one segment is dropped at a time");
    assert(oldest?.sealed === true && oldest.liveBytes === 0, "nothing in a dropped segment is live");
    tail.makeOwnFit();
    tail.records.makeRoom(OWN_RECORD_BYTES);
    // Nothing may fail from here on: only a DROP in the log drops a segment.
    this.#batch = 0;
    tail.dropping = oldest.number;
    tail.oldest = tail.dropping + 1;
    tail.appendOwn(OwnKind.drop);
    this.#sequence = tail.sequence;
  }

  /**
   * Removes the segment once its DROP is durable; returns false while the shared log lacks the
   * DROP.
   */
  finish(nowMs: number): boolean {
    const tail = this.#tail;
    assert(this.isUnderWay, "only a started drop ends");
    if (tail.syncedSequence < this.#sequence) tail.syncAll(nowMs, false);
    if (!this.#isAcknowledged()) return false;
    this.#remove();
    return true;
  }

  /** Does the same outside a group, where no acknowledgement is needed. */
  finishNow(nowMs: number): void {
    assert(this.isUnderWay, "only a started drop ends at once");
    this.#tail.syncAll(nowMs, false);
    this.#remove();
  }

  /**
   * In a group, a segment is needed until the shared log has all copies, and the DROP after them.
   */
  #isAcknowledged(): boolean {
    const { chain } = this.#tail;
    if (chain === undefined) return true;
    this.#batch ||= chain.place.n;
    assert(this.#batch > 0, "a DROP is in a batch");
    return chain.isAcknowledged(this.#batch);
  }

  #remove(): void {
    const { number } = this.#table.oldest!;
    assert(number === this.#tail.dropping, "only the oldest segment is dropped");
    assert(this.#tail.syncedSequence >= this.#sequence, "a DROP is durable before its segment goes");
    this.#reader.forget(number);
    // A quota may refuse even this. The table drops the segment only afterwards, so each step can
    // be retried.
    if (!this.#unlinked && !this.#cut.keeps(number)) this.#disk.unlink(segmentName(number));
    this.#unlinked = true;
    this.#disk.syncFolder();
    this.#unlinked = false;
    this.#table.removeOldest();
    this.#tail.dropping = 0;
    if (this.#shortage.full) this.#shortage.retryAtMs = 0;
  }

  /**
   * Time of the next check whether the shared log has the DROP; undefined if there is nothing to
   * wait for.
   */
  lookAtMs(nowMs: number): number | undefined {
    return this.#tail.chain === undefined || this.#batch === 0 ? undefined : nowMs + LOOK_MS;
  }
}
