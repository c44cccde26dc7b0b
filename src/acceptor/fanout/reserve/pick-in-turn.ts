// Chooses the job whose turn it is among several shards, for `reserve` of a connection that picks
// by weight.

import { RequestOp } from "../../../message/request.ts";
import { CandidateView, ResponseKind } from "../../../message/response.ts";
import { FloorView, PlaceView, TurnsView } from "../../../message/turns.ts";
import type { Request } from "../../../protocol/request.ts";
import { ReserveOrder } from "../../../protocol/reserve-order.ts";
import type { WatchOrder } from "../../state/watch-order.ts";
import type { Signal } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { Next, type Picker } from "./picker.ts";

interface Candidate {
  readonly shard: number;
  readonly place: number;
  /** The earliest turn of the shard's tubes with a job. */
  readonly earliest: number;
  readonly pri: number;
  readonly id: number;
}

/** Worse than any candidate. */
const NO_BOUND = { place: Number.POSITIVE_INFINITY, pri: 0xffffffff, id: Number.POSITIVE_INFINITY } as const;

export class PickInTurn implements Picker {
  readonly #host: ConversationHost;
  readonly #order: WatchOrder;
  /** Candidates by shard, for shards that have one. */
  readonly #candidates = new Map<number, Candidate>();
  /**
   * Whether a shard gives its best job whatever its place in the order. In an order by time, all
   * places advance while messages travel, so two shards could refuse in turn for ever.
   */
  #isUnbounded = false;

  constructor(host: ConversationHost, order: WatchOrder) {
    this.#host = host;
    this.#order = order;
  }

  begin(): void {
    this.#candidates.clear();
    this.#isUnbounded = false;
    this.#order.ask();
  }

  ask(message: Request): void {
    message.op = RequestOp.Collect;
    FloorView.fill(message, this.#order.floor);
  }

  note(signal: Signal): void {
    const { shard, payload } = signal;
    this.#order.raiseFloor(TurnsView.floor(payload));
    if (signal.kind !== ResponseKind.Candidate) this.#candidates.delete(shard);
    else {
      this.#candidates.set(shard, {
        shard,
        place: TurnsView.place(payload),
        earliest: TurnsView.earliest(payload),
        pri: CandidateView.pri(signal),
        id: CandidateView.id(signal),
      });
    }
  }

  get isOutdated(): boolean {
    return this.#candidates.size > 0 && this.#order.isOutdated;
  }

  take(): boolean {
    let best: Candidate | undefined;
    let second: Candidate | undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const candidate of this.#candidates.values()) {
      earliest = Math.min(earliest, candidate.earliest);
      if (best === undefined || goesBefore(candidate, best)) {
        second = best;
        best = candidate;
      } else if (second === undefined || goesBefore(candidate, second)) {
        second = candidate;
      }
    }
    if (best === undefined) return false;
    this.#order.endChoice(best.place, earliest);
    const take = this.#host.message(RequestOp.Take);
    const bound = this.#isUnbounded ? NO_BOUND : (second ?? NO_BOUND);
    take.pri = bound.pri;
    take.id = bound.id;
    PlaceView.fill(take, bound.place);
    FloorView.fill(take, this.#order.floor);
    this.#host.post(best.shard, take);
    return true;
  }

  fillWait(message: Request): void {
    FloorView.fill(message, this.#order.floor);
  }

  onRefusal(signal: Signal): Next {
    this.note(signal);
    this.#isUnbounded = this.#order.order === ReserveOrder.WeightedTime;
    return Next.Choose;
  }
}

function goesBefore(a: Candidate, b: Candidate): boolean {
  if (a.place !== b.place) return a.place < b.place;
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}
