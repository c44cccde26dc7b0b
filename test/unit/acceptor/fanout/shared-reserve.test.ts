// Tests of the state machine of a reserve over several shards, played by the test.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SerialQueue } from "../../../../src/acceptor/fanout/conversation.ts";
import { PickInTurn, PickOne, SharedReserve } from "../../../../src/acceptor/fanout/shared-reserve.ts";
import { WatchOrder } from "../../../../src/acceptor/state/watch-list.ts";
import { RequestFlag, RequestOp } from "../../../../src/message/request.ts";
import {
  FloorView,
  PlaceView,
  ResponseKind,
  TURNS_CANDIDATE_BYTES,
  TurnsView,
} from "../../../../src/message/response.ts";
import { type Request, ReserveOrder, Span } from "../../../../src/protocol/request.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";

const NEVER = Number.POSITIVE_INFINITY;
const OP_NAMES = new Map<number, string>(Object.entries(RequestOp).map(([name, op]) => [op, name]));

/** A reserve and its connection; what it does with that is noted. */
class Stage {
  readonly #host: NotingHost;
  readonly reserve: SharedReserve;

  constructor(timeoutMs: number, shards = [0, 1, 2], barrierHelps = false) {
    this.#host = new NotingHost(describePost, barrierHelps);
    this.reserve = new SharedReserve(this.#host, shards, timeoutMs, new PickOne(this.#host));
  }

  get did(): string[] {
    return this.#host.did;
  }

  get waits(): number {
    return this.#host.waits;
  }

  get word(): number {
    return this.#host.word;
  }

  set word(number: number) {
    this.#host.word = number;
  }

  set nowMs(nowMs: number) {
    this.#host.now = nowMs;
  }

  candidate(shard: number, pri: number, id: number, soonestMs = NEVER): void {
    this.reserve.onSignal(signalOf(shard, ResponseKind.Candidate, { value: id, pri, soonestMs }));
  }

  absent(shard: number, soonestMs = NEVER): void {
    this.reserve.onSignal(signalOf(shard, ResponseKind.Absent, { soonestMs }));
  }

  ack(shard: number, soonestMs = NEVER): void {
    this.reserve.onSignal(signalOf(shard, ResponseKind.Ack, { soonestMs }));
  }

  due(shard: number, number: number = this.waits): void {
    this.reserve.onSignal(signalOf(shard, ResponseKind.WaitDue, { value: number }));
  }

  /** All shards say that they have no job, and the reserve begins to wait. */
  waitAll(): void {
    for (const shard of [0, 1, 2]) this.absent(shard);
    assert.equal(this.did.filter((each) => each.startsWith("WaitShared")).length, 3);
  }
}

function describePost(shard: number, message: Request): string {
  const { op, flags } = message;
  const name = OP_NAMES.get(op);
  if (op === RequestOp.Take) return `${name} from ${shard} up to ${message.pri}/${message.id}`;
  if (op === RequestOp.WaitShared) {
    const lead = (flags & RequestFlag.Lead) !== 0 ? ", leading" : "";
    return `${name} ${message.waitNumber} at ${shard} until ${message.atMs}${lead}`;
  }
  return `${name} at ${shard}`;
}

const STOPS = ["StopWait at 0", "StopWait at 1", "StopWait at 2"];
const COLLECTS = ["Collect at 0", "Collect at 1", "Collect at 2"];
const RECHECKS = ["Recheck at 0", "Recheck at 1", "Recheck at 2"];

describe("SharedReserve takes", () => {
  it("the best candidate, as long as it is not worse than the second best", () => {
    const stage = new Stage(NEVER);
    assert.deepEqual(stage.did, COLLECTS);
    stage.candidate(0, 5, 10);
    stage.candidate(1, 5, 9);
    assert.deepEqual(stage.did, [], "not before all shards have answered");
    stage.candidate(2, 6, 1);
    assert.deepEqual(stage.did, ["Take from 1 up to 5/10"]);
    stage.reserve.onReply(1);
    assert.deepEqual(stage.did, ["done"]);
  });

  it("the only candidate without a bound", () => {
    const stage = new Stage(0);
    stage.absent(0);
    stage.candidate(1, 4294967295, 7);
    stage.absent(2);
    assert.deepEqual(stage.did.at(-1), "Take from 1 up to 4294967295/Infinity");
  });

  it("the next best when another client was faster", () => {
    const stage = new Stage(NEVER);
    stage.candidate(0, 1, 1);
    stage.candidate(1, 2, 2);
    stage.absent(2);
    stage.candidate(0, 3, 3);
    assert.equal(stage.did.at(-1), "Take from 1 up to 3/3");
    stage.absent(1);
    assert.equal(stage.did.at(-1), "Take from 0 up to 4294967295/Infinity");
    stage.absent(0);
    assert.equal(stage.did.filter((each) => each.startsWith("WaitShared")).length, 3);
  });
});

describe("SharedReserve without a job", () => {
  it("times out at once when it may not wait", () => {
    const stage = new Stage(0);
    for (const shard of [0, 1, 2]) stage.absent(shard);
    assert.equal(stage.did.at(-1), "TIMED_OUT");
  });

  it("runs a read barrier over other acceptors before it times out at once", () => {
    const stage = new Stage(0, [0, 1], true);
    stage.absent(0);
    stage.absent(1);
    assert.deepEqual(stage.did.slice(-2), ["AwaitBarrier at 0", "AwaitBarrier at 1"]);
    stage.ack(1);
    assert.deepEqual(stage.did, []);
    stage.ack(0);
    assert.deepEqual(stage.did, ["Collect at 0", "Collect at 1"]);
    stage.candidate(0, 5, 9);
    stage.absent(1);
    assert.equal(stage.did.at(-1), "Take from 0 up to 4294967295/Infinity");
  });

  it("times out when the barrier brought nothing", () => {
    const stage = new Stage(0, [0, 1], true);
    for (let round = 0; round < 2; round++) {
      stage.absent(0);
      stage.absent(1);
      if (round > 0) break;
      stage.ack(0);
      stage.ack(1);
    }
    assert.equal(stage.did.at(-1), "TIMED_OUT");
  });

  it("warns at once of a reservation in its margin, on any shard", () => {
    const stage = new Stage(0);
    stage.nowMs = 9000;
    stage.absent(0);
    stage.absent(1, 10_000);
    stage.absent(2);
    assert.equal(stage.did.at(-1), "DEADLINE_SOON");
  });

  it("waits on all shards, one of which leads and has the timeout", () => {
    const stage = new Stage(2000);
    assert.equal(stage.did.length, 3);
    for (const shard of [0, 1, 2]) stage.absent(shard);
    assert.deepEqual(stage.did, [
      "WaitShared 1 at 0 until 2000, leading",
      "WaitShared 1 at 1 until Infinity",
      "WaitShared 1 at 2 until Infinity",
    ]);
    assert.equal(stage.word, 1);
  });
});

describe("SharedReserve that waits", () => {
  it("ends with the job of the shard that claimed it, and tells the others", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.word = 0;
    stage.reserve.onReply(1);
    assert.deepEqual(stage.did, ["StopWait at 0", "StopWait at 2", "done"]);
  });

  it("rechecks all shards before it times out", () => {
    const stage = new Stage(2000);
    stage.waitAll();
    stage.nowMs = 2000;
    stage.due(0);
    assert.deepEqual(stage.did, RECHECKS);
    stage.ack(0);
    stage.ack(1);
    assert.deepEqual(stage.did, []);
    stage.ack(2);
    assert.deepEqual(stage.did, [...STOPS, "TIMED_OUT"]);
    assert.equal(stage.word, 0);
  });

  it("warns when a margin begins, also at the moment of the timeout", () => {
    const stage = new Stage(2000);
    stage.waitAll();
    stage.nowMs = 2000;
    stage.due(1);
    stage.ack(0);
    stage.ack(1, 3000);
    stage.ack(2);
    assert.deepEqual(stage.did, [...RECHECKS, ...STOPS, "DEADLINE_SOON"]);
  });

  it("takes a job that becomes ready at the moment of the timeout, after the recheck", () => {
    const stage = new Stage(2000);
    stage.waitAll();
    stage.nowMs = 2000;
    stage.due(0);
    // Shard 2 claims the wait while it rechecks, and its reply is on the way.
    stage.word = 0;
    stage.ack(0);
    stage.ack(1);
    stage.ack(2);
    assert.deepEqual(stage.did, RECHECKS);
    stage.reserve.onReply(2);
    assert.deepEqual(stage.did, ["StopWait at 0", "StopWait at 1", "done"]);
  });

  it("asks no shard again once a recheck has shown that another has claimed it", () => {
    const stage = new Stage(2000);
    stage.waitAll();
    stage.nowMs = 2000;
    stage.due(0);
    stage.word = 0;
    for (const shard of [0, 1, 2]) stage.ack(shard);
    assert.deepEqual(stage.did, RECHECKS);
    stage.due(1);
    stage.reserve.onHalfClose();
    stage.reserve.onInput();
    assert.deepEqual(stage.did, []);
    stage.reserve.onReply(2);
    assert.deepEqual(stage.did, ["StopWait at 0", "StopWait at 1", "done"]);
  });

  it("keeps the answers to its recheck from the next command", () => {
    const stage = new Stage(2000);
    stage.waitAll();
    stage.nowMs = 2000;
    stage.due(0);
    stage.word = 0;
    stage.reserve.onReply(2);
    assert.ok(!stage.did.includes("done"));
    stage.ack(0);
    stage.ack(2);
    assert.deepEqual(stage.did, []);
    stage.ack(1);
    assert.deepEqual(stage.did, ["done"]);
  });

  for (const before of [0, 1, 2])
    it(`keeps all of them from it if ${before} came before the job`, () => {
      const stage = new Stage(2000);
      stage.waitAll();
      stage.nowMs = 2000;
      stage.due(0);
      for (let shard = 0; shard < before; shard++) stage.ack(shard);
      assert.deepEqual(stage.did, RECHECKS);
      stage.word = 0;
      stage.reserve.onReply(2);
      assert.deepEqual(stage.did, ["StopWait at 0", "StopWait at 1"], "the others are told at once");
      for (let shard = before; shard < 2; shard++) stage.ack(shard);
      assert.deepEqual(stage.did, [], "an answer is still under way");
      stage.ack(2);
      assert.deepEqual(stage.did, ["done"]);
    });

  it("continues when the reservation in its margin is gone", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.due(1);
    for (const shard of [0, 1, 2]) stage.ack(shard);
    assert.deepEqual(stage.did, [...RECHECKS, ...STOPS, ...COLLECTS]);
    stage.waitAll();
    assert.equal(stage.word, 2);
  });

  it("ignores messages about an earlier wait, and repeated ones", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.due(1, 17);
    assert.deepEqual(stage.did, []);
    stage.due(1);
    stage.due(2);
    assert.deepEqual(stage.did, RECHECKS);
  });
});

describe("SharedReserve of a client that half-closes", () => {
  it("times out at once while it waits", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.reserve.onHalfClose();
    assert.deepEqual(stage.did, [...STOPS, "TIMED_OUT"]);
  });

  it("still gets a job that a shard claimed for it", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.word = 0;
    stage.reserve.onHalfClose();
    assert.deepEqual(stage.did, []);
    stage.reserve.onReply(0);
    assert.deepEqual(stage.did, ["StopWait at 1", "StopWait at 2", "done"]);
  });

  it("times out after the candidates are known, but takes a job if there is one", () => {
    for (const hasJob of [false, true]) {
      const stage = new Stage(NEVER);
      stage.absent(0);
      stage.reserve.onHalfClose();
      stage.absent(1);
      if (hasJob) stage.candidate(2, 0, 1);
      else stage.absent(2);
      assert.match(stage.did.at(-1)!, hasJob ? /^Take from 2/ : /^TIMED_OUT$/);
    }
  });

  it("times out at the end of a recheck that found nothing due", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.due(0);
    stage.reserve.onHalfClose();
    for (const shard of [0, 1, 2]) stage.ack(shard);
    assert.deepEqual(stage.did, [...RECHECKS, ...STOPS, "TIMED_OUT"]);
  });
});

describe("SharedReserve that the client's next bytes abort", () => {
  it("ends at once while it waits", () => {
    const stage = new Stage(NEVER);
    stage.waitAll();
    stage.reserve.onInput();
    assert.deepEqual(stage.did, [...STOPS, "ABORTED"]);
  });

  it("ends after the candidates are known, but takes a job if there is one", () => {
    for (const hasJob of [false, true]) {
      const stage = new Stage(NEVER);
      stage.absent(0);
      stage.reserve.onInput();
      stage.absent(1);
      if (hasJob) stage.candidate(2, 0, 1);
      else stage.absent(2);
      assert.match(stage.did.at(-1)!, hasJob ? /^Take from 2/ : /^ABORTED$/);
    }
  });

  for (const timeoutMs of [2000, NEVER])
    it(`ends with a recheck that found nothing due, timeout ${timeoutMs}`, () => {
      const stage = new Stage(timeoutMs);
      stage.waitAll();
      stage.nowMs = 2000;
      stage.due(0);
      stage.reserve.onInput();
      for (const shard of [0, 1, 2]) stage.ack(shard);
      assert.deepEqual(stage.did, [...RECHECKS, ...STOPS, "ABORTED"]);
    });
});

describe("reserves that choose one after another", () => {
  it("go on when the connection whose turn it is closes, or one that waits for its turn", () => {
    const queue = new SerialQueue();
    const [first, second, third] = [1, 2, 3].map(() => {
      const host = new NotingHost(describePost);
      const picker = Object.assign(new PickOne(host), { queue });
      return { host, reserve: new SharedReserve(host, [0, 1], 1000, picker) };
    });
    /** How many shards each has asked since the last look. */
    const asked = (): number[] => [first, second, third].map((each) => each!.host.did.length);
    assert.deepEqual(asked(), [2, 0, 0]);
    second!.reserve.onClosed();
    assert.deepEqual(asked(), [0, 0, 0]);
    first!.reserve.onClosed();
    assert.deepEqual(asked(), [0, 0, 2]);
  });
});

// Tests of the choice among several shards by weight. The test plays the shards, whose answers can
// then cross in ways that a simulation rarely draws.

describe("pick in turn", () => {
  /** A reserve over two shards. */
  class Stage {
    readonly #host = new NotingHost(describeChoice);
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

  function describeChoice(shard: number, message: Request): string {
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
});
