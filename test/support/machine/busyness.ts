// Load factor of the machine: how many times slower everything is because of other programs.

import { readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";

/**
 * Returns at least 1: programs that are ready to run now, or were in the last minute, for each
 * core.
 */
export function busyness(): number {
  // "0.20 0.18 0.12 17/234 5678": the fourth word begins with the number of threads that are ready
  // to run.
  const ready = Number.parseInt(readFileSync("/proc/loadavg", "utf8").split(" ")[3] ?? "1", 10);
  const [lastMinute = 0] = loadavg();
  return Math.max(1, Math.max(ready - 1, lastMinute) / availableParallelism());
}
