// A round: the home of a batch tells all shards what it has decided, and asks for their counts.

import { assert } from "../../base/assert.ts";
import type { BatchRow } from "../../engine/flows/batch-row.ts";
import { addBatchCounts, emptyBatchCounts } from "../../message/flow.ts";
import { type BatchCounts, BatchState } from "../../protocol/batch-facts.ts";

/** A command that waits for the sums of a round. */
export interface Asker {
  /** `counts` is undefined if the batch is forgotten. */
  answer(counts: Readonly<BatchCounts> | undefined): void;
}

export class BatchRound {
  readonly batch: BatchRow;
  readonly askers: readonly Asker[];
  readonly sum: BatchCounts = emptyBatchCounts();
  /** By shard. */
  readonly arrivals: Float64Array;
  /** The arrivals of the round before, if no member was open in it. */
  readonly before: Float64Array | undefined;
  /**
   * Whether the round says that the batch takes no more members. Otherwise, a shard may have got
   * one since its report.
   */
  readonly tellsEnd: boolean;
  /** Number of shards that have not reported. */
  left: number;
  /** Commands that need a round that begins after this one; undefined if none is needed. */
  next: Asker[] | undefined = undefined;

  constructor(batch: BatchRow, askers: readonly Asker[], before: Float64Array | undefined, shards: number) {
    this.batch = batch;
    this.askers = askers;
    this.before = before;
    this.tellsEnd = batch.state !== BatchState.Open && batch.state !== BatchState.Opening;
    this.arrivals = new Float64Array(shards);
    this.left = shards - 1;
    assert(before === undefined || before.length === shards, "rounds of a batch ask the same shards");
  }

  /** Adds the counts of the home itself, and those of shards that no longer exist. */
  addOwn(shard: number): void {
    assert(shard < this.arrivals.length, "the home of a batch is among the shards");
    addBatchCounts(this.batch, this.sum);
    this.sum.done += this.batch.formerDone;
    this.sum.failed += this.batch.formerFailed;
    this.arrivals[shard] = this.batch.arrivals;
  }

  /**
   * Whether no job has arrived on any shard since the previous round, which was quiet, too.
   * Otherwise, a job may have moved from a shard that had not reported to one that had.
   */
  get isStill(): boolean {
    const { arrivals, before } = this;
    return before !== undefined && arrivals.every((count, shard) => count === before[shard]);
  }
}
