// Tests which answers to the HTTP thread wait for the log.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Packr } from "msgpackr/pack";
import { Outcome } from "../../../../src/engine/jobs/ends.ts";
import type { Questions, Verb } from "../../../../src/message/control.ts";
import { ReplyPort, ResponseFlag } from "../../../../src/message/response.ts";
import { createRing, RingReader } from "../../../../src/ring/ring.ts";
import { ControlHandler, type ControlHandlerOptions } from "../../../../src/shard/control/control-handler.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const ID = 9;

it("an answer to a change waits for all records: what it misses, another may have deleted just now", () => {
  const ring = createRing(1 << 16);
  const port = new ReplyPort(ring);
  const reader = new RingReader(ring);
  const bench = new EngineBench();
  const { engine } = bench;
  const shard = { engine, records: { lastNumber: 5 }, nowMs: 0, portCount: 1, leaseSession: 0 };
  const handler = new ControlHandler({
    shard,
    port,
    leaseSession: 0,
  } as Partial<ControlHandlerOptions> as ControlHandlerOptions);
  const packr = new Packr({ useRecords: false, moreTypes: false, int64AsType: "number" });
  const waits = <Each extends Verb>(verb: Each, details: Questions[Each]): boolean => {
    handler.take(1, packr.pack([verb, details]));
    handler.step();
    port.publish(0);
    const offset = reader.next();
    const flags = reader.int32[(offset >> 2) + 1]! >>> 16;
    assert.ok(offset >= 0);
    reader.release();
    return (flags & ResponseFlag.Durable) !== 0;
  };
  assert.equal(waits("job-act", { id: ID, act: "delete", force: false }), true);
  // A lease ends with its time, whatever becomes of its job, and a touch must not wait for a disk.
  assert.equal(waits("leases", { changes: [{ act: "touch", id: ID, reserves: 1 }] }), false);
  const holder = bench.session(0, "a", "a");
  const id = bench.put(holder);
  assert.equal(bench.reserveJob(holder, id), "done");
  assert.equal(engine.cancel(id, new Uint8Array(0), 0), Outcome.Marked);
  const told = { changes: [{ act: "touch", id, reserves: 1 }] } as const;
  assert.equal(waits("leases", told), true, "it says that the job was cancelled");
  assert.equal(waits("job", { id: ID, bodyMax: 0 }), false, "it only reads");
});
