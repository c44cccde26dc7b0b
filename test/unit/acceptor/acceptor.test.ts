// Tests of the target of a connection's move, and of when a affinity is worth a move.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Backlog, ThreadLoads } from "../../../src/acceptor/acceptor.ts";
import { ShardAffinity } from "../../../src/acceptor/connection/replies.ts";
import { acceptorRole, Counter, countersOf, createTopology } from "../../../src/message/topology.ts";

/**
 * Two threads with an acceptor and a shard each; `pass` lets time go by, of which each slept so
 * much.
 */
function twoThreads() {
  const topology = createTopology({
    ...{ shards: 2, acceptors: 2, placement: "together" },
    ...{ jobBytesMax: 65535, ringBytes: 4096 },
  });
  const counters = [0, 1].map((acceptor) => countersOf(topology, acceptorRole(topology, acceptor)));
  const clock = { nowMs: 1000 };
  const loads = new ThreadLoads(topology, 0);
  for (const each of counters) each[Counter.TakesMoved] = 1;
  const mayMove = (): boolean => loads.mayTakeOne(1, clock.nowMs);
  const pass = (ms: number, ...idleMs: number[]): void => {
    clock.nowMs += ms;
    for (const [acceptor, idle] of idleMs.entries()) counters[acceptor]![Counter.IdleMs]! += idle;
  };
  const open = (...connections: number[]): void => {
    for (const [acceptor, count] of connections.entries()) counters[acceptor]![Counter.Connections] = count;
  };
  mayMove();
  return { counters, mayMove, pass, open, clock };
}

describe("ThreadLoads", () => {
  it("allows a move to an idle thread, however many connections it has", () => {
    const { mayMove, pass, open } = twoThreads();
    open(1, 50);
    pass(500, 0, 200);
    assert.equal(mayMove(), true);
    pass(500, 0, 100);
    assert.equal(mayMove(), false, "a hot tube does not pull all work to one core");
  });

  it("allows a move between busy threads if the target has no more connections and work", () => {
    const { mayMove, pass, open, counters } = twoThreads();
    open(10, 10);
    pass(500, 0, 0);
    assert.equal(mayMove(), true);
    counters[1]![Counter.MovedIn] = 1;
    assert.equal(mayMove(), false);
    counters[1]![Counter.MovedOut] = 1;
    assert.equal(mayMove(), true);
    pass(500, 400, 50);
    assert.equal(mayMove(), false, "it has much more to do");
  });

  it("counts an ongoing sleep", () => {
    const { mayMove, pass, open, counters, clock } = twoThreads();
    open(1, 50);
    counters[1]![Counter.IdleSinceMs] = clock.nowMs;
    pass(500);
    assert.equal(mayMove(), true);
  });

  it("ignores old readings, and threads without any", () => {
    const { mayMove, pass, counters } = twoThreads();
    pass(10_000, 0, 10_000);
    assert.equal(mayMove(), false);
    pass(200, 0, 200);
    assert.equal(mayMove(), true);
    counters[1]![Counter.TakesMoved] = 0;
    assert.equal(mayMove(), false);
  });
});

describe("ShardAffinity", () => {
  it("is settled after 64 commands for one shard, few for others between", () => {
    const affinity = new ShardAffinity();
    for (let i = 0; i < 63; i++) affinity.note(3);
    assert.ok(affinity.streak < 64);
    affinity.note(3);
    assert.deepEqual([affinity.shard, affinity.streak], [3, 64]);
    affinity.note(1);
    assert.deepEqual([affinity.shard, affinity.streak], [3, 56]);
  });

  it("changes soon, however long it was settled", () => {
    const affinity = new ShardAffinity();
    for (let i = 0; i < 100_000; i++) affinity.note(0);
    for (let i = 0; i < 80; i++) affinity.note(1);
    assert.deepEqual([affinity.shard, affinity.streak], [1, 64]);
  });

  it("doesn't exist for a client that alternates between two shards", () => {
    const affinity = new ShardAffinity();
    for (let i = 0; i < 1000; i++) {
      affinity.note(i % 2);
      assert.ok(affinity.streak < 64);
    }
  });
});

// Tests of an acceptor's backlog of lines: bounded, whatever the main thread does.

it("Backlog has one batch in flight, keeps a bounded number of items and counts the rest", () => {
  const batches: { lines: string[]; dropped: number }[] = [];
  const verbose = new Backlog<string>((lines, dropped) => batches.push({ lines, dropped }));
  verbose.add("first");
  assert.deepEqual(batches, [{ lines: ["first"], dropped: 0 }]);
  for (let i = 0; i < 2500; i++) verbose.add(`${i}`);
  assert.equal(batches.length, 1);
  verbose.taken();
  assert.equal(batches[1]!.lines.length, 1000);
  assert.equal(batches[1]!.lines[999], "999");
  assert.equal(batches[1]!.dropped, 1500);
  verbose.taken();
  assert.equal(batches.length, 2, "nothing is sent when there is nothing");
  verbose.add("at once again");
  verbose.add("last words");
  verbose.flush();
  assert.deepEqual(batches.slice(2), [
    { lines: ["at once again"], dropped: 0 },
    { lines: ["last words"], dropped: 0 },
  ]);
});
