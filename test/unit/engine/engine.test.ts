// Tests of an engine's times at their largest, and in a turn that began before a command was sent.

import assert from "node:assert/strict";
import { it } from "node:test";
import { EngineBench } from "./engine-bench.ts";

it("the largest delay and TTR are no overflow", () => {
  const bench = new EngineBench();
  const session = bench.session(1, "t", "t");
  bench.put(session, { delay: 4294967295, ttr: 4294967295 });
  bench.put(session, { ttr: 4294967295 });
  bench.reserve(session);
  assert.equal(bench.engine.nextDueAtMs, 4294967295000);
  bench.jump(4294967294999);
  assert.equal(bench.engine.jobCounts[4], 1);
});

it("the delay of a put counts from its sending, even if its shard's turn began earlier", () => {
  const bench = new EngineBench();
  const session = bench.session(1, "t", "t");
  bench.put(session, { delay: 2, sentAfterMs: 30 });
  bench.reserve(session);
  assert.deepEqual(bench.jump(2029), []);
  assert.deepEqual(bench.jump(1), ["session 1: job 1"]);
});
