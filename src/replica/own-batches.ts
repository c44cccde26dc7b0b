// Batches in a node's local log: which of them the shared log must have, and where to start reading
// it.

import { assert, CHECKED } from "../base/assert.ts";
import type { KnownBatch } from "../message/group.ts";

/** Number of batches to remember after the node has read the whole shared log. */
const RECENT = 1000;

export class OwnBatches {
  readonly #node: number;
  readonly #batches = new Map<number, KnownBatch>();
  /** The first and the last batch; 0 for none. */
  first = 0;
  last = 0;

  constructor(node: number, batches: readonly KnownBatch[]) {
    this.#node = node;
    for (const batch of batches) this.#batches.set(batch.n, batch);
    if (CHECKED) assert(this.#batches.size === batches.length, "each batch has its own number");
    this.first = batches[0]?.n ?? 0;
    this.last = batches.at(-1)?.n ?? 0;
    assert(this.first <= this.last, "the batches of a log are in order");
  }

  has(n: number, tag: number): boolean {
    return this.#batches.get(n)?.tag === tag;
  }

  add({ n, tag, epoch, node, unacknowledged, message }: KnownBatch): void {
    assert(this.last === 0 || n === this.last + 1, "the local log has no gaps");
    this.#batches.set(n, { n, tag, epoch, node, unacknowledged, message });
    this.first ||= n;
    this.last = n;
  }

  /** Keeps only the latest batches. */
  forget(): void {
    if (this.#batches.size <= 2 * RECENT) return;
    for (const n of this.#batches.keys()) {
      if (n > this.last - RECENT) break;
      this.#batches.delete(n);
    }
    this.first = this.last - RECENT + 1;
    if (CHECKED) assert(this.#batches.has(this.first), "the first kept batch is known");
  }

  cut(n: number): void {
    assert(n >= this.first && n <= this.last, "a cut keeps an existing batch");
    for (let each = this.last; each > n; each--) this.#batches.delete(each);
    this.last = n;
  }

  /**
   * Returns whether the batch was valid in the shared log: read from there, or known to be
   * acknowledged.
   */
  isSure(n: number, tag: number): boolean {
    return this.has(n, tag) && (this.#batches.get(n)!.node !== this.#node || n <= this.#knownAcknowledged());
  }

  /** Returns the last batch after batch `n` that was valid in the shared log; 0 for none. */
  lastSureBehind(n: number): number {
    for (let each = this.last; each > n && each >= this.first; each--)
      if (this.isSure(each, this.#batches.get(each)!.tag)) return each;
    return 0;
  }

  /** Returns the last batch that was acknowledged when the newest one was written. */
  #knownAcknowledged(): number {
    const newest = this.#batches.get(this.last);
    assert(newest !== undefined, "the newest batch is known");
    const { n, unacknowledged } = newest;
    return n - 1 - unacknowledged;
  }

  /**
   * Returns the last message of the shared log that was known to be valid when the newest batch was
   * written; 0 if `last` allows none.
   */
  knownMessage(last: number): number {
    for (let n = this.last; n >= this.first && n > 0; n--) {
      const message = this.#batches.get(n)?.message ?? 0;
      // Only the lower 32 bits are known. The result is the highest sequence with these bits up to
      // `last`.
      if (message > 0) return Math.max(0, last - ((((last - message) % 2 ** 32) + 2 ** 32) % 2 ** 32));
    }
    return 0;
  }
}
