// A batch as one shard knows it.

import { assert } from "../../base/assert.ts";
import { type BatchCounts, type BatchFacts, BatchOutcome, BatchState } from "../../protocol/batch-facts.ts";
import type { JobTable } from "../jobs/job-table.ts";
import { JobList } from "../queues/job-list.ts";
import { Timer } from "../queues/timer-heap.ts";

export class BatchRow implements BatchFacts, BatchCounts {
  readonly number: number;
  readonly name: string;
  state: BatchState;
  outcome: BatchOutcome = BatchOutcome.None;
  keepMs: number;
  openedAtMs: number;
  completeAtMs = 0;
  allDone = 0;
  allFailed = 0;
  open = 0;
  dead = 0;
  moving = 0;
  done = 0;
  failed = 0;
  buried = 0;
  waitingJobs = 0;
  arrivals = 0;
  /** The jobs of this shard that wait for the batch. */
  readonly waiting: JobList;
  /** Members that ended on shards that the server no longer has. */
  formerDone = 0;
  formerFailed = 0;
  /** When its home forgets it, once it is complete. */
  readonly timer: Timer<BatchRow> = new Timer<BatchRow>(this);
  /** Whether it is among `BatchTable.idle`. */
  isIdle = false;
  /** The state under which `BatchTotals` counts it. */
  counted: BatchState = BatchState.Forgotten;

  constructor(jobs: JobTable, { number, name, state, keepMs, openedAtMs }: Readonly<BatchFacts>) {
    this.number = number;
    this.name = name;
    this.state = state;
    this.keepMs = keepMs;
    this.openedAtMs = openedAtMs;
    this.waiting = new JobList(jobs);
  }

  /** Takes over what the home of the batch has decided. */
  assume(facts: Readonly<BatchFacts>): void {
    assert(facts.number === this.number, "a decision about a batch names the batch");
    this.state = facts.state;
    this.outcome = facts.outcome;
    this.keepMs = facts.keepMs;
    this.completeAtMs = facts.completeAtMs;
    this.allDone = facts.allDone;
    this.allFailed = facts.allFailed;
  }

  /** Whether it takes no more members, but is not complete. */
  get isEnding(): boolean {
    return this.state === BatchState.Committed || this.state === BatchState.Cancelled;
  }
}
