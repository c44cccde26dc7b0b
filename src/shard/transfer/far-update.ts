// An update-job that moves its job to a tube on another shard.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { JobChange } from "../../engine/jobs/new-job.ts";
import { Outcome } from "../../engine/jobs/outcome.ts";
import { Travel } from "../../engine/transfer/job-travel.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";
import type { Sender, Transfer, TransferSender } from "./transfer-sender.ts";

/**
 * The job stays unchanged here until it exists there with the changes. If the other shard refuses
 * it, nothing has changed.
 */
export class FarUpdate implements SlicedCommand, Sender {
  readonly jobs = 1;
  readonly #answer: (outcome: Outcome) => void;
  readonly #id: number;
  #outcome: Outcome | undefined;

  /** Sends a job, which the session may change, to `tube` on another shard. */
  constructor(
    { engine, transferSender, nowMs }: { engine: Engine; transferSender: TransferSender; nowMs: number },
    id: number,
    tube: string,
    change: JobChange,
    answer: (outcome: Outcome) => void,
  ) {
    this.#answer = answer;
    this.#id = id;
    const slot = engine.find(id);
    assert(slot !== NO_SLOT, "a changed job is on this shard");
    const isHeld = engine.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved;
    const transfer = transferSender.begin(tube, isHeld ? Travel.Handed : Travel.Update, this);
    // Moving a reserved job releases it.
    transfer.delayMs = change.delayMs ?? (isHeld ? 0 : undefined);
    transfer.facts = engine.changedFacts(slot, change, nowMs);
    transferSender.add(transfer, slot, nowMs);
    transferSender.send(transfer);
  }

  get awaitedJob(): number | undefined {
    return this.#outcome === undefined ? this.#id : undefined;
  }

  step(): boolean {
    return this.#outcome !== undefined;
  }

  landed(_: Transfer, taken: number, refusal: Outcome): void {
    assert(this.#outcome === undefined, "the job of an update lands once");
    assert(taken <= 1, "an update sends one job");
    this.#outcome = taken === 1 ? Outcome.Done : refusal;
  }

  finish(): void {
    assert(this.#outcome !== undefined, "an update ends when its job has landed");
    this.#answer(this.#outcome);
  }
}
