// Tests of which connections may move, and of moves that end where they began.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ClientState, type ConnectionState } from "../../../../src/acceptor/migration/client-state.ts";
import { ConnectionMigrator, type Movable } from "../../../../src/acceptor/migration/connection-migrator.ts";
import { TubeRef } from "../../../../src/acceptor/state/watch-list.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const SHARDS = 2;

function scene() {
  const facts = {
    hasRoom: true,
    begun: 0,
    moved: [] as number[],
    stayed: [] as number[],
    vacated: [] as number[],
    nowMs: 1000,
    /** What the last connection that moved took with it. */
    state: undefined as ConnectionState | undefined,
  };
  const migrator = new ConnectionMigrator({
    topology: createTopology({
      ...{ shards: SHARDS, acceptors: 2, placement: "together", moves: true },
      ...{ jobBytesMax: 65535, ringBytes: 4096 },
    }),
    core: {
      links: new HandDrivenServer(SHARDS).acceptor.links,
      depart() {},
      slots: { vacate: (slot) => void facts.vacated.push(slot) },
    },
    acceptor: 0,
    loads: { mayTakeOne: () => true },
    nowMs: () => facts.nowMs,
    commands: 64,
    ways: [
      undefined,
      {
        hasRoom: () => facts.hasRoom,
        write: (_, number, state) => {
          facts.moved.push(number);
          facts.state = state;
        },
        publish() {},
      },
    ],
  });
  const connection = (slot: number, isToEnd = false): Movable => {
    const client = new ClientState(SHARDS, new TubeRef("default", SHARDS), 0);
    client.touched.add(0);
    return {
      slot,
      client,
      isToEnd,
      departure: {
        begin: (onReady) => {
          facts.begun++;
          onReady();
        },
        cancel() {},
        complete: () => ({ descriptor: slot, bytes: undefined }),
      },
      leave() {},
      stay: () => void facts.stayed.push(slot),
    };
  };
  return { facts, migrator, connection };
}

describe("ConnectionMigrator", () => {
  it("moves later connections, however many moves ended where they began", () => {
    const { facts, migrator, connection } = scene();
    facts.hasRoom = false;
    for (let slot = 1; slot <= 20; slot++) migrator.consider(connection(slot), 1);
    assert.equal(facts.stayed.length, 20);
    facts.hasRoom = true;
    for (let slot = 1; slot <= 20; slot++) migrator.consider(connection(slot, true), 1);
    assert.equal(facts.stayed.length, 40);
    migrator.consider(connection(7), 1);
    assert.equal(facts.moved.length, 1);
  });

  it("moves few at a time, and the next when the shards have released one's slot", () => {
    const { facts, migrator, connection } = scene();
    for (let slot = 1; slot <= 20; slot++) migrator.consider(connection(slot), 1);
    const most = facts.moved.length;
    assert.ok(most > 0 && most < 20, `${most} at a time`);
    assert.deepEqual(facts.vacated, []);
    migrator.onDetached(1);
    assert.deepEqual(facts.vacated, [1]);
    for (let slot = 21; slot <= 40; slot++) migrator.consider(connection(slot), 1);
    assert.equal(facts.moved.length, most + 1);
    assert.equal(new Set(facts.moved).size, most + 1, "each move has a number of its own");
  });

  it("lets a connection stay longer after each move, up to a minute", () => {
    const { facts, migrator, connection } = scene();
    const stays: number[] = [];
    for (let move = 1; move <= 8; move++) {
      const moving = connection(move);
      if (facts.state !== undefined) {
        moving.client.history = facts.state.history;
        migrator.consider(moving, 1);
        assert.equal(facts.moved.length, move - 1, "it has to stay for a while");
        facts.nowMs = facts.state.history.mayMigrateAtMs;
      }
      migrator.consider(moving, 1);
      assert.equal(facts.moved.length, move);
      migrator.onDetached(move);
      stays.push(facts.state!.history.mayMigrateAtMs - facts.nowMs);
    }
    assert.deepEqual(stays, [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  });

  it("does not try to move a connection that watches more tubes than a message holds", () => {
    const { facts, migrator, connection } = scene();
    const few = connection(1);
    const many = connection(2);
    for (let tube = 0; tube < 1000; tube++) few.client.watched.add(new TubeRef(`${tube}`, SHARDS));
    for (let tube = 0; tube < 5000; tube++) many.client.watched.add(new TubeRef(`${tube}`, SHARDS));
    for (let attempt = 0; attempt < 10; attempt++) migrator.consider(many, 1);
    assert.equal(facts.begun, 0);
    migrator.consider(few, 1);
    assert.deepEqual([facts.begun, facts.moved.length], [1, 1]);
  });
});
