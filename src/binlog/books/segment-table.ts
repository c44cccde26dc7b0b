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
  /** It has its END, so nothing more goes into it: only compaction reads it. */
  sealed: boolean;
  handle: Handle | undefined;
}

export class SegmentTable {
  #segments: Segment[] = [];
  /** Bytes that a rewrite of all live jobs needs. */
  liveBytes = 0;
  /** What the sealed segments take, and how many they are. */
  sealedBytes = 0;
  sealedCount = 0;

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

  /** What all files take on the disk. */
  fileBytes(): number {
    // Those that are not sealed are the last.
    let sum = this.sealedBytes;
    for (let at = this.#segments.length - 1; at >= 0 && !this.#segments[at]!.sealed; at--)
      sum += this.#segments[at]!.fileBytes;
    return sum;
  }

  /** What is free in those that are not sealed. */
  spareBytes(): number {
    let sum = 0;
    for (let at = this.#segments.length - 1; at >= 0 && !this.#segments[at]!.sealed; at--)
      sum += this.#segments[at]!.fileBytes - this.#segments[at]!.usedBytes;
    return sum;
  }

  /** Nothing more goes into it. */
  seal(segment: Segment): void {
    segment.sealed = true;
    this.sealedBytes += segment.fileBytes;
    this.sealedCount++;
  }
}
