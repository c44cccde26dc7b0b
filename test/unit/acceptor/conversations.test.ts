import assert from "node:assert/strict";
import { it } from "node:test";
import { GatherStats } from "../../../src/acceptor/fanout/gather-stats.ts";
import { MoveUse } from "../../../src/acceptor/fanout/move-use.ts";
import { TubeRef } from "../../../src/acceptor/state/tube-ref.ts";
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

it("GatherStats counts acknowledgements only", () => {
  const host = new NotingHost(posts);
  const gather = new GatherStats(host, 2, () => "text");
  gather.onSignal(signalOf(0, ResponseKind.WaitDue));
  gather.onSignal(signalOf(0, ResponseKind.Ack));
  gather.onSignal(signalOf(1, ResponseKind.WaitDue));
  assert.deepEqual(host.did, []);
  gather.onSignal(signalOf(1, ResponseKind.Ack));
  assert.equal(host.did.length, 1);
});
