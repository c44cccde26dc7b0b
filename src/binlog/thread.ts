// Entry point of the log's own worker thread: opens the log when ordered to, then writes and syncs
// the shards' records.

import { parentPort, workerData } from "node:worker_threads";
import { BlockingLoop } from "../loop/blocking-loop.ts";
import { Point, REAL_THREAD } from "../loop/role.ts";
import { IdleSpin } from "../loop/waiting-policy.ts";
import { binlogBell } from "../message/topology.ts";
import { DoorbellOwner } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import type { BinlogLoop } from "./binlog-loop.ts";
import { type BinlogData, type BinlogNews, BinlogRuntime } from "./binlog-runtime.ts";

const data = workerData as BinlogData;
const runtime = new BinlogRuntime(data, tell);

/** Serves until the log is told to stop, or fails. */
function run(role: BinlogLoop): void {
  const doorbell = new DoorbellOwner(new Int32Array(data.topology.doorbells), binlogBell(data.topology));
  // The thread waits for events that take longer than a spin.
  const spin = new IdleSpin(0, monotonicMs);
  const loop = new BlockingLoop({
    role,
    doorbell,
    counters: role.turns,
    spin,
    surroundings: REAL_THREAD,
  });
  for (;;) {
    const point = loop.next();
    if (point === Point.Asleep) doorbell.sleep(loop.sleepMs);
    else if (point === Point.Ended) return;
  }
}

/** Resolves with the order to open the log. */
function orderToOpen(): Promise<unknown> {
  const order = new Promise((resolve) => parentPort!.once("message", resolve));
  tell({ news: "loaded" });
  return order;
}

function tell(news: BinlogNews): void {
  parentPort!.postMessage(news);
}

async function serve(): Promise<void> {
  await orderToOpen();
  const role = await runtime.open();
  if (role === undefined) return;
  run(role);
  runtime.close();
}

void serve();
