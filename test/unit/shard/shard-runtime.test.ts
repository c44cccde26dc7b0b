import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RequestOp, writeRequest } from "../../../src/message/request.ts";
import { createTopology } from "../../../src/message/topology.ts";
import { Op } from "../../../src/protocol/commands.ts";
import { Request } from "../../../src/protocol/request.ts";
import { RingWriter } from "../../../src/ring/ring.ts";
import { ShardCore } from "../../../src/shard/shard-core.ts";

describe("a delayed turn of a shard", () => {
  // Found by the soak: a release that was sent while its shard stood still in a turn was given
  // again 440 ms too early.
  it("counts the delay of a release, and a ttr, from their reading and not from its start", () => {
    const topology = createTopology({ shards: 1, acceptors: 1, jobBytesMax: 65535, ringBytes: 1 << 16 });
    const clock = { nowMs: 1000 };
    const core = new ShardCore({ topology, shard: 0, quoteNames: false, clock: () => clock.nowMs });
    const ring = new RingWriter(topology.requests[0]![0]!);
    const say = (
      op: number,
      rest: Partial<Pick<Request, "id" | "ttrSeconds" | "delaySeconds">> = {},
    ): void => {
      assert.ok(writeRequest(ring, Object.assign(new Request().begin(op), rest)));
      ring.publish();
    };
    say(RequestOp.Attach);
    say(Op.Put, { id: 1, ttrSeconds: 10 });
    say(Op.Put, { id: 2, ttrSeconds: 10 });
    core.step(1000);
    say(Op.ReserveJob, { id: 1 });
    say(Op.ReserveJob, { id: 2 });
    core.step(1001);
    say(Op.Release, { id: 1, delaySeconds: 1 });
    say(Op.Touch, { id: 2 });
    // The turn began at 1002, and its thread had no core until 1500.
    clock.nowMs = 1500;
    core.step(1002);
    const { engine } = core;
    assert.equal(engine.nextDueAtMs, 2500);
    engine.runDue(2499);
    assert.equal(engine.jobs.pageOf(engine.find(1)).deadlineAtMs[engine.find(1)], 2500);
    assert.equal(engine.jobs.pageOf(engine.find(2)).deadlineAtMs[engine.find(2)], 11_500);
  });
});
