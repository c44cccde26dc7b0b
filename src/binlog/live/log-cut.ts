// Cut of the log for a backup: a border between two segments, after all records taken so far. The
// segments before it stay on the disk until the backup releases them, even if compaction drops them
// in the meantime.
//
// A kept segment that was dropped no longer counts: its DROP is durable, so a start after a kill
// removes it.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/text.ts";
import type { Disk } from "../disk/disk.ts";
import { HEADER_BYTES } from "../segments/segment-format.ts";
import type { LogWriter } from "./log-writer.ts";

/** "refused" also if the disk ran full and the log took its space back. */
export type CutState = "none" | "sought" | "made" | "refused";

export class LogCut {
  readonly #disk: Disk;
  readonly #tail: LogWriter;
  /** The backup that the state belongs to; 0 for none. */
  number = 0;
  state: CutState = "none";
  /** Whether `work` may have something to do. */
  isBusy = false;
  /** The segments of the cut; none if `last` is below `oldest`. */
  oldest = 0;
  last = 0;
  /** Dropped segments that are still on the disk: from the first to below the end. */
  #keptFrom = 0;
  #keptEnd = 0;
  #unlinked = false;

  constructor(disk: Disk, tail: LogWriter) {
    this.#disk = disk;
    this.#tail = tail;
  }

  /** The number of dropped segments that are still on the disk. */
  get kept(): number {
    const kept = this.#keptEnd - this.#keptFrom;
    assert(kept >= 0, "the number of kept segments is never negative");
    return kept;
  }

  /** Requests a cut for a backup; 0 releases the last one. */
  want(number: number): void {
    if (number === this.number) return;
    this.number = number;
    this.state = number === 0 ? "none" : "sought";
    this.isBusy = true;
  }

  /**
   * Returns whether a dropped segment must stay on the disk for now. The backup also takes the
   * header of the segment after the cut.
   */
  keeps(segment: number): boolean {
    if (this.state !== "made" || segment < this.oldest || segment > this.last + 1) return false;
    if (this.#tail.segments.shortage !== "") {
      this.state = "refused";
      return false;
    }
    if (this.kept === 0) this.#keptFrom = this.#keptEnd = segment;
    // A failed step is repeated.
    assert(segment === this.#keptEnd || segment === this.#keptEnd - 1, "segments are dropped in order");
    this.#keptEnd = segment + 1;
    return true;
  }

  /**
   * Does one step: removes a released segment, or makes a cut. Returns whether there is more to do.
   * A log that is `full` needs the space itself.
   */
  work(full: boolean): boolean {
    if (full && (this.state === "sought" || this.state === "made")) this.state = "refused";
    if (this.state !== "made" && (this.kept > 0 || this.#unlinked)) return this.#removeKept();
    this.isBusy = this.state !== "none";
    return this.state === "sought" && this.#seek();
  }

  /** Frees all space at once, for a log that can write nothing. */
  giveWay(): void {
    if (this.state === "made") this.state = "refused";
    while (this.kept > 0 || this.#unlinked) this.#removeKept();
  }

  /** An error may interrupt this at any call; the next step continues there. */
  #removeKept(): true {
    if (this.kept > 0) {
      this.#disk.unlink(segmentName(this.#keptFrom));
      this.#keptFrom++;
      this.#unlinked = true;
    }
    if (this.kept === 0) {
      this.#disk.syncFolder();
      this.#unlinked = false;
    }
    return true;
  }

  #seek(): boolean {
    assert(this.state === "sought", "a cut is made only for a backup");
    const tail = this.#tail;
    if (tail.segments.current.usedBytes > HEADER_BYTES) {
      // The log needs the room of a whole segment at any time, and gives up that of the current
      // one. What is dead goes first: both together would break the log's promise.
      if (tail.promisedBytes < tail.fillNextBytes) return false;
      const filling = tail.fillNext();
      if (filling === "full") this.state = "refused";
      if (filling !== "enough") return filling === "more";
      tail.leave();
    }
    this.state = "made";
    this.oldest = tail.oldest;
    this.last = tail.segments.current.number - 1;
    assert(this.oldest <= this.last + 1, "a cut ends after the oldest segment");
    return false;
  }
}
