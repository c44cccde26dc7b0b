// Bytes of JavaScript memory in use, after a full garbage collection.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

let collect: (() => void) | undefined;

/** The heap and all ArrayBuffers. */
export function memoryInUse(): number {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Repeated measurements, and the pause between them. */
const LOOKS = 20;
const LOOK_PAUSE_MS = 25;

/**
 * Returns what `measure` says, or at most `limitBytes` if it soon falls to that. What is found to
 * be garbage is freed by other threads of the runtime, and they may have to wait for a core.
 */
export function settledBytes(limitBytes: number, measure: () => number): number {
  let bytes = measure();
  for (let look = 1; bytes > limitBytes && look < LOOKS; look++) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_PAUSE_MS);
    bytes = measure();
  }
  return bytes;
}
