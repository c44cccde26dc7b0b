// Tests of the state of a connection that moves: nothing of it is lost on the way.

import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import {
  ClientState,
  type ConnectionState,
  ShardSet,
} from "../../../../src/acceptor/migration/client-state.ts";
import { TubeRef } from "../../../../src/acceptor/state/watch-list.ts";
import { ReserveOrder } from "../../../../src/protocol/request.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const SHARDS = 3;

it("a client's state arrives as it left, each part of it", () => {
  const state: ConnectionState = {
    used: "mails",
    watched: ["a", "b", "default"],
    order: { order: ReserveOrder.Weighted, floor: 7, weights: [1, 5, 1000] },
    touched: [0, 2],
    isProducer: true,
    isWorker: true,
    nextBatchNumber: 9,
    openedAtMs: 123,
    peer: "192.0.2.1:4711",
    name: "w\xffrker",
    listener: 1,
    history: { migrations: 2, mayMigrateAtMs: 456 },
  };
  const none = { order: undefined, isProducer: false, isWorker: false, touched: [] };
  const nameless = { peer: undefined, name: undefined, listener: undefined };
  for (const moved of [state, { ...state, ...none, ...nameless, nextBatchNumber: 1 }]) {
    const arrived = new ClientState(SHARDS, new TubeRef("default", SHARDS), 1000, moved);
    assert.deepEqual(arrived.message(arrived.history), moved);
  }
});

const step = fc.tuple(fc.boolean(), fc.oneof(fc.nat(63), fc.constantFrom(0, 31, 32, 63)));

it("ShardSet answers as a Set of 0 to 63", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const shards = new ShardSet();
      const set = new Set<number>();
      for (const [adds, shard] of steps) {
        if (adds) {
          shards.add(shard);
          set.add(shard);
        } else {
          shards.delete(shard);
          set.delete(shard);
        }
        assert.equal(shards.empty, set.size === 0);
        for (let each = 0; each < 64; each++) {
          assert.equal(shards.has(each), set.has(each));
          assert.equal(
            shards.within(each),
            [...set].every((member) => member === each),
          );
        }
      }
    }),
  );
});
