// Tests of connections in the ring from one acceptor to another.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ConnectionState, MovedConnection } from "../../../../src/acceptor/migration/client-state.ts";
import {
  MIGRATION_BYTES_MAX,
  MigrationReceiver,
  MigrationWriter,
} from "../../../../src/acceptor/migration/migration-ring.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { ReserveOrder } from "../../../../src/protocol/request.ts";

const STATE: ConnectionState = {
  used: "mails",
  watched: ["default", "x".repeat(200)],
  touched: [0, 1, 63],
  isProducer: true,
  isWorker: false,
  name: "worker\xe9",
  nextBatchNumber: 2 ** 40,
  openedAtMs: 1234.5,
  peer: "[2001:db8::1]:40000",
  listener: 2,
  history: { migrations: 3, mayMigrateAtMs: 99_999.25 },
  order: { order: ReserveOrder.WeightedTime, floor: 2 ** 40 + 1, weights: [1, 1000] },
};
const PLAIN: ConnectionState = {
  ...STATE,
  isProducer: false,
  isWorker: true,
  order: undefined,
  peer: undefined,
  listener: undefined,
};

function wayBetween(): {
  way: MigrationWriter;
  migrationReceiver: MigrationReceiver;
  landed: MovedConnection[];
} {
  const { migrationRings } = createTopology({
    ...{ shards: 2, acceptors: 2, placement: "together", migration: true },
    ...{ jobBytesMax: 65535, ringBytes: 4096 },
  });
  const ring = migrationRings[0]![1]!;
  const landed: MovedConnection[] = [];
  const migrationReceiver = new MigrationReceiver([ring], (moved) => void landed.push(moved));
  return { way: new MigrationWriter(ring), migrationReceiver, landed };
}

describe("MigrationWriter and MigrationReceiver", () => {
  it("transfer connections unchanged, in order, once published", () => {
    const { way, migrationReceiver, landed } = wayBetween();
    const bytes = new Uint8Array(MIGRATION_BYTES_MAX).fill(7);
    way.write({ descriptor: 17, bytes }, 5, STATE);
    way.write({ descriptor: 18, bytes: undefined }, 7, PLAIN);
    migrationReceiver.take();
    assert.equal(migrationReceiver.hasSome, false);
    assert.deepEqual(landed, []);
    way.publish();
    assert.equal(migrationReceiver.hasSome, true);
    migrationReceiver.take();
    assert.equal(migrationReceiver.hasSome, false);
    assert.deepEqual(landed, [
      { descriptor: 17, number: 5, bytes, state: STATE },
      { descriptor: 18, number: 7, bytes: undefined, state: PLAIN },
    ]);
  });

  it("keep connections apart, however long the client's address is", () => {
    for (let length = 1; length <= 40; length++) {
      const { way, migrationReceiver, landed } = wayBetween();
      const state = { ...STATE, peer: "x".repeat(length) };
      way.write({ descriptor: 17, bytes: undefined }, 1, state);
      way.write({ descriptor: 18, bytes: Uint8Array.of(1, 2, 3) }, 2, state);
      way.write({ descriptor: 19, bytes: undefined }, 3, PLAIN);
      way.publish();
      migrationReceiver.take();
      assert.deepEqual(landed, [
        { descriptor: 17, number: 1, bytes: undefined, state },
        { descriptor: 18, number: 2, bytes: Uint8Array.of(1, 2, 3), state },
        { descriptor: 19, number: 3, bytes: undefined, state: PLAIN },
      ]);
    }
  });

  it("free room, and keep bytes unchanged", () => {
    const { way, migrationReceiver, landed } = wayBetween();
    for (let number = 0; number < 100; number++) {
      assert.equal(way.hasRoom(STATE), true, `connection ${number}`);
      way.write({ descriptor: number, bytes: new Uint8Array(10_000).fill(number) }, number, STATE);
      way.publish();
      migrationReceiver.take();
    }
    for (const { descriptor, bytes } of landed)
      assert.deepEqual(bytes, new Uint8Array(10_000).fill(descriptor));
  });

  it("refuse a client with too many watches, and refuse while the ring is full", () => {
    const { way } = wayBetween();
    const watched = Array.from({ length: 100 }, (_, each) => `${each}`.padEnd(200, "x"));
    assert.equal(way.hasRoom({ ...STATE, watched }), false);
    let written = 0;
    for (; way.hasRoom(STATE); written++)
      way.write({ descriptor: 1, bytes: new Uint8Array(MIGRATION_BYTES_MAX) }, written, STATE);
    assert.ok(written >= 6, `${written} fit`);
  });

  it("exist between acceptors of different threads if shards live with acceptors", () => {
    const options = {
      shards: 3,
      acceptors: 3,
      threads: 2,
      migration: true,
      jobBytesMax: 65535,
      ringBytes: 4096,
    };
    const { migrationRings } = createTopology({ ...options, placement: "together" });
    assert.deepEqual(
      migrationRings.map((ways) => ways.map((ring) => ring !== undefined)),
      [
        [false, true, false],
        [true, false, true],
        [false, true, false],
      ],
    );
    assert.deepEqual(createTopology({ ...options, placement: "apart" }).migrationRings, []);
    assert.deepEqual(createTopology({ ...options, placement: "together", threads: 1 }).migrationRings, []);
    assert.deepEqual(
      createTopology({ ...options, placement: "together", migration: false }).migrationRings,
      [],
    );
  });
});
