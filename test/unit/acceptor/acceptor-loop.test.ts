import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AcceptorCore } from "../../../src/acceptor/acceptor-core.ts";
import { AcceptorLoop } from "../../../src/acceptor/acceptor-loop.ts";
import { Point, type Surroundings } from "../../../src/loop/point.ts";
import type { Resident } from "../../../src/loop/role.ts";
import { AcceptorPatience } from "../../../src/loop/waiting-policy.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { createTopology } from "../../../src/message/topology.ts";
import { TurnCounters } from "../../../src/message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { RingReader } from "../../../src/ring/ring-reader.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** One acceptor's loop on a clock of the test's, and the ring to its only shard. */
function stage() {
  const topology = createTopology({
    ...{ shards: 1, acceptors: 1, placement: "together" },
    ...{ jobBytesMax: 65535, ringBytes: 4096 },
  });
  const clock = { nowMs: 1000 };
  const nowMs = (): number => clock.nowMs;
  const core = new AcceptorCore({ topology, acceptor: 0, nowMs, statsText: () => "" });
  const words = new Int32Array(topology.doorbells);
  const surroundings: Surroundings = { nowMs, isHeldUp: () => false };
  const loop = new AcceptorLoop({
    core,
    doorbell: new DoorbellOwner(words, 1),
    shards: [new Doorbell(words, 1)],
    counters: new TurnCounters(core.counters, core.responses),
    patience: new AcceptorPatience({ spinMs: 0, lingerMs: 0, isCrowded: false }, nowMs, true),
    surroundings,
  });
  return { clock, core, loop, ring: new RingReader(topology.requests[0]![0]!) };
}

/** A shard that has `work` turns to do, and something due. */
class FakeResident implements Resident {
  readonly isInTurn = false;
  begunAtMs = 0;
  readonly taken = 0;
  readonly hasMore = false;
  nextDueAtMs = NEVER;
  work = 0;
  turns = 0;
  asked = 0;

  get hasWork(): boolean {
    return this.work > 0;
  }

  /** What each turn does besides. */
  onTurn: () => void = () => {};

  next(): Point {
    this.turns++;
    this.onTurn();
    if (this.work > 0) this.work--;
    else this.nextDueAtMs = NEVER;
    return Point.Turned;
  }

  wantRoom(): void {
    this.asked++;
  }
}

describe("AcceptorLoop", () => {
  // Bytes that were taken let a connection tell its shard so: found by `npm test -- kill`, as a server that stood still.
  it("does not sleep on what its sockets have set going", () => {
    const { clock, core, loop, ring } = stage();
    const resident = new FakeResident();
    resident.begunAtMs = clock.nowMs;
    // More than a pass: sockets have their turn with it.
    resident.work = 33;
    loop.residents.push(resident);
    let turns = 0;
    loop.sockets = {
      turn: () => {
        if (++turns === 1) core.post(0, core.message(RequestOp.Credit));
      },
    };
    while (loop.next() !== Point.Asleep) assert.ok(turns < 100);
    assert.equal(turns, 1, "in each pass but the last, whose sleep is their turn");
    assert.ok(ring.hasMessage, "the shard can see it");
  });

  it("turns a resident as long as it has work, but lets sockets and answers have their turn", () => {
    const { clock, loop } = stage();
    const resident = new FakeResident();
    resident.work = 100;
    resident.begunAtMs = clock.nowMs;
    loop.residents.push(resident);
    assert.equal(loop.next(), Point.Turned);
    assert.equal(resident.turns, 32);
    while (loop.next() !== Point.Asleep) assert.ok(resident.turns <= 100);
    assert.equal(resident.turns, 100);
    assert.equal(resident.asked, 1, "it is asked for room before the sleep");
  });

  it("turns a resident no longer than some milliseconds in one pass", () => {
    const { clock, loop } = stage();
    const resident = new FakeResident();
    resident.work = 10;
    resident.onTurn = () => {
      resident.begunAtMs = clock.nowMs;
      clock.nowMs += 1.5;
    };
    loop.residents.push(resident);
    assert.equal(loop.next(), Point.Turned);
    assert.equal(resident.turns, 2);
  });

  it("sleeps until a resident has something due, and not when that is now", () => {
    const { clock, loop } = stage();
    const resident = new FakeResident();
    resident.nextDueAtMs = 1500;
    loop.residents.push(resident);
    assert.equal(loop.next(), Point.Asleep);
    assert.equal(loop.wakeAtMs, 1500);
    assert.equal(resident.turns, 0);
    clock.nowMs = 1500;
    loop.wake();
    assert.equal(loop.next(), Point.Asleep);
    assert.equal(resident.turns, 1);
    assert.equal(loop.wakeAtMs, NEVER);
  });
});
