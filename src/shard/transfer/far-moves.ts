// Many jobs that go to tubes on other shards, such as those of one move-jobs: one round of
// transfers after another.

import { assert } from "../../base/assert.ts";
import { Outcome } from "../../engine/jobs/outcome.ts";
import type { Travel } from "../../engine/transfer/job-travel.ts";
import type { FarMoves } from "../../engine/walks/tube-moving.ts";
import { TRANSFER_BYTES_MAX, TRANSFER_JOBS_MAX } from "../../message/transfer.ts";
import type { Sender, Transfer, TransferSender } from "./transfer-sender.ts";

/**
 * A round is about as many jobs as fit into one transfer, whatever their tubes. The next round
 * waits for its outcome, so that a full tube ends the move with the jobs it has taken.
 */
export class FarMove implements FarMoves, Sender {
  underWay = 0;
  moved = 0;
  /** Why the first refused job was refused; Done if none was. */
  refusal: Outcome = Outcome.Done;
  readonly #transferSender: TransferSender;
  #bytes = 0;
  /** Transfers in flight. */
  readonly #sent = new Set<Transfer>();
  /** Transfers being filled, by tube. */
  readonly #open = new Map<string, Transfer>();

  readonly #travel: Travel;

  constructor(transferSender: TransferSender, travel: Travel) {
    this.#transferSender = transferSender;
    this.#travel = travel;
  }

  get refused(): boolean {
    return this.refusal !== Outcome.Done;
  }

  get isFull(): boolean {
    return this.underWay >= TRANSFER_JOBS_MAX || this.#bytes >= TRANSFER_BYTES_MAX || this.#isSent;
  }

  /** Whether the round is complete. */
  #isSent = false;

  send(slot: number, target: string, asReady: boolean, nowMs: number): void {
    assert(slot >= 0, "a job that is sent is on this shard");
    assert(!this.#isSent, "a round in progress takes no more jobs");
    const open = this.#open.get(target);
    let transfer = open;
    if (transfer === undefined || !this.#transferSender.hasRoom(transfer, slot)) {
      if (open !== undefined) this.#sendOne(open);
      transfer = this.#transferSender.begin(target, this.#travel, this);
      transfer.asReady = asReady;
      this.#open.set(target, transfer);
    }
    const before = transfer.bytes;
    this.#transferSender.add(transfer, slot, nowMs);
    assert(transfer.bytes > before, "a job adds to its transfer");
    this.#bytes += transfer.bytes - before;
    this.underWay++;
  }

  /** Sends the transfers that a step has filled. */
  sendAll(): void {
    if (this.#open.size === 0) return;
    for (const transfer of this.#open.values()) this.#sendOne(transfer);
    this.#open.clear();
    this.#isSent = true;
  }

  #sendOne(transfer: Transfer): void {
    assert(!this.#sent.has(transfer), "a transfer is sent once");
    this.#sent.add(transfer);
    this.#transferSender.send(transfer);
  }

  /** One of the jobs in flight, whose arrival will be reported to the sender. */
  get awaitedJob(): number | undefined {
    const [first] = this.#sent;
    return first?.ids[0];
  }

  landed(transfer: Transfer, taken: number, refusal: Outcome): void {
    const wasSent = this.#sent.delete(transfer);
    assert(wasSent, "a transfer of the round lands once");
    assert(taken <= transfer.ids.length, "no more jobs arrive than were sent");
    this.underWay -= transfer.ids.length;
    assert(this.underWay >= 0, "the number of jobs in flight is not negative");
    this.moved += taken;
    if (this.refusal === Outcome.Done) this.refusal = refusal;
    if (this.underWay > 0) return;
    assert(this.#sent.size === 0 && this.#open.size === 0, "a round without jobs in flight has no transfer");
    this.#bytes = 0;
    this.#isSent = false;
  }
}
