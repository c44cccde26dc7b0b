// The tubes that a connection watches, in beanstalkd's order: appended, and the last one moved into the gap on ignore.

import type { TubeRef } from "./tube-ref.ts";

export class WatchList {
  readonly #tubes: TubeRef[] = [];
  /** How many watched tubes live on each shard. */
  readonly #perShard: Int32Array;
  /** Shards with at least one. */
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

  /** Position of the tube with this name, or -1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    for (let i = 0; i < this.#tubes.length; i++) if (this.#tubes[i]!.is(bytes, start, end)) return i;
    return -1;
  }

  add(tube: TubeRef): void {
    this.#tubes.push(tube);
    const count = this.#perShard[tube.shard]!;
    if (count === 0) this.shardCount++;
    this.#perShard[tube.shard] = count + 1;
  }

  removeAt(position: number): void {
    const tube = this.#tubes[position]!;
    const last = this.#tubes.pop()!;
    if (last !== tube) this.#tubes[position] = last;
    const count = this.#perShard[tube.shard]! - 1;
    if (count === 0) this.shardCount--;
    this.#perShard[tube.shard] = count;
  }

  watches(shard: number): boolean {
    return this.#perShard[shard]! > 0;
  }

  /** The only shard with watched tubes, when there is just one. */
  get onlyShard(): number {
    return this.#tubes[0]!.shard;
  }
}
