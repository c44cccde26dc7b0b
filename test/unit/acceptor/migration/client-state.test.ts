// Tests of the state of a connection that moves: nothing of it is lost on the way.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ClientState, type ConnectionState } from "../../../../src/acceptor/migration/client-state.ts";
import { TubeRef } from "../../../../src/acceptor/state/watch-list.ts";
import { ReserveOrder } from "../../../../src/protocol/request.ts";

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
