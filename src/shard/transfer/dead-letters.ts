// Sends dead jobs to dead-letter tubes on other shards, one round of transfers after another.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import { Travel } from "../../engine/transfer/job-travel.ts";
import { TRANSFER_JOBS_MAX } from "../../message/transfer.ts";
import { FarMove } from "./far-moves.ts";
import type { TransferSender } from "./transfer-sender.ts";

/** If there is no memory for a job, it stays buried in its tube, as without a dead-letter tube. */
export class DeadLetters {
  readonly #engine: Engine;
  readonly #round: FarMove;
  #ids: readonly number[] = [];
  #at = 0;
  /** Whether jobs of the last list are left. */
  isUnderWay = false;

  constructor(engine: Engine, transferSender: TransferSender) {
    this.#engine = engine;
    this.#round = new FarMove(transferSender, Travel.Death);
  }

  get hasWork(): boolean {
    return (
      this.#round.underWay === 0 && (this.#at < this.#ids.length || this.#engine.policies.deaths.someLeave)
    );
  }

  /** Begins a round if there is something to send and none is in progress. */
  step(nowMs: number): void {
    if (!this.hasWork) return;
    assert(!this.#round.isFull, "a round that begins has room");
    for (let left = TRANSFER_JOBS_MAX; left > 0 && this.#mayGoOn(); left--) this.#take(nowMs);
    this.#round.sendAll();
    this.isUnderWay = this.#at < this.#ids.length;
  }

  #mayGoOn(): boolean {
    if (this.#at === this.#ids.length) {
      this.#ids = this.#engine.policies.deaths.takeLeaving();
      this.#at = 0;
    }
    return this.#at < this.#ids.length && !this.#round.isFull;
  }

  #take(nowMs: number): void {
    const id = this.#ids[this.#at++]!;
    assert(id > 0, "a job that leaves has an id");
    const target = this.#engine.leavesFor(id, nowMs);
    if (target === "") return;
    const slot = this.#engine.find(id);
    assert(slot !== NO_SLOT, "a dead job that leaves is still here");
    this.#round.send(slot, target, true, nowMs);
  }
}
