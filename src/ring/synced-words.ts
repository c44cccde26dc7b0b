// How far each shard's log records are durable: one int32 a shard, the number of the last durable record (it wraps).

/** int32 words between two shards' entries: a cache line each. */
export const SYNCED_WORDS = 16;

export class SyncedWords {
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer);
  }

  /** All records of the shard up to `number` are durable. Written by the binlog thread only. */
  publish(shard: number, number: number): void {
    Atomics.store(this.#words, shard * SYNCED_WORDS, number | 0);
  }

  /** Whether record `number` of the shard is durable. */
  reached(shard: number, number: number): boolean {
    return ((Atomics.load(this.#words, shard * SYNCED_WORDS) - number) | 0) >= 0;
  }
}
