// Sums over the batches that a shard knows. They are kept up to date, because 100,000 batches are
// too many to count each second.

import { assert } from "../../base/assert.ts";
import { BatchState } from "../../protocol/batch-facts.ts";
import type { BatchRow } from "./batch-row.ts";

const zeros = (): [number, number, number, number, number] => [0, 0, 0, 0, 0];

export class BatchTotals {
  /** Batches by BatchState. As every shard knows all batches, this is the same on all of them. */
  readonly inState: number[] = zeros();
  /**
   * Batches that take members, in the order in which this shard learned that. It is the order of
   * their opening, except that news of several homes may overtake each other.
   */
  readonly #open = new Set<BatchRow>();
  /** Batches that are not complete, in the same order. */
  readonly #unfinished = new Set<BatchRow>();

  /** Batches that homes on this shard opened, and batches that they completed, by BatchOutcome. */
  opened = 0;
  readonly completed: number[] = zeros();

  /** Members on this shard that have not ended, and jobs on it that wait. */
  openMembers = 0;
  waiting = 0;
  /** Members that have ended on this shard. */
  done = 0;
  failed = 0;
  /** Jobs on this shard whose wait was ended by a batch: ready or delayed; buried. */
  released = 0;
  buried = 0;

  /** Notes the state of a batch that is new or may have changed. */
  changed(batch: BatchRow): void {
    const { state, counted } = batch;
    // A batch is not reported before all shards know it.
    if (state === counted || state === BatchState.Opening) return;
    assert(
      counted === BatchState.Forgotten || this.inState[counted]! > 0,
      "a batch was counted in its state",
    );
    if (counted !== BatchState.Forgotten) this.inState[counted]!--;
    else if (state === BatchState.Open) this.#open.add(batch);
    if (counted === BatchState.Open) this.#open.delete(batch);
    if (state === BatchState.Complete) this.#unfinished.delete(batch);
    else if (state === BatchState.Forgotten) {
      this.#unfinished.delete(batch);
      // A complete batch no longer counts its members.
      this.openMembers -= batch.open;
      assert(this.openMembers >= 0, "the members of a batch were counted");
    } else this.#unfinished.add(batch);
    if (state !== BatchState.Forgotten) this.inState[state]!++;
    batch.counted = state;
  }

  /** Counts a member that was open and has ended. */
  ended(done: boolean): void {
    this.openMembers--;
    assert(this.openMembers >= 0, "a member that ends was counted");
    if (done) this.done++;
    else this.failed++;
  }

  /** The batches that are not complete, the oldest first. */
  get unfinished(): IterableIterator<BatchRow> {
    return this.#unfinished.values();
  }

  /** When the oldest batch that takes members was opened; Infinity without one. */
  get openSinceMs(): number {
    return sinceMs(this.#open);
  }

  /** When the oldest batch that is not complete was opened; Infinity without one. */
  get unfinishedSinceMs(): number {
    return sinceMs(this.#unfinished);
  }
}

function sinceMs(batches: ReadonlySet<BatchRow>): number {
  for (const { openedAtMs } of batches) return openedAtMs;
  return Number.POSITIVE_INFINITY;
}
