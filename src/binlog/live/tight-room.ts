// Emergency compaction on a full disk. The log reserves the room that it needs to empty its oldest
// segment. Before a record would take some of that reserve, the log compacts at once. The shards
// wait meanwhile; without the reserve, the log could never free space again.

import { assert } from "../../base/assert.ts";
import type { SegmentTable } from "../books/segment-table.ts";
import { isDescriptorShortage } from "../disk/binlog-error.ts";
import { SPARE_BYTES } from "../format/segment-format.ts";
import type { Compaction } from "./compaction.ts";
import type { LogTail } from "./log-tail.ts";
import { RETRY_ROOM_MS } from "./room-shortage.ts";
import type { SegmentDrop } from "./segment-drop.ts";

interface TightRoomOptions {
  table: SegmentTable;
  tail: LogTail;
  compaction: Compaction;
  drop: SegmentDrop;
}

export class TightRoom {
  readonly #table: SegmentTable;
  readonly #tail: LogTail;
  readonly #compaction: Compaction;
  readonly #drop: SegmentDrop;
  /** The time before which no file can be opened, because descriptors ran out. */
  openAtMs = 0;

  constructor(options: TightRoomOptions) {
    this.#table = options.table;
    this.#tail = options.tail;
    this.#compaction = options.compaction;
    this.#drop = options.drop;
  }

  /** Returns whether that many bytes can be copied without new room. */
  isEnoughFor(bytes: number): boolean {
    const { segments } = this.#tail;
    assert(bytes >= 0, "live bytes to copy are never negative");
    return segments.shortage === "" || segments.roomBytes >= bytes + this.#marginBytes();
  }

  /**
   * Compacts until there is room for a frame and the reserve, or until compaction gains nothing.
   */
  squeeze(framedBytes: number, nowMs: number): void {
    assert(framedBytes > 0, "room is made for a frame");
    const tail = this.#tail;
    // In a group, a segment goes only when the shared log has its DROP, and nothing here may wait
    // for that.
    if (tail.chain !== undefined) return;
    let rounds = 2 * this.#table.all.length;
    while (rounds > 0 && tail.segments.roomBytes < this.#reserveBytes() + framedBytes) {
      if (!this.#emptyOldest(framedBytes, nowMs)) return;
      this.#drop.finishNow(nowMs);
      while (tail.fill() === "more") {}
      rounds--;
    }
  }

  /** Returns the bytes needed to copy the segment with the most live bytes. */
  #reserveBytes(): number {
    let mostBytes = this.#tail.segments.softLimitBytes / 8;
    for (const segment of this.#table.all)
      if (segment.sealed) mostBytes = Math.max(mostBytes, segment.liveBytes);
    return mostBytes + this.#marginBytes();
  }

  /** Returns the bytes that may be lost at the ends of segments where a record does not fit. */
  #marginBytes(): number {
    return 2 * this.#tail.largestBytes + 2 * SPARE_BYTES;
  }

  /**
   * Copies the live records of the oldest segment and appends its DROP. Returns false if that gains
   * nothing or is impossible now.
   */
  #emptyOldest(framedBytes: number, nowMs: number): boolean {
    const tail = this.#tail;
    const { segments } = tail;
    if (this.#compaction.deadBytes < segments.softLimitBytes / 16) return false;
    if (!this.#drop.isUnderWay && !this.isEnoughFor(this.#table.oldest?.liveBytes ?? 0)) return false;
    tail.write();
    if (this.#table.sealedCount === 0) {
      if (!segments.nextFits(framedBytes)) return false;
      tail.leave();
    }
    if (this.#drop.isUnderWay) return true;
    if (!this.#compactNow(nowMs)) return false;
    assert(this.#table.oldest?.liveBytes === 0, "compaction leaves no live record");
    this.#drop.begin();
    return true;
  }

  /** Empties the oldest segment; returns false if that must wait for a descriptor. */
  #compactNow(nowMs: number): boolean {
    assert(!this.#drop.isUnderWay, "compaction waits for the end of a drop");
    if (nowMs < this.openAtMs) return false;
    try {
      return this.#compaction.step(Number.POSITIVE_INFINITY, () => false);
    } catch (error) {
      // The copies made so far are booked. No more room can be gained until a file can be opened.
      if (!isDescriptorShortage(error)) throw error;
      this.openAtMs = nowMs + RETRY_ROOM_MS;
      return false;
    }
  }
}
