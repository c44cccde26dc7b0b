// Batches that the shared log has acknowledged but no standby has reported on disk, for
// `--replicate-wait standby`.

import { assert, CHECKED } from "../base/assert.ts";

/** Batches up to `n` are acknowledged, and with them each shard's records up to these numbers. */
interface Acknowledged {
  n: number;
  numbers: Float64Array;
  idsLent: number;
}

/**
 * Without a standby, the list grows every second, because timers continue. Beyond this length, the
 * latest batches are released together. Clients have no more than that in flight.
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
    assert(last === undefined || batch.n > last.n, "batches are held in order");
    assert(
      last === undefined || batch.numbers.length === last.numbers.length,
      "the number of shards is constant",
    );
    if (CHECKED && last !== undefined)
      assert(
        batch.numbers.every((number, shard) => number >= last.numbers[shard]!),
        "records are acknowledged in order",
      );
    // A batch without changes releases no reply.
    if (last !== undefined && isSame(last, batch)) return;
    if (held.length < HELD_MAX) held.push(batch);
    else held[HELD_MAX - 1] = batch;
    assert(held.length <= HELD_MAX && held.at(-1) === batch, "the last batch is held");
  }

  /**
   * A standby has all batches up to `n`. Returns the last batch that this releases, or undefined.
   */
  release(n: number): Acknowledged | undefined {
    assert(n >= 0, "the number of batches is never negative");
    const kept = this.#held.findIndex((batch) => batch.n > n);
    const released = this.#held.splice(0, kept === -1 ? this.#held.length : kept);
    assert(this.#held[0] === undefined || this.#held[0].n > n, "released batches are no longer held");
    return released.at(-1);
  }
}

function isSame(a: Acknowledged, b: Acknowledged): boolean {
  return a.idsLent === b.idsLent && a.numbers.every((number, shard) => number === b.numbers[shard]);
}
