// The positions in one connection's output that wait for the log: nothing after a position may
// leave before its record is in the log.
//
// Most connections hold one or two replies at a time. The positions are therefore kept in one small
// array of numbers, and a reply costs no object. A position also delays everything after it,
// because replies leave in order.

import { assert } from "../../base/assert.ts";

/** Numbers per entry: position in the output, shard, record number. */
const PLACE = 3;

export class DurabilityWaits {
  empty = true;
  readonly #places: number[] = [];

  /** The number of bytes of the output that may leave before the first record is in the log. */
  get position(): number {
    assert(this.#places.length > 0, "only held output has a position");
    return this.#places[0]!;
  }

  get shard(): number {
    return this.#places[1]!;
  }

  get number(): number {
    return this.#places[2]!;
  }

  /**
   * Holds the output from `position` on until record `number` of the shard is in the log.
   *
   * If the last entry belongs to the same shard and is not the first, it waits for this record
   * instead. The records of a turn are written together, so its reply loses nothing. The first
   * entry never changes; otherwise a pipeline could delay it for ever.
   */
  add(position: number, shard: number, number: number): void {
    this.empty = false;
    const places = this.#places;
    const last = places.length - PLACE;
    if (last > 0 && places[last + 1] === shard) places[last + 2] = number;
    else places.push(position, shard, number);
  }

  /** Removes the first entry, because its record is in the log. */
  shift(): void {
    this.#places.splice(0, PLACE);
    this.empty = this.#places.length === 0;
  }

  /** Notes that `bytes` have left the beginning of the output. */
  moved(bytes: number): void {
    for (let at = 0; at < this.#places.length; at += PLACE) this.#places[at] = this.#places[at]! - bytes;
  }

  clear(): void {
    this.#places.length = 0;
    this.empty = true;
  }
}
