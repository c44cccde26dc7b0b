// A set of up to 64 shards, as bits.

export class ShardSet {
  empty = true;
  #low = 0;
  #high = 0;

  add(shard: number): void {
    if (shard < 32) this.#low |= 1 << shard;
    else this.#high |= 1 << (shard - 32);
    this.empty = false;
  }

  delete(shard: number): void {
    if (shard < 32) this.#low &= ~(1 << shard);
    else this.#high &= ~(1 << (shard - 32));
    this.empty = (this.#low | this.#high) === 0;
  }

  has(shard: number): boolean {
    return ((shard < 32 ? this.#low >>> shard : this.#high >>> (shard - 32)) & 1) === 1;
  }

  /** Returns the shards in the set, out of `shards` in total. */
  list(shards: number): number[] {
    const list: number[] = [];
    for (let shard = 0; shard < shards; shard++) if (this.has(shard)) list.push(shard);
    return list;
  }

  /** Returns whether the set contains no other shard. */
  within(shard: number): boolean {
    const low = shard < 32 ? 1 << shard : 0;
    const high = shard < 32 ? 0 : 1 << (shard - 32);
    return (this.#low & ~low) === 0 && (this.#high & ~high) === 0;
  }
}
