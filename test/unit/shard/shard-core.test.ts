// Tests of a shard whose acceptor takes no replies, or sends more than a turn may handle.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import { Schedule } from "../../../src/engine/schedules.ts";
import { Waiting } from "../../../src/engine/state/session.ts";
import { RequestOp, writeRequest } from "../../../src/message/request.ts";
import { createTopology } from "../../../src/message/topology.ts";
import { Op } from "../../../src/protocol/commands.ts";
import { Request } from "../../../src/protocol/request.ts";
import type { SchedulePage } from "../../../src/protocol/schedule-list.ts";
import { RingWriter } from "../../../src/ring/ring.ts";
import { ScheduleListing } from "../../../src/shard/schedules/schedule-listing.ts";
import type { ShardSession } from "../../../src/shard/sessions/shard-session.ts";
import { LeaseWorkers, ShardCore, WORK_PER_MS } from "../../../src/shard/shard-core.ts";
import { scheduleFacts } from "../../support/in-process/add-schedule.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

const BODY_BYTES = 60_000;
const CLIENTS = 60;
/** More than end in one turn. */
const WATCHES = 5000;
/** Size of the ring to the acceptor. */
const RING_BYTES = 1 << 20;

const nobody = (): void => {};

describe("ShardCore", () => {
  it("takes no command while its replies find no room, sleeps, and loses nothing", () => {
    const server = new HandDrivenServer(1);
    const { acceptor } = server;
    const shard = server.shards[0]!;
    const keeper = server.connect(true);
    keeper.say(`put 0 0 60 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`);
    const clients = Array.from({ length: CLIENTS }, () => server.connect(true));
    server.settle();
    for (const client of clients) client.say("peek 1\r\n");
    acceptor.publish(nobody);
    const ring = shard.ports[0]!.ring;
    let taken = shard.step(1000);
    // Whole replies: the room that is left is that of the largest one.
    assert.ok(taken < CLIENTS && ring.used > RING_BYTES / 2 && ring.used <= RING_BYTES, `${ring.used}`);
    assert.equal(shard.hasWork, false, "it may sleep until there is room");
    assert.equal(shard.step(1001), 0);
    while (taken < CLIENTS) {
      ring.publish();
      acceptor.takeAnswers(nobody);
      acceptor.flush();
      assert.equal(shard.hasWork, true);
      taken += shard.step(1002);
    }
    server.settle();
    const reply = `FOUND 1 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`;
    for (const client of clients) assert.ok(client.take() === reply);
  });

  it("keeps jobs for waiters whose replies find no room, and sends them in order", () => {
    const server = new HandDrivenServer(1);
    const { acceptor } = server;
    const shard = server.shards[0]!;
    const producer = server.connect(true);
    producer.say(`put 0 100 60 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`.repeat(CLIENTS));
    server.settle();
    const waiters = Array.from({ length: CLIENTS }, () => server.connect(true));
    for (const waiter of waiters) waiter.say("reserve\r\n");
    server.settle();
    producer.take();
    // One command gives every waiter a job: several times what the ring holds.
    producer.say(`kick ${CLIENTS}\r\n`);
    acceptor.publish(nobody);
    shard.step(1000);
    const port = shard.ports[0]!;
    assert.equal(port.blocked, true);
    assert.equal(shard.hasWork, false, "it may sleep until there is room");
    producer.say("list-tubes\r\n");
    acceptor.publish(nobody);
    assert.equal(shard.step(1000), 0, "no other command is taken before them");
    server.settle();
    assert.equal(port.blocked, false);
    for (const [index, waiter] of waiters.entries()) {
      const got = waiter.take();
      const lineEnd = got.indexOf("\r\n");
      assert.equal(got.slice(0, lineEnd), `RESERVED ${index + 1} ${BODY_BYTES}`);
      assert.equal(got.length, lineEnd + 2 + BODY_BYTES + 2);
    }
    assert.match(producer.take(), new RegExp(`^KICKED ${CLIENTS}\r\nOK `));
  });

  it("asks for room to continue a list of tubes, also while other replies find some", () => {
    const server = new HandDrivenServer(1, undefined, { ringBytes: 1 << 16 });
    const { acceptor } = server;
    const shard = server.shards[0]!;
    const client = server.connect(true);
    for (let tube = 0; tube < 1000; tube++) client.say(`watch ${tube}${"t".repeat(150)}\r\n`);
    server.settle();
    client.take();
    client.say("list-tubes\r\n");
    acceptor.publish(nobody);
    do shard.step(1000);
    while (shard.hasWork);
    const [port] = shard.ports;
    assert.equal(port!.open, true, "there is room for other replies");
    shard.wantRoom();
    port!.ring.publish();
    let waits = 0;
    acceptor.takeAnswers(() => void waits++);
    assert.equal(waits, 1, "the shard is rung when there is more");
    server.settle();
    assert.match(client.take(), /^OK \d+\r\n/);
  });

  it("gives no job to a client that has left, however long the end of its watches takes", () => {
    const server = new HandDrivenServer(1);
    const watches = Array.from({ length: WATCHES }, (_, number) => `watch tube-${number}\r\n`).join("");
    const [gone, waiter, producer] = [server.connect(true), server.connect(true), server.connect(true)];
    gone.say(`${watches}reserve\r\n`);
    server.settle();
    waiter.say("watch tube-7\r\nreserve\r\n");
    server.settle();
    waiter.take();
    server.disconnect(gone);
    producer.say("put-in-tube tube-7 0 0 60 1\r\nx\r\n");
    server.settle();
    assert.equal(waiter.take(), "RESERVED 1 1\r\nx\r\n");
    producer.take();
    producer.say("stats-job 1\r\nstats-tube tube-7\r\n");
    server.settle();
    const told = producer.take();
    assert.match(told, /\nreserves: 1\n/, "it was reserved once");
    assert.match(told, /\ncurrent-waiting: 0\n/);
    assert.match(told, /\ncurrent-watching: 1\n/);
  });
});

// Tests of turns of a shard with only costly commands: no client's work keeps others from theirs.

type Fields = Partial<Pick<Request, "id" | "slot" | "timeoutMs" | "waitNumber" | "atMs" | "ttrSeconds">>;

/** More than a turn may take. */
const LONG_WORK = 20_000;
/** More than a connection may cost without being set aside. */
const COSTLY_WORK = 1000;

class Turns {
  readonly core: ShardCore;
  readonly #rings: readonly RingWriter[];
  nowMs = 1000;

  constructor(acceptors: number, commandWork: number, clock?: () => number) {
    const topology = createTopology({ shards: 1, acceptors, jobBytesMax: 65535, ringBytes: 1 << 16 });
    const options = { topology, shard: 0, quoteNames: false, commandWork };
    this.core = new ShardCore(clock === undefined ? options : { ...options, clock });
    this.#rings = topology.requests.map((rings) => new RingWriter(rings[0]!));
  }

  say(acceptor: number, op: number, fields: Fields): void {
    const ring = this.#rings[acceptor]!;
    assert.ok(writeRequest(ring, Object.assign(new Request().begin(op), fields)));
    ring.publish();
  }

  inspectSchedule(slot: number, name: string): void {
    const request = Object.assign(new Request().begin(Op.InspectSchedule), { slot });
    request.body.set(Buffer.from(name), 0, name.length);
    assert.ok(writeRequest(this.#rings[0]!, request));
    this.#rings[0]!.publish();
  }

  /** Returns what commands of connections that are set aside have cost, from here on. */
  noteWork(): readonly number[] {
    const { aside } = this.core;
    const work: number[] = [];
    const setAside = aside.setAside.bind(aside);
    aside.setAside = (session, cost) => {
      work.push(cost);
      setAside(session, cost);
    };
    return work;
  }

  turn(): void {
    this.core.step(this.nowMs);
    for (const ring of this.core.requests) ring.release();
  }

  /** Messages of the acceptors that have not been taken. */
  get isWaiting(): boolean[] {
    return this.core.requests.map((ring) => ring.hasMessage);
  }
}

describe("a shard whose turns are long", () => {
  for (const acceptors of [2, 3, 4, 5]) {
    it(`serves each of ${acceptors} acceptors while one sends endless costly commands`, () => {
      for (let busy = 0; busy < acceptors; busy++) {
        const turns = new Turns(acceptors, LONG_WORK);
        let slot = 0;
        for (let acceptor = 0; acceptor < acceptors; acceptor++)
          turns.say(acceptor, RequestOp.Attach, { slot });
        for (let turn = 0; turn < 2 * acceptors; turn++) {
          turns.say(busy, RequestOp.Attach, { slot: ++slot });
          turns.turn();
        }
        const others = turns.isWaiting.filter((_, acceptor) => acceptor !== busy);
        assert.ok(!others.includes(true), `acceptor ${busy} is busy: ${turns.isWaiting}`);
      }
    });

    it(`serves each of ${acceptors} acceptors while every turn is late`, () => {
      let nowMs = 1000;
      const turns = new Turns(acceptors, 0, () => (nowMs += 2));
      for (let acceptor = 0; acceptor < acceptors; acceptor++)
        turns.say(acceptor, RequestOp.Attach, { slot: 0 });
      for (let turn = 0; turn < 2 * acceptors; turn++) {
        for (let slot = 1; slot <= 16; slot++) turns.say(0, RequestOp.Attach, { slot: slot + 16 * turn });
        turns.nowMs = nowMs;
        turns.turn();
      }
      assert.ok(!turns.isWaiting.slice(1).includes(true), `${turns.isWaiting}`);
    });
  }

  it("serves its rings while many waits end at once, each with a costly command behind it", () => {
    const crowd = 50;
    const turns = new Turns(1, LONG_WORK);
    for (let slot = 0; slot <= crowd; slot++) {
      turns.say(0, RequestOp.Attach, { slot });
      for (let rest = 0; rest < 4; rest++) turns.turn();
    }
    for (let slot = 0; slot < crowd; slot++) turns.say(0, Op.Reserve, { slot, timeoutMs: 5000 });
    for (let slot = 0; slot < crowd; slot++) turns.say(0, Op.Stats, { slot });
    for (let rest = 0; rest < 4 * crowd; rest++) turns.turn();
    assert.equal(turns.core.engine.waitingAlone, crowd);
    turns.nowMs += 5001;
    turns.turn();
    assert.equal(turns.core.engine.waitingAlone, 0);
    turns.say(0, Op.Put, { slot: crowd, id: 1, ttrSeconds: 10 });
    for (let rest = 0; rest < 3; rest++) turns.turn();
    assert.deepEqual(turns.isWaiting, [false]);
    for (let rest = 0; rest < 2 * crowd; rest++) turns.turn();
    assert.equal(turns.core.aside.size, 0);
    assert.equal(turns.core.hasWork, false);
    assert.equal(turns.core.engine.totalJobs, 1);
  });

  it("executes a command behind a deep pipeline after one costly command of it", () => {
    const turns = new Turns(1, LONG_WORK);
    for (const slot of [0, 1]) turns.say(0, RequestOp.Attach, { slot });
    for (let rest = 0; rest < 8; rest++) turns.turn();
    const work = turns.noteWork();
    for (let line = 0; line < 256; line++) turns.say(0, RequestOp.Recheck, { slot: 0 });
    turns.say(0, Op.Put, { slot: 1, id: 1, ttrSeconds: 10 });
    for (let turn = 0; turn < 20 && turns.core.engine.totalJobs === 0; turn++) turns.turn();
    assert.equal(turns.core.engine.totalJobs, 1);
    // The first one of the pipeline, and the put. Its reply leaves before the next one.
    assert.equal(work.length, 2, `${work}`);
    for (let rest = 0; rest < 300; rest++) turns.turn();
    assert.equal(turns.core.hasWork, false);
  });

  it("executes costly commands of a pipeline although other commands always arrive", () => {
    const turns = new Turns(1, LONG_WORK, () => turns.nowMs);
    turns.say(0, RequestOp.Attach, { slot: 0 });
    turns.turn();
    const work = turns.noteWork();
    for (let turn = 0; turn < 40; turn++) {
      turns.say(0, RequestOp.Recheck, { slot: 0 });
      turns.nowMs += 0.25;
      turns.turn();
    }
    assert.ok(work.length >= 9 && work.length <= 12, `${work.length} in 10 ms`);
    const before = work.length;
    turns.turn();
    assert.equal(work.length, before + 1, "a turn without other commands is theirs");
  });

  it("charges inspect-schedule for the search for ticks, a turn for each long one", () => {
    let clockMs = 1000;
    const turns = new Turns(1, 0, () => clockMs);
    const { schedules } = turns.core.engine;
    const { everyMs, ...cron } = { ...scheduleFacts("s").timing, cron: "x" };
    schedules.restore(new Schedule(1, { ...scheduleFacts("s"), timing: { ...cron, everyMs: 0 } }));
    schedules.table.get("s")!.nextMs = 4e12;
    let searches = 0;
    schedules.next = (_, afterMs) => {
      searches++;
      clockMs += 5;
      return afterMs + everyMs;
    };
    const work = turns.noteWork();
    turns.say(0, RequestOp.Attach, { slot: 0 });
    // After a start, it looks at all schedules.
    for (let rest = 0; rest < 3; rest++) turns.turn();
    searches = 0;
    turns.inspectSchedule(0, "s");
    const searchesOfTurns: number[] = [];
    for (let turn = 0; turn < 12; turn++) {
      turns.turn();
      searchesOfTurns.push(searches);
      turns.nowMs = clockMs;
    }
    assert.equal(searches, 4);
    const most = Math.max(...searchesOfTurns.map((count, turn) => count - (searchesOfTurns[turn - 1] ?? 0)));
    assert.equal(most, 1, `${searchesOfTurns}`);
    assert.ok(work[0]! >= 5 * WORK_PER_MS, `${work}`);
  });

  it("sets a connection aside that lists many schedules", () => {
    const turns = new Turns(1, 0);
    const { schedules } = turns.core.engine;
    const work = turns.noteWork();
    for (let id = 1; id <= 500; id++) schedules.restore(new Schedule(id, scheduleFacts(`s${id}`)));
    turns.say(0, RequestOp.Attach, { slot: 0 });
    turns.say(0, Op.ListSchedules, { slot: 0 });
    turns.turn();
    assert.ok(work.length === 1 && work[0]! > 500, `${work}`);
  });

  it("brings very many ready tubes into order over several turns, and then reserves", () => {
    const turns = new Turns(1, 0, () => turns.nowMs);
    const { core } = turns;
    const { engine } = core;
    for (const slot of [0, 1]) turns.say(0, RequestOp.Attach, { slot });
    turns.turn();
    for (let id = 1; id <= 9000; id++) {
      const job = { id, pri: 5, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 1000 };
      for (const index of [0, 1]) engine.watch(engine.session(index), `q${id}`);
      engine.put(engine.session(0), job, EMPTY_BODY, 1000, `q${id}`);
    }
    for (const slot of [0, 1]) turns.say(0, Op.Reserve, { slot });
    turns.turn();
    assert.equal(core.slicedCommands.size, 2);
    // A client that leaves meanwhile gets no job.
    turns.say(0, RequestOp.Close, { slot: 1 });
    let count = 1;
    for (; core.slicedCommands.size > 0; count++) turns.turn();
    assert.ok(count >= 9 && count < 40, `${count} turns`);
    assert.equal(engine.jobCounts[JobState.Reserved], 1);
    assert.equal(engine.session(1).watches.size, 0);
    // Its tubes are in order now.
    turns.say(0, Op.Reserve, { slot: 0 });
    turns.turn();
    assert.equal(engine.jobCounts[JobState.Reserved], 2);
  });

  it("lists very many schedules over several turns", () => {
    const turns = new Turns(1, 0, () => turns.nowMs);
    const { core } = turns;
    const { schedules } = core.engine;
    for (let id = 1; id <= 9000; id++) schedules.restore(new Schedule(id, scheduleFacts(`s${10_000 - id}`)));
    turns.say(0, RequestOp.Attach, { slot: 0 });
    for (let rest = 0; rest < 100; rest++) turns.turn();
    turns.say(0, Op.ListSchedules, { slot: 0 });
    let count = 0;
    for (; count === 0 || core.slicedCommands.size > 0; count++) turns.turn();
    // A thousand are looked at in a turn.
    assert.ok(count >= 9 && count < 20, `${count} turns`);
  });

  it("lists a schedule that is deleted and set again meanwhile once, as the last page", () => {
    const turns = new Turns(1, 0, () => turns.nowMs);
    const { schedules } = turns.core.engine;
    const names = ["a", "b", "c"];
    for (const [index, name] of names.entries())
      schedules.restore(new Schedule(index + 1, scheduleFacts(name)));
    const { table } = schedules;
    for (const limit of [3, 2]) {
      let page: SchedulePage | undefined;
      const session = { ended: false } as ShardSession;
      const listed = { after: "", tube: undefined, limit };
      const listing = new ScheduleListing(turns.core.engine, session, listed, (found) => (page = found));
      assert.ok(!listing.step(3));
      const again = table.get("b")!;
      table.remove(again);
      table.add(again);
      while (!listing.step(1)) {}
      listing.finish();
      assert.deepEqual(
        page!.lines.map(({ name }) => name),
        names.slice(0, limit),
      );
      assert.equal(page!.hasMore, limit === 2);
    }
  });

  it("lets a connection move with a wait and its end in the queue", () => {
    const turns = new Turns(2, COSTLY_WORK);
    const { core } = turns;
    // Enough others that the one that moves isn't next.
    for (let slot = 0; slot < 30; slot++) turns.say(0, RequestOp.Attach, { slot });
    for (let slot = 0; slot < 30; slot++)
      for (let wait = 0; wait < 3; wait++) turns.say(0, RequestOp.Recheck, { slot });
    turns.say(0, RequestOp.WaitShared, { slot: 29, waitNumber: 1, atMs: Number.POSITIVE_INFINITY });
    turns.say(0, RequestOp.StopWait, { slot: 29 });
    turns.turn();
    assert.ok(core.aside.size > 0);
    for (let rest = 0; rest < 60; rest++) turns.turn();
    assert.equal(core.aside.size, 0);
    turns.say(0, RequestOp.Recheck, { slot: 29 });
    turns.say(0, RequestOp.WaitShared, { slot: 29, waitNumber: 2, atMs: Number.POSITIVE_INFINITY });
    turns.say(0, RequestOp.StopWait, { slot: 29 });
    turns.say(0, RequestOp.Detach, { slot: 29, id: 7 });
    turns.say(1, RequestOp.Adopt, { slot: 3, id: 7 });
    turns.say(1, Op.Put, { slot: 3, id: 1, ttrSeconds: 10 });
    for (let rest = 0; rest < 20; rest++) turns.turn();
    assert.equal(core.engine.waitingAlone, 0);
    assert.equal(core.engine.totalJobs, 1);
    assert.equal(core.hasWork, false);
  });
});

// Test of a client that leaves at the moment when its wait over several shards is due.

it("a client leaves when its wait is due", () => {
  const server = new HandDrivenServer(2);
  const client = server.connect(true);
  for (const tube of ["a", "b", "c", "d"]) client.say(`watch ${tube}\r\n`);
  client.say("reserve-with-timeout 1\r\n");
  server.settle();
  let waits = 0;
  for (const shard of server.shards)
    for (const session of Reflect.get(shard, "sessions") as (ShardSession | undefined)[]) {
      if (session?.engineSession.waiting !== Waiting.Shared) continue;
      waits++;
      // The clock is read between the beginning of a turn and the message of the end.
      shard.nowMs += 2000;
      shard.end(session);
      assert.equal(session.ended, true);
    }
  assert.ok(waits > 0, "the client waits on a shard for jobs of several");
});

// The names of the workers that hold leases: the right one for each job, and no more than there are
// leases.

const LEASES = 5;

it("each lease has its worker's name, and names of ended leases are forgotten", () => {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const session = engine.session(0);
  engine.use(session, "default");
  const workers = new LeaseWorkers(engine, session.index);
  for (let id = 1; id <= 1000; id++) {
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    assert.equal(engine.put(session, job, EMPTY_BODY, 0), Outcome.Done);
    assert.equal(engine.reserveJob(session, id, 0), Outcome.Done);
    workers.note(id, `w${id % 3}`);
    // Some end in each way, and the table learns of none.
    const over = id - LEASES;
    if (over > 0 && over % 2 === 0) engine.delete(session, over, 0);
    else if (over > 0) engine.release(session, over, 0, 0, 0);
    for (let held = Math.max(1, over + 1); held <= id; held++)
      assert.equal(workers.of(held), `w${held % 3}`, `job ${held} of ${id}`);
    assert.ok(workers.size <= 3 * (LEASES + 1), `${workers.size} names for ${LEASES} leases`);
  }
  assert.equal(workers.of(1), "");
});
