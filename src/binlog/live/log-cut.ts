// A cut of the log for a backup: a border between two segments, behind everything that was taken
// before. The segments before it stay on the disk until the backup gives them back, even if
// compaction drops them meanwhile.
//
// A dropped segment that is kept no longer counts: its DROP is durable, so a start after a kill
// removes it.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/segment-name.ts";
import type { Disk } from "../disk/disk.ts";
import { HEADER_BYTES } from "../format/segment-format.ts";
import type { LogTail } from "./log-tail.ts";

/** "refused" also if the disk ran full and the log took its space back. */
export type CutState = "none" | "sought" | "made" | "refused";

export class LogCut {
  readonly #disk: Disk;
  readonly #tail: LogTail;
  /** The backup that the state is about; 0 for none. */
  number = 0;
  state: CutState = "none";
  /** The segments of the cut; none if `last` is below `oldest`. */
  oldest = 0;
  last = 0;
  /** Dropped segments that are still on the disk: from the first to below the end. */
  #keptFrom = 0;
  #keptEnd = 0;
  #unlinked = false;

  constructor(disk: Disk, tail: LogTail) {
    this.#disk = disk;
    this.#tail = tail;
  }

  /** The number of dropped segments that are still on the disk. */
  get kept(): number {
    const kept = this.#keptEnd - this.#keptFrom;
    assert(kept >= 0, "segments that are kept are counted");
    return kept;
  }

  /** Notes which backup wants a cut; 0 gives the last one back. */
  want(number: number): void {
    assert(number >= 0, "a backup has a number");
    if (number === this.number) return;
    this.number = number;
    this.state = number === 0 ? "none" : "sought";
  }

  /**
   * Returns whether a segment that is dropped must stay on the disk for now. The backup takes the
   * header of the segment behind the cut, too.
   */
  keeps(segment: number): boolean {
    if (this.state !== "made" || segment < this.oldest || segment > this.last + 1) return false;
    if (this.#tail.segments.shortage !== "") {
      this.state = "refused";
      return false;
    }
    if (this.kept === 0) this.#keptFrom = this.#keptEnd = segment;
    // A step that failed is repeated.
    assert(segment === this.#keptEnd || segment === this.#keptEnd - 1, "segments are dropped in order");
    this.#keptEnd = segment + 1;
    return true;
  }

  /**
   * Does one step: removes a segment that was given back, or makes a cut. Returns whether there is
   * more to do. A log that is `full` needs the space itself.
   */
  work(full: boolean): boolean {
    if (full && (this.state === "sought" || this.state === "made")) this.state = "refused";
    if (this.state !== "made" && (this.kept > 0 || this.#unlinked)) return this.#removeKept();
    return this.state === "sought" && this.#seek();
  }

  /** Frees all space at once, for a log that can write nothing. */
  giveWay(): void {
    if (this.state === "made") this.state = "refused";
    while (this.kept > 0 || this.#unlinked) this.#removeKept();
  }

  /** An error may interrupt this at any call; the next step goes on there. */
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
    assert(this.state === "sought", "a cut is sought when a backup wants one");
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
    assert(this.oldest <= this.last + 1, "a cut ends behind the oldest segment");
    return false;
  }
}
