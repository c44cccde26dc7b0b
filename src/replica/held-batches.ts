// With `--replicate-wait standby`: what the shared log has acknowledged, and no standby is known to have on its disk.

/** Up to `n` batches are acknowledged, and with them records of each shard up to these numbers. */
export interface Acknowledged {
  n: number;
  numbers: Float64Array;
  idsLent: number;
}

/**
 * Without a standby they become more with each second, since timers go on. From so many on the last ones are released together; clients have
 * no more than that under way.
 */
const HELD_MAX = 1024;

export class HeldBatches {
  #held: Acknowledged[] = [];

  get count(): number {
    return this.#held.length;
  }

  hold(batch: Acknowledged): void {
    const held = this.#held;
    const last = held.at(-1);
    // An empty one tells nobody anything.
    if (last !== undefined && isSame(last, batch)) return;
    if (held.length < HELD_MAX) held.push(batch);
    else held[HELD_MAX - 1] = batch;
  }

  /** A standby has all up to batch `n`. Returns the last one that this releases; undefined: none. */
  release(n: number): Acknowledged | undefined {
    const kept = this.#held.findIndex((batch) => batch.n > n);
    const released = this.#held.splice(0, kept === -1 ? this.#held.length : kept);
    return released.at(-1);
  }
}

function isSame(a: Acknowledged, b: Acknowledged): boolean {
  return a.idsLent === b.idsLent && a.numbers.every((number, shard) => number === b.numbers[shard]);
}
