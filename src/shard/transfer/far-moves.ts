// Many jobs that go to tubes on other shards, such as those of one move-jobs: one round of
// shipments after another.

import { assert } from "../../base/assert.ts";
import { Outcome } from "../../engine/jobs/outcome.ts";
import type { Travel } from "../../engine/transfer/job-travel.ts";
import type { FarMoves } from "../../engine/walks/tube-moving.ts";
import { SHIPMENT_BYTES_MAX, SHIPMENT_JOBS_MAX } from "../../message/shipment.ts";
import type { Sender, Shipment, TransferSender } from "./transfer-sender.ts";

/**
 * A round is about as many jobs as fit into one shipment, whatever their tubes. The next round
 * waits for its outcome, so that a full tube ends the move with the jobs it has taken.
 */
export class FarMove implements FarMoves, Sender {
  underWay = 0;
  moved = 0;
  /** Why the first refused job was refused; Done if none was. */
  refusal: Outcome = Outcome.Done;
  readonly #departures: TransferSender;
  #bytes = 0;
  /** Shipments in flight. */
  readonly #sent = new Set<Shipment>();
  /** Shipments being filled, by tube. */
  readonly #open = new Map<string, Shipment>();

  readonly #travel: Travel;

  constructor(departures: TransferSender, travel: Travel) {
    this.#departures = departures;
    this.#travel = travel;
  }

  get refused(): boolean {
    return this.refusal !== Outcome.Done;
  }

  get isFull(): boolean {
    return this.underWay >= SHIPMENT_JOBS_MAX || this.#bytes >= SHIPMENT_BYTES_MAX || this.#isSent;
  }

  /** Whether the round is complete. */
  #isSent = false;

  send(slot: number, target: string, asReady: boolean): void {
    assert(slot >= 0, "a job that is sent is here");
    assert(!this.#isSent, "a round that is under way takes no more jobs");
    const open = this.#open.get(target);
    let shipment = open;
    if (shipment === undefined || !this.#departures.hasRoom(shipment, slot)) {
      if (open !== undefined) this.#sendOne(open);
      shipment = this.#departures.begin(target, this.#travel, this);
      shipment.asReady = asReady;
      this.#open.set(target, shipment);
    }
    const before = shipment.bytes;
    this.#departures.add(shipment, slot);
    this.#bytes += shipment.bytes - before;
    this.underWay++;
  }

  /** Sends the shipments that a step has filled. */
  sendAll(): void {
    if (this.#open.size === 0) return;
    for (const shipment of this.#open.values()) this.#sendOne(shipment);
    this.#open.clear();
    this.#isSent = true;
  }

  #sendOne(shipment: Shipment): void {
    assert(!this.#sent.has(shipment), "a shipment is sent once");
    this.#sent.add(shipment);
    this.#departures.send(shipment);
  }

  /** One of the jobs in flight whose arrival the sender will be told of. */
  get awaitedJob(): number | undefined {
    const [first] = this.#sent;
    return first?.ids[0];
  }

  landed(shipment: Shipment, taken: number, refusal: Outcome): void {
    const wasSent = this.#sent.delete(shipment);
    assert(wasSent, "a shipment of the round lands once");
    assert(taken <= shipment.ids.length, "no more jobs arrive than were sent");
    this.underWay -= shipment.ids.length;
    assert(this.underWay >= 0, "jobs under way are counted");
    this.moved += taken;
    if (this.refusal === Outcome.Done) this.refusal = refusal;
    if (this.underWay > 0) return;
    assert(this.#sent.size === 0 && this.#open.size === 0, "a round without jobs under way has no shipment");
    this.#bytes = 0;
    this.#isSent = false;
  }
}
