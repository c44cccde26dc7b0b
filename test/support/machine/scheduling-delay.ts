// Delay with which the machine wakes a sleeping thread during a measurement: only a longer one is
// the server's fault.

import { once } from "node:events";
import { Worker } from "node:worker_threads";

export class SchedulingDelay {
  readonly #stopped = new Int32Array(new SharedArrayBuffer(4));
  readonly #worker = new Worker(new URL("scheduling-delay-worker.ts", import.meta.url), {
    workerData: this.#stopped.buffer,
  });

  /** Ends the watch. Returns the delay in ms that `percent` of all sleeps did not exceed. */
  async stop(): Promise<(percent: number) => number> {
    const result = once(this.#worker, "message") as Promise<[number[]]>;
    Atomics.store(this.#stopped, 0, 1);
    Atomics.notify(this.#stopped, 0);
    const lateMs = (await result)[0].sort((a, b) => a - b);
    return (percent) => lateMs[Math.min(lateMs.length - 1, Math.floor((lateMs.length * percent) / 100))] ?? 0;
  }
}
