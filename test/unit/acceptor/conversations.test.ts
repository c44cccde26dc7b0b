import assert from "node:assert/strict";
import { it } from "node:test";
import type { Connection } from "../../../src/acceptor/connection.ts";
import { GatherStats } from "../../../src/acceptor/gather-stats.ts";
import { MoveUse } from "../../../src/acceptor/move-use.ts";
import { TubeRef } from "../../../src/acceptor/tube-ref.ts";
import { latin1 } from "../../../src/base/bytes.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { ResponseKind } from "../../../src/message/response.ts";
import { Op } from "../../../src/protocol/op.ts";

/** A connection that notes what a conversation does with it. */
function connectionNoting(): { connection: Connection; did: string[] } {
  const did: string[] = [];
  const connection = {
    post: (shard: number, op: number) => void did.push(`post ${op} to ${shard}`),
    finishConversation: (reply: Uint8Array) => void did.push(latin1(reply, 0, reply.length)),
    finishWithText: (text: string) => void did.push(text),
  };
  return { connection: connection as unknown as Connection, did };
}

// Found by the simulation: a shard had told that a wait was due when the client's half-close ended it; the signal then
// met the next command, which took it for its own, and the answer to that command met the one after it.
it("MoveUse is not moved by the late WaitDue of a reserve that has ended", () => {
  const { connection, did } = connectionNoting();
  const [from, to] = [new TubeRef("a", 7), new TubeRef("b", 7)];
  const move = new MoveUse(connection, from, to);
  move.onSignal(from.shard, ResponseKind.WaitDue);
  assert.deepEqual(did, [`post ${Op.Use} to ${to.shard}`]);
  move.onSignal(to.shard, ResponseKind.Ack);
  move.onSignal(from.shard, ResponseKind.WaitDue);
  assert.deepEqual(did.slice(1), [`post ${RequestOp.Unuse} to ${from.shard}`]);
  move.onSignal(from.shard, ResponseKind.Ack);
  assert.deepEqual(did.slice(2), ["USING b\r\n"]);
});

it("GatherStats counts acknowledgements only", () => {
  const { connection, did } = connectionNoting();
  const gather = new GatherStats(connection, 2, () => "text");
  gather.onSignal(0, ResponseKind.WaitDue);
  gather.onSignal(0, ResponseKind.Ack);
  gather.onSignal(1, ResponseKind.WaitDue);
  assert.deepEqual(did, []);
  gather.onSignal(1, ResponseKind.Ack);
  assert.equal(did.length, 1);
});
