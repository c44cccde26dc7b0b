// Connection counts over all acceptors: in total and per address.
//
// The counts per address form a count-min sketch of four rows. The address's hash chooses one word
// in each row, and the smallest of the four words is its count. Other addresses may share a word,
// but hardly all four.

import { assert } from "../base/assert.ts";

/** Layout of the shared memory: the total, then ROWS rows of COLUMNS words. */
const ROWS = 4;
const COLUMNS_BITS = 14;
const COLUMNS = 1 << COLUMNS_BITS;

export const CONNECTION_COUNTS_BYTES: number = (1 + ROWS * COLUMNS) * 4;

export class ConnectionCounts {
  readonly #words: Int32Array;
  /** Random per process, so that attackers can't construct addresses that share words. */
  readonly #seed: number;

  constructor(buffer: SharedArrayBuffer, seed: number) {
    assert(buffer.byteLength === CONNECTION_COUNTS_BYTES, "the counts fill their memory");
    this.#words = new Int32Array(buffer);
    this.#seed = seed;
  }

  /** Counts one more connection, unless there are already `max`. */
  enter(max: number): boolean {
    if (Atomics.add(this.#words, 0, 1) < max) return true;
    this.leave();
    return false;
  }

  leave(): void {
    const before = Atomics.sub(this.#words, 0, 1);
    assert(before > 0, "a connection that leaves was counted");
  }

  /** Does the same for an address. */
  enterFrom(address: string, max: number): boolean {
    let least = Number.POSITIVE_INFINITY;
    for (let row = 0; row < ROWS; row++)
      least = Math.min(least, Atomics.add(this.#words, this.#wordOf(address, row), 1));
    if (least < max) return true;
    this.leaveFrom(address);
    return false;
  }

  leaveFrom(address: string): void {
    for (let row = 0; row < ROWS; row++) {
      const before = Atomics.sub(this.#words, this.#wordOf(address, row), 1);
      assert(before > 0, "an address that leaves was counted in each row");
    }
  }

  #wordOf(address: string, row: number): number {
    let hash = Math.imul(this.#seed ^ (row * 0x9e3779b9), 0x85ebca6b);
    for (let i = 0; i < address.length; i++) {
      hash = Math.imul(hash ^ address.charCodeAt(i), 0x01000193);
      hash ^= hash >>> 15;
    }
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return 1 + row * COLUMNS + ((hash ^ (hash >>> 16)) & (COLUMNS - 1));
  }
}
