// What a node knows of the batches in its own log: which of them the shared log must have, and where in it to begin.

import type { KnownBatch } from "../message/group.ts";

/** Batches that are remembered once all of the shared log is read. */
const RECENT = 1000;

export class OwnChain {
  readonly #node: number;
  readonly #batches = new Map<number, KnownBatch>();
  /** The first and the last batch; 0: there is none. */
  first = 0;
  last = 0;

  constructor(node: number, batches: readonly KnownBatch[]) {
    this.#node = node;
    for (const batch of batches) this.#batches.set(batch.n, batch);
    this.first = batches[0]?.n ?? 0;
    this.last = batches.at(-1)?.n ?? 0;
  }

  has(n: number, tag: number): boolean {
    return this.#batches.get(n)?.tag === tag;
  }

  add({ n, tag, epoch, node, unacknowledged, message }: KnownBatch): void {
    this.#batches.set(n, { n, tag, epoch, node, unacknowledged, message });
    this.first ||= n;
    this.last = n;
  }

  /** Only the last ones stay. */
  forget(): void {
    if (this.#batches.size <= 2 * RECENT) return;
    for (const n of this.#batches.keys()) {
      if (n > this.last - RECENT) break;
      this.#batches.delete(n);
    }
    this.first = this.last - RECENT + 1;
  }

  cut(n: number): void {
    for (let each = this.last; each > n; each--) this.#batches.delete(each);
    this.last = n;
  }

  /** Whether it has been valid in the shared log: read from there, or known to be acknowledged. */
  isSure(n: number, tag: number): boolean {
    return this.has(n, tag) && (this.#batches.get(n)!.node !== this.#node || n <= this.#knownAcknowledged());
  }

  /** The last batch behind batch `n` that has been valid in the shared log; 0: there is none. */
  lastSureBehind(n: number): number {
    for (let each = this.last; each > n && each >= this.first; each--)
      if (this.isSure(each, this.#batches.get(each)!.tag)) return each;
    return 0;
  }

  /** The last batch that a later one knew to be acknowledged. */
  #knownAcknowledged(): number {
    const { n, unacknowledged } = this.#batches.get(this.last)!;
    return n - 1 - unacknowledged;
  }

  /** The last message of the shared log that was known to be valid when the newest batch was written; 0: none that `last` allows. */
  knownMessage(last: number): number {
    for (let n = this.last; n >= this.first && n > 0; n--) {
      const message = this.#batches.get(n)?.message ?? 0;
      // Its lower 32 bits are known: the last sequence that has them.
      if (message > 0) return Math.max(0, last - ((((last - message) % 2 ** 32) + 2 ** 32) % 2 ** 32));
    }
    return 0;
  }
}
