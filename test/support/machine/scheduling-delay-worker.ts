// Thread that only sleeps and records how late it is woken. See scheduling-delay.ts.

import { parentPort, workerData } from "node:worker_threads";

const SLEEP_MS = 5;

const stopped = new Int32Array(workerData as SharedArrayBuffer);
const lateMs: number[] = [];
while (Atomics.load(stopped, 0) === 0) {
  const dueMs = performance.now() + SLEEP_MS;
  Atomics.wait(stopped, 0, 0, SLEEP_MS);
  if (Atomics.load(stopped, 0) === 0) lateMs.push(Math.max(0, performance.now() - dueMs));
}
parentPort!.postMessage(lateMs);
