// A shard with its own thread: loads its part of the log, then runs its loop and sleeps when the
// loop does.

import { BlockingLoop } from "../loop/blocking-loop.ts";
import { Point, REAL_THREAD } from "../loop/point.ts";
import { IdleSpin, SLEEP_MS_MAX, type Waiting } from "../loop/waiting-policy.ts";
import { threadOfShard } from "../message/topology.ts";
import { DoorbellOwner } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { ShardRuntime, type ShardRuntimeOptions } from "./shard-runtime.ts";

/**
 * Loads the shard's jobs, then serves for ever. From then on the thread's event loop does not run.
 */
export function runShard(options: ShardRuntimeOptions, waiting: Waiting): void {
  const { topology, shard } = options;
  const doorbell = new DoorbellOwner(new Int32Array(topology.doorbells), threadOfShard(topology, shard));
  const runtime = new ShardRuntime(options);
  const { role, counters } = runtime;
  const spin = new IdleSpin(waiting.spinMs, monotonicMs);
  const loop = new BlockingLoop({ role, doorbell, counters, spin, surroundings: REAL_THREAD });
  // The port to the log closes after this turn of the event loop.
  runtime.load(() => setImmediate(() => run(loop, doorbell)));
}

function run(loop: BlockingLoop, doorbell: DoorbellOwner): never {
  for (;;) {
    const point = loop.next();
    if (point === Point.Asleep) doorbell.sleep(loop.sleepMs);
    else if (point === Point.Ended) doorbell.rest(SLEEP_MS_MAX);
  }
}
