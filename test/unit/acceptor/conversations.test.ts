import assert from "node:assert/strict";
import { it } from "node:test";
import { AwaitAcks, MoveUse } from "../../../src/acceptor/fanout/await-acks.ts";
import { TubeRef } from "../../../src/acceptor/state/watch-list.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { ResponseKind } from "../../../src/message/response.ts";
import { Op } from "../../../src/protocol/commands.ts";
import { NotingHost, signalOf } from "../../support/in-process/noting-host.ts";

const posts = (shard: number, { op }: { op: number }): string => `post ${op} to ${shard}`;

// Found by the simulation: a shard had told that a wait was due when the client's half-close ended
// it; the signal then met the next command, which took it for its own, and the answer to that
// command met the one after it.
it("MoveUse ignores the late WaitDue of a reserve that has ended", () => {
  const host = new NotingHost(posts);
  const [from, to] = [new TubeRef("a", 7), new TubeRef("b", 7)];
  const move = new MoveUse(host, from, to);
  move.onSignal(signalOf(from.shard, ResponseKind.WaitDue));
  assert.deepEqual(host.did, [`post ${Op.Use} to ${to.shard}`]);
  move.onSignal(signalOf(to.shard, ResponseKind.Ack));
  move.onSignal(signalOf(from.shard, ResponseKind.WaitDue));
  assert.deepEqual(host.did, [`post ${RequestOp.Unuse} to ${from.shard}`]);
  move.onSignal(signalOf(from.shard, ResponseKind.Ack));
  assert.deepEqual(host.did, ["USING b"]);
});

it("AwaitAcks counts acknowledgements only", () => {
  const host = new NotingHost(posts);
  const message = () => host.message(Op.Stats);
  const acks = new AwaitAcks(host, [0, 1], message, () => host.finishWithText("text"));
  assert.deepEqual(host.did, [`post ${Op.Stats} to 0`, `post ${Op.Stats} to 1`]);
  acks.onSignal(signalOf(0, ResponseKind.WaitDue));
  acks.onSignal(signalOf(0, ResponseKind.Ack));
  acks.onSignal(signalOf(1, ResponseKind.WaitDue));
  assert.deepEqual(host.did, []);
  acks.onSignal(signalOf(1, ResponseKind.Ack));
  assert.equal(host.did.length, 1);
});
