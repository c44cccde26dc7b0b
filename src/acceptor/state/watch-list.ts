// The tubes that a connection watches, in beanstalkd's order: new tubes are appended, and on ignore
// the last one moves into the gap.

import { latin1 } from "../../base/bytes.ts";
import type { TubeRef } from "./tube-ref.ts";

/** Up to this many tubes, a linear search is faster than building a string to look up. */
const LOOKED_AT_MAX = 8;

export class WatchList {
  readonly #tubes: TubeRef[] = [];
  /** Position by name, while there are more than LOOKED_AT_MAX. */
  #positions: Map<string, number> | undefined;
  /** Total length of all names. */
  nameBytes = 0;
  /** The number of watched tubes on each shard. */
  readonly #perShard: Int32Array;
  /** The number of shards with at least one. */
  shardCount = 0;

  constructor(shards: number) {
    this.#perShard = new Int32Array(shards);
  }

  get size(): number {
    return this.#tubes.length;
  }

  get tubes(): readonly TubeRef[] {
    return this.#tubes;
  }

  /** Returns the position of the tube with this name, or -1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    if (this.#positions !== undefined) return this.#positions.get(latin1(bytes, start, end)) ?? -1;
    for (let i = 0; i < this.#tubes.length; i++) if (this.#tubes[i]!.is(bytes, start, end)) return i;
    return -1;
  }

  add(tube: TubeRef): void {
    this.#tubes.push(tube);
    this.nameBytes += tube.bytes.length;
    if (this.#positions !== undefined) this.#positions.set(tube.name, this.#tubes.length - 1);
    else if (this.#tubes.length > LOOKED_AT_MAX)
      this.#positions = new Map(this.#tubes.map((each, position) => [each.name, position]));
    const count = this.#perShard[tube.shard]!;
    if (count === 0) this.shardCount++;
    this.#perShard[tube.shard] = count + 1;
  }

  removeAt(position: number): void {
    const tube = this.#tubes[position]!;
    const last = this.#tubes.pop()!;
    this.nameBytes -= tube.bytes.length;
    this.#positions?.delete(tube.name);
    if (last !== tube) {
      this.#tubes[position] = last;
      this.#positions?.set(last.name, position);
    }
    if (this.#tubes.length <= LOOKED_AT_MAX) this.#positions = undefined;
    const count = this.#perShard[tube.shard]! - 1;
    if (count === 0) this.shardCount--;
    this.#perShard[tube.shard] = count;
  }

  watches(shard: number): boolean {
    return this.#perShard[shard]! > 0;
  }

  /** The shard of the watched tubes, if they are all on one. */
  get onlyShard(): number {
    return this.#tubes[0]!.shard;
  }
}
