// The segments that exist, oldest first: their sizes, what of them is live, their open files.

import type { Handle } from "../disk/disk.ts";

export interface Segment {
  readonly number: number;
  readonly salt: number;
  readonly createdAtMs: number;
  /** The file's length; while it is written to also the end of its zeros that are durable. */
  fileBytes: number;
  /** Where the next record goes. */
  usedBytes: number;
  /** Bytes of frames that a rewrite of the live jobs would need from here. */
  liveBytes: number;
  /** No more records: only compaction reads it. */
  left: boolean;
  handle: Handle | undefined;
}

export class SegmentTable {
  #segments: Segment[] = [];
  /** Bytes that a rewrite of all live jobs needs. */
  liveBytes = 0;
  /** What the segments that were left take, and how many they are. */
  leftBytes = 0;
  leftCount = 0;

  get all(): readonly Segment[] {
    return this.#segments;
  }

  get oldest(): Segment | undefined {
    return this.#segments[0];
  }

  /** Numbers are consecutive, so a segment is found by its distance from the oldest. */
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
    if (segment.left) {
      this.leftBytes -= segment.fileBytes;
      this.leftCount--;
    }
    return segment;
  }

  addLive(number: number, bytes: number): void {
    const segment = this.get(number);
    if (segment === undefined) throw new Error("live bytes in a segment that is gone");
    segment.liveBytes += bytes;
    this.liveBytes += bytes;
  }

  /** What all files take on the disk. */
  fileBytes(): number {
    let sum = 0;
    for (const segment of this.#segments) sum += segment.fileBytes;
    return sum;
  }

  /** No more records go into it. */
  setLeft(segment: Segment): void {
    segment.left = true;
    this.leftBytes += segment.fileBytes;
    this.leftCount++;
  }
}
