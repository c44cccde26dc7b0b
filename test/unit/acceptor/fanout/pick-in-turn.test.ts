// Tests of the choice among several shards by weight. The test plays the shards, whose answers can
// then cross in ways that a simulation rarely draws.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PickInTurn, SharedReserve } from "../../../../src/acceptor/fanout/shared-reserve.ts";
import { WatchOrder } from "../../../../src/acceptor/state/watch-list.ts";
import { RequestOp } from "../../../../src/message/request.ts";
import {
  FloorView,
  PlaceView,
  ResponseKind,
  TURNS_CANDIDATE_BYTES,
  TurnsView,
} from "../../../../src/message/response.ts";
import { type Request, ReserveOrder, Span } from "../../../../src/protocol/request.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";

/** A reserve over two shards. */
class Stage {
  readonly #host = new NotingHost(describePost);
  readonly #order = new WatchOrder();
  readonly #reserve: SharedReserve;

  constructor(order: ReserveOrder) {
    this.#order.begin(order);
    const picker = new PickInTurn(this.#host, this.#order);
    this.#reserve = new SharedReserve(this.#host, [0, 1], 0, picker);
    assert.deepEqual(this.did, ["Collect at 0 from 0", "Collect at 1 from 0"]);
  }

  get did(): string[] {
    return this.#host.did;
  }

  candidate(shard: number, place: number, pri: number, id: number, floor = 0): void {
    const view = new DataView(new ArrayBuffer(TURNS_CANDIDATE_BYTES));
    TurnsView.write(view, floor, place);
    TurnsView.writePlace(view, place);
    const payload = new Span();
    payload.set(new Uint8Array(view.buffer), 0, view.byteLength);
    this.#reserve.onSignal(signalOf(shard, ResponseKind.Candidate, { value: id, pri, payload }));
  }
}

function describePost(shard: number, message: Request): string {
  const floor = FloorView.floor(message);
  if (message.op === RequestOp.Collect) return `Collect at ${shard} from ${floor}`;
  assert.equal(message.op, RequestOp.Take);
  return `Take at ${shard} from ${floor} up to ${PlaceView.place(message)} ${message.pri}/${message.id}`;
}

describe("a choice by weight among shards", () => {
  for (const order of [ReserveOrder.Weighted, ReserveOrder.WeightedTime]) {
    it(`takes nothing behind the second-best candidate, order ${order}`, () => {
      const stage = new Stage(order);
      stage.candidate(0, 20, 7, 8);
      stage.candidate(1, 10, 9, 6);
      assert.deepEqual(stage.did, ["Take at 1 from 10 up to 20 7/8"]);
    });

    it(`asks all shards again if one of them knows a later floor, order ${order}`, () => {
      const stage = new Stage(order);
      stage.candidate(0, 2520, 0, 1);
      stage.candidate(1, 9000, 0, 2, 9000);
      assert.deepEqual(stage.did, ["Collect at 0 from 9000", "Collect at 1 from 9000"]);
      stage.candidate(0, 11_520, 0, 1, 9000);
      stage.candidate(1, 9000, 0, 2, 9000);
      assert.deepEqual(stage.did, ["Take at 1 from 9000 up to 11520 0/1"]);
    });
  }

  it("goes on to the next-best candidate when another client got the job", () => {
    const stage = new Stage(ReserveOrder.Weighted);
    stage.candidate(0, 20, 0, 8);
    stage.candidate(1, 10, 0, 6);
    assert.deepEqual(stage.did, ["Take at 1 from 10 up to 20 0/8"]);
    stage.candidate(1, 30, 0, 9);
    assert.deepEqual(stage.did, ["Take at 0 from 20 up to 30 0/9"]);
  });

  it("ends although the turns of all shards move on while they are asked", () => {
    const stage = new Stage(ReserveOrder.WeightedTime);
    stage.candidate(0, 100, 0, 1);
    stage.candidate(1, 101, 0, 2);
    assert.deepEqual(stage.did, ["Take at 0 from 100 up to 101 0/2"]);
    // Shard 1 would answer with 151, and so on.
    stage.candidate(0, 150, 0, 1);
    assert.deepEqual(stage.did, ["Take at 1 from 101 up to Infinity 4294967295/Infinity"]);
  });
});
