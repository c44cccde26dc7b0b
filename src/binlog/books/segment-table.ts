// The existing segments, oldest first: their sizes, live bytes and open files.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Handle } from "../disk/disk.ts";

export interface Segment {
  readonly number: number;
  readonly salt: number;
  readonly createdAtMs: number;
  /** The file's length. For the segment being written, also the end of its durable zeros. */
  fileBytes: number;
  /** The position of the next record. */
  usedBytes: number;
  /** Bytes of frames that a rewrite would copy from this segment. */
  liveBytes: number;
  /** Whether the segment has its END: nothing more is appended, and only compaction reads it. */
  sealed: boolean;
  handle: Handle | undefined;
}

export class SegmentTable {
  #segments: Segment[] = [];
  /** Bytes that a rewrite of all live jobs needs. */
  liveBytes = 0;
  /** Bytes and number of the sealed segments. */
  sealedBytes = 0;
  sealedCount = 0;

  get all(): readonly Segment[] {
    return this.#segments;
  }

  get oldest(): Segment | undefined {
    return this.#segments[0];
  }

  /** Numbers are consecutive, so the distance from the oldest gives the index. */
  get(number: number): Segment | undefined {
    const first = this.#segments[0];
    const found = first === undefined ? undefined : this.#segments[number - first.number];
    if (CHECKED) assert(found === undefined || found.number === number, "segments lie by their numbers");
    return found;
  }

  add(segment: Segment): void {
    const last = this.#segments.at(-1);
    assert(last === undefined || segment.number === last.number + 1, "segments have no gaps");
    assert(segment.number > 0, "segments are counted from 1");
    assert(segment.usedBytes <= segment.fileBytes, "the records of a segment end inside its file");
    this.#segments.push(segment);
  }

  removeOldest(): Segment {
    const segment = this.#segments.shift();
    assert(segment?.liveBytes === 0, "nothing in a removed segment is live");
    if (segment.sealed) {
      this.sealedBytes -= segment.fileBytes;
      this.sealedCount--;
      assert(this.sealedBytes >= 0 && this.sealedCount >= 0, "sealed segments add up");
    }
    if (CHECKED)
      assert(
        this.#segments.reduce((sum, { liveBytes }) => sum + liveBytes, 0) === this.liveBytes,
        "live bytes add up",
      );
    return segment;
  }

  addLive(number: number, bytes: number): void {
    const segment = this.get(number);
    assert(segment !== undefined, "live bytes lie in a segment of the log");
    segment.liveBytes += bytes;
    assert(segment.liveBytes >= 0, "the live bytes of a segment are never negative");
    this.liveBytes += bytes;
    assert(this.liveBytes >= 0, "the live bytes of the log are never negative");
  }

  /** Returns the size of all files on disk. */
  fileBytes(): number {
    // The segments that are not sealed come last.
    let sum = this.sealedBytes;
    for (let at = this.#segments.length - 1; at >= 0 && !this.#segments[at]!.sealed; at--)
      sum += this.#segments[at]!.fileBytes;
    return sum;
  }

  /** Returns the free bytes in the segments that are not sealed. */
  spareBytes(): number {
    let sum = 0;
    for (let at = this.#segments.length - 1; at >= 0 && !this.#segments[at]!.sealed; at--)
      sum += this.#segments[at]!.fileBytes - this.#segments[at]!.usedBytes;
    assert(sum >= 0, "free bytes are never negative");
    return sum;
  }

  /** Marks the segment as complete. */
  seal(segment: Segment): void {
    assert(!segment.sealed, "a segment is sealed once");
    assert(segment.handle === undefined, "a sealed segment is closed");
    assert(segment.fileBytes === segment.usedBytes, "a sealed segment ends with its last record");
    assert(this.#segments[this.sealedCount] === segment, "segments are sealed in order");
    segment.sealed = true;
    this.sealedBytes += segment.fileBytes;
    this.sealedCount++;
  }
}
