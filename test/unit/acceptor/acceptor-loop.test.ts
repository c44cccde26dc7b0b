import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AcceptorLoop } from "../../../src/acceptor/acceptor-loop.ts";
import { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import { type ColocatedRole, Point, type ResidentShard, type Surroundings } from "../../../src/loop/role.ts";
import { AcceptorPollPolicy } from "../../../src/loop/waiting-policy.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { createTopology } from "../../../src/message/topology.ts";
import { TurnCounters } from "../../../src/message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { EMPTY, RingReader } from "../../../src/ring/ring.ts";

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
    counters: new TurnCounters(core.counters, core.links.responses),
    pollPolicy: new AcceptorPollPolicy({ spinMs: 0, lingerMs: 0, isCrowded: false }, nowMs, true),
    surroundings,
  });
  return { clock, core, loop, ring: new RingReader(topology.requests[0]![0]!) };
}

/** A shard that has `work` turns to do, and something due. */
class FakeResident implements ResidentShard {
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

  /** Whether its work is commands. */
  commands = true;

  get hasCommands(): boolean {
    return this.commands && this.hasWork;
  }

  /** Extra work of each turn. */
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

/** A log that gives way in the middle of each turn. */
class FakeLog implements ColocatedRole {
  isInTurn = false;
  readonly begunAtMs = 0;
  readonly taken = 0;
  readonly hasMore = false;
  nextDueAtMs = NEVER;
  hasWork = true;
  halves = 0;

  next(): Point {
    this.halves++;
    this.isInTurn = !this.isInTurn;
    this.hasWork = false;
    return this.isInTurn ? Point.HeldUp : Point.Turned;
  }

  wantRoom(): void {}
}

describe("AcceptorLoop with a log in its thread", () => {
  /**
   * A crowd whose commands come in `passes` passes, one after the other; the passes in which the
   * log was at work.
   */
  function passesOf(messages: number, passes: number, tookMs: number): number[] {
    const { clock, loop } = stage();
    const resident = Object.assign(new FakeResident(), { taken: messages });
    resident.work = 1;
    const log = new FakeLog();
    loop.residents.push(resident);
    loop.log = log;
    const at: number[] = [];
    let pass = 1;
    let before = 0;
    loop.sockets = {
      turn: () => {
        if (log.halves > before) at.push(pass);
        before = log.halves;
        if (++pass <= passes) resident.work = 1;
        clock.nowMs += tookMs;
      },
    };
    for (let turns = 0; loop.next() !== Point.Asleep; turns++) assert.ok(turns < 100);
    assert.equal(log.halves, 2, "no sleep in the middle of a turn");
    return at;
  }

  it("writes at once for few commands, and sends the replies before it continues", () => {
    assert.deepEqual(passesOf(2, 1, 0), [1]);
  });

  it("makes the log wait for some passes while many commands arrive", () => {
    assert.deepEqual(passesOf(3, 3, 0), [4]);
    assert.deepEqual(passesOf(3, 30, 0), [5]);
  });

  it("makes the log wait for a fraction of a millisecond at most", () => {
    assert.deepEqual(passesOf(3, 30, 0.2), [3]);
  });

  it("sleeps until the log's next deadline", () => {
    const { clock, loop } = stage();
    const log = Object.assign(new FakeLog(), { hasWork: false, nextDueAtMs: 1500 });
    loop.log = log;
    assert.equal(loop.next(), Point.Asleep);
    assert.equal(loop.wakeAtMs, 1500);
    assert.equal(log.halves, 0);
    clock.nowMs = 1500;
    log.next = () => {
      log.halves++;
      log.nextDueAtMs = NEVER;
      return Point.Ended;
    };
    loop.wake();
    assert.equal(loop.next(), Point.Asleep);
    assert.equal(log.halves, 1);
    assert.equal(loop.log, undefined, "it has ended");
  });
});

describe("AcceptorLoop", () => {
  // Bytes that were taken let a connection tell its shard so: found by `npm test -- kill`, as a
  // server that stood still.
  it("doesn't sleep on work that its sockets started", () => {
    const { clock, core, loop, ring } = stage();
    const resident = new FakeResident();
    resident.begunAtMs = clock.nowMs;
    // More than a pass: sockets have their turn with it.
    resident.work = 33;
    loop.residents.push(resident);
    let turns = 0;
    loop.sockets = {
      turn: () => {
        if (++turns === 1) core.links.post(0, core.links.message(RequestOp.Credit));
      },
    };
    while (loop.next() !== Point.Asleep) assert.ok(turns < 100);
    assert.equal(turns, 1, "in each pass but the last, whose sleep is their turn");
    assert.ok(ring.hasMessage, "the shard can see it");
  });

  it("doesn't sleep if a shard makes room just before it is asked to ring", () => {
    const { core, loop, ring } = stage();
    do core.links.post(0, core.links.message(RequestOp.Credit));
    while (!core.links.isBlocked);
    const wantRoom = core.wantRoom.bind(core);
    core.wantRoom = () => {
      core.wantRoom = wantRoom;
      while (ring.next() !== EMPTY) {
        // The shard takes all messages.
      }
      ring.release();
      wantRoom();
    };
    assert.equal(loop.next(), Point.Turned);
    assert.equal(loop.next(), Point.Asleep);
    assert.ok(ring.hasMessage, "the message that had no room is there");
  });

  // A million delayed jobs that were due at once kept clients waiting for a second.
  it("serves its sockets while each pass has something due", () => {
    const { loop } = stage();
    const resident = new FakeResident();
    const next = resident.next.bind(resident);
    resident.next = () => {
      const point = next();
      if (resident.turns < 5) resident.nextDueAtMs = 0;
      return point;
    };
    resident.nextDueAtMs = 0;
    loop.residents.push(resident);
    let turns = 0;
    loop.sockets = { turn: () => void turns++ };
    while (loop.next() !== Point.Asleep) assert.ok(resident.turns < 100);
    assert.equal(resident.turns, 5);
    assert.equal(turns, 4, "in each pass but the last, whose sleep is their turn");
  });

  it("turns a resident while it has work, and serves sockets and answers in between", () => {
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

  it("turns a resident without commands once a pass, so answers leave between slices", () => {
    const { loop } = stage();
    const resident = Object.assign(new FakeResident(), { work: 10, commands: false });
    loop.residents.push(resident);
    for (let pass = 1; pass <= 10; pass++) {
      loop.next();
      assert.equal(resident.turns, pass);
    }
  });

  it("turns a resident for at most some milliseconds a pass", () => {
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

  it("sleeps until a resident's deadline, and not if that is now", () => {
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
