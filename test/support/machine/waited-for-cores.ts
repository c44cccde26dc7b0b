// Time that the threads of a process were ready to run, but had no core.

import { readdirSync, readFileSync } from "node:fs";

const NS_PER_MS = 1e6;

/** Returns the sum over all threads that are alive, ms; 0 for a process that is gone. */
export function waitedForCoresMs(pid: number): number {
  const folder = `/proc/${pid}/task`;
  return threadsIn(folder).reduce((sum, thread) => sum + waitedMs(`${folder}/${thread}/schedstat`), 0);
}

/** Returns the same for the main thread of this process, which tests run in, ms. */
export const waitedHereMs = (): number => waitedMs("/proc/self/schedstat");

function threadsIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** The second number is the time on the run queue; see the kernel's sched-stats.rst. */
function waitedMs(path: string): number {
  try {
    const [, waitedNs] = readFileSync(path, "latin1").split(" ");
    return Number(waitedNs) / NS_PER_MS;
  } catch {
    return 0; // The thread has ended.
  }
}
