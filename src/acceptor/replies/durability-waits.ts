// What the output of one connection waits for: places in it behind which nothing may leave before a record is
// in the log.
//
// Most connections hold one or two replies at a time, so the places stand in one small array of numbers, and
// a reply costs no object. A place asks for everything before it too, because replies leave in order.

import { assert } from "../../base/assert.ts";

/** Numbers of a place: its position in the output, the shard, the number of its record. */
const PLACE = 3;

export class DurabilityWaits {
  readonly #places: number[] = [];

  get empty(): boolean {
    return this.#places.length === 0;
  }

  /** How many bytes from the beginning of the output may leave before the first record is in the log. */
  get position(): number {
    assert(this.#places.length > 0, "only output that is held has a place to hold it at");
    return this.#places[0]!;
  }

  get shard(): number {
    return this.#places[1]!;
  }

  get number(): number {
    return this.#places[2]!;
  }

  /**
   * From `position` of the output on nothing may leave before record `number` of the shard is in the log.
   *
   * A place of the same shard behind the first one asks for this record from now on: the records of a turn
   * are written together, so its reply loses nothing. The first place never changes, or a pipeline could hold
   * it up for ever.
   */
  add(position: number, shard: number, number: number): void {
    const places = this.#places;
    const last = places.length - PLACE;
    if (last > 0 && places[last + 1] === shard) places[last + 2] = number;
    else places.push(position, shard, number);
  }

  /** The record of the first place is in the log. */
  shift(): void {
    this.#places.splice(0, PLACE);
  }

  /** So many bytes have left the beginning of the output. */
  moved(bytes: number): void {
    for (let at = 0; at < this.#places.length; at += PLACE) this.#places[at] = this.#places[at]! - bytes;
  }

  clear(): void {
    this.#places.length = 0;
  }
}
