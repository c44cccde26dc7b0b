// State of a log that gets no more room: what it refuses, when it tries again, and what it reports.
// Each change is reported once.
//
// The log keeps the spare room that it needs to empty its oldest segment. Before a record would
// take some of it, the log compacts at once. The shards wait meanwhile; without the spare room, the
// log could never free space again.

import { assert } from "../../base/assert.ts";
import { isDescriptorShortage } from "../disk/binlog-error.ts";
import type { Compaction } from "./compaction.ts";
import type { LogWriter, StorageNotice, StorageOptions } from "./log-writer.ts";

/** Delay before the next attempt. */
export const RETRY_ROOM_MS = 1000;

export class FullDisk {
  readonly #path: string;
  readonly #notice: (notice: StorageNotice) => void;
  readonly #tail: LogWriter;
  readonly #compaction: Compaction;
  /** Whether puts must be refused: there is room only for records no longer than an update. */
  full = false;
  /**
   * Whether a write is waiting for room; some file systems need new blocks even to overwrite.
   * Nothing is lost: the log keeps the data and retries every second. Until then, nothing may be
   * appended, so it keeps at most one record besides the batch. Shards keep their records, and the
   * replies to them wait.
   */
  waiting = false;
  /** Time of the next attempt to make room while the log is full. */
  retryAtMs = Number.POSITIVE_INFINITY;
  /** Time of the next attempt to write while the log waits. */
  resumeAtMs = 0;
  /** The time before which no file can be opened, because descriptors ran out. */
  openAtMs = 0;

  constructor({ disk, notice }: StorageOptions, tail: LogWriter, compaction: Compaction) {
    this.#path = disk.path;
    this.#notice = notice;
    this.#tail = tail;
    this.#compaction = compaction;
    this.begin(0, tail.segments.shortage);
  }

  /** Records that no room could be made. `code` is the system's, or "" for none. */
  begin(nowMs: number, code: string): void {
    if (code === "") return;
    this.retryAtMs = nowMs + RETRY_ROOM_MS;
    if (this.full) return;
    this.full = true;
    const what = code.endsWith("FILE") ? "There are no file descriptors left" : "The disk is full";
    const message = `${what} (${code}): puts are refused until there is room in ${this.#path}`;
    this.#notice({ level: "error", code: "BINLOG_FULL", message });
  }

  /** Records that a full log has all the room it wants. */
  end(): void {
    assert(this.full && !this.waiting, "a log that is not full has its room, and a waiting one has none");
    this.retryAtMs = Number.POSITIVE_INFINITY;
    this.full = false;
    const message = `There is room again in ${this.#path}: puts are accepted`;
    this.#notice({ level: "info", code: "BINLOG_ROOM", message });
  }

  /** Records that a write found no room. */
  wait(nowMs: number, code: string): void {
    assert(code !== "", "a wait has a reason");
    this.resumeAtMs = nowMs + RETRY_ROOM_MS;
    this.begin(nowMs, code);
    if (this.waiting) return;
    assert(this.full, "a waiting log is full");
    this.waiting = true;
    const message = `Nothing can be written to ${this.#path} (${code}): changes of jobs wait until there is room`;
    this.#notice({ level: "error", code: "BINLOG_WAITS", message });
  }

  /** Records that all waiting changes are written. */
  goOn(): void {
    assert(this.waiting && this.full, "only a waiting log continues");
    this.waiting = false;
    const message = `Changes of jobs are written to ${this.#path} again`;
    this.#notice({ level: "info", code: "BINLOG_GOES_ON", message });
  }

  /** A segment is gone: a full log tries at once to make room. */
  segmentIsGone(): void {
    if (this.full) this.retryAtMs = 0;
  }

  // --- compaction at once ------------------------------------------------------------------------

  /**
   * Compacts until there is room for a frame besides the spare room, or until that gains nothing.
   */
  squeeze(framedBytes: number, nowMs: number): void {
    assert(framedBytes > 0, "room is made for a frame");
    const tail = this.#tail;
    // In a group, a segment goes only when the shared log has its DROP, and nothing here may wait
    // for that.
    if (tail.chain !== undefined) return;
    let rounds = 2 * tail.table.all.length;
    while (rounds > 0 && tail.segments.roomBytes < this.#spareRoomBytes() + framedBytes) {
      if (!this.#emptyOldest(framedBytes, nowMs)) return;
      this.#compaction.finishDropNow(nowMs);
      this.segmentIsGone();
      while (tail.fill() === "more") {}
      rounds--;
    }
  }

  /** Returns the bytes needed to copy the segment with the most live bytes. */
  #spareRoomBytes(): number {
    let mostBytes = this.#tail.segments.softLimitBytes / 8;
    for (const segment of this.#tail.table.all)
      if (segment.sealed) mostBytes = Math.max(mostBytes, segment.liveBytes);
    return mostBytes + this.#tail.marginBytes;
  }

  /**
   * Copies the live records of the oldest segment and appends its DROP. Returns false if that gains
   * nothing or is impossible now.
   */
  #emptyOldest(framedBytes: number, nowMs: number): boolean {
    const tail = this.#tail;
    const { segments } = tail;
    if (this.#compaction.deadBytes < segments.softLimitBytes / 16) return false;
    if (tail.dropping === 0 && !tail.hasRoomFor(tail.table.oldest?.liveBytes ?? 0)) return false;
    tail.write();
    if (tail.table.sealedCount === 0) {
      if (!segments.nextFits(framedBytes)) return false;
      tail.leave();
    }
    if (tail.dropping !== 0) return true;
    if (!this.#compactNow(nowMs)) return false;
    assert(tail.table.oldest?.liveBytes === 0, "compaction leaves no live record");
    this.#compaction.beginDrop();
    return true;
  }

  /** Empties the oldest segment; returns false if that must wait for a descriptor. */
  #compactNow(nowMs: number): boolean {
    assert(this.#tail.dropping === 0, "compaction waits for the end of a drop");
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
