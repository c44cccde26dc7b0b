// The existing segments, oldest first: their sizes, live bytes and open files.

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
    return first === undefined ? undefined : this.#segments[number - first.number];
  }

  add(segment: Segment): void {
    const last = this.#segments.at(-1);
    if (last !== undefined && segment.number !== last.number + 1) throw new Error("segments out of order");
    this.#segments.push(segment);
  }

  removeOldest(): Segment {
    const segment = this.#segments.shift();
    if (segment === undefined) throw new Error("no segment to remove");
    if (segment.sealed) {
      this.sealedBytes -= segment.fileBytes;
      this.sealedCount--;
    }
    return segment;
  }

  addLive(number: number, bytes: number): void {
    const segment = this.get(number);
    if (segment === undefined) throw new Error("live bytes in a segment that is gone");
    segment.liveBytes += bytes;
    this.liveBytes += bytes;
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
    return sum;
  }

  /** Marks the segment as complete. */
  seal(segment: Segment): void {
    segment.sealed = true;
    this.sealedBytes += segment.fileBytes;
    this.sealedCount++;
  }
}
