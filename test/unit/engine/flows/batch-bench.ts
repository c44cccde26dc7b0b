// A traced engine with batches, whose facts a test decides as a home would, and their figures.

import { BatchOutcome, BatchState } from "../../../../src/protocol/batch-facts.ts";
import { readFailures } from "../../../../src/protocol/job-failure.ts";
import { figures, TracedEngine } from "../traced-engine.ts";

/** Batch `b<number>` is opened at `number` ms. */
export class BatchBench extends TracedEngine {
  assume(number: number, state: BatchState, more: { outcome?: BatchOutcome; failed?: number } = {}): void {
    const { outcome = BatchOutcome.None, failed = 0 } = more;
    const { batches } = this.engine;
    batches.assume({
      ...{ number, name: `b${number}`, state, outcome, keepMs: 0, openedAtMs: number, completeAtMs: 0 },
      ...{ allDone: state === BatchState.Complete ? 2 : 0, allFailed: failed },
    });
  }

  open(...numbers: number[]): void {
    for (const number of numbers) this.assume(number, BatchState.Open);
  }

  complete(number: number, outcome: BatchOutcome, failed = 0): void {
    this.assume(number, BatchState.Committed);
    this.assume(number, BatchState.Complete, { outcome, failed });
  }

  works(): string {
    return this.does((engine, nowMs) => engine.workOnFlows(nowMs)).replace(/^undefined(: )?/, "");
  }

  /** What the shard counts of a batch, and whether its home is to hear that nothing is open. */
  batch(number: number): string {
    const batch = this.engine.batches.of(number);
    if (batch === undefined) return "unknown";
    const { open, dead, moving, done, failed, buried, waitingJobs: waiting, arrivals } = batch;
    const idle = Number(this.engine.batches.idle.includes(batch));
    const counts = { open, dead, moving, done, failed, buried, waiting, arrivals, idle };
    return figures(counts).trim();
  }

  totals(): string {
    const { counts } = this.engine.batches;
    const { inState, openMembers, waiting, done, failed, released, buried } = counts;
    return `${inState.join(" ")};${figures({ openMembers, waiting, done, failed, released, buried })}`;
  }

  /** Why the job failed last. */
  reason(id: number): string {
    const [last] = readFailures(this.engine.policies.failures.of(this.engine.find(id)));
    return last === undefined ? "" : `${last.cause}, attempt ${last.attempt}: ${last.reason}`;
  }
}
