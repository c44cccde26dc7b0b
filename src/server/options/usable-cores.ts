// Number of cores that the process may use, by its CPU affinity and the limits of its control
// group.

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

const CGROUP_ROOT = "/sys/fs/cgroup";

/**
 * Returns at least 1. A limit of 1.5 cores counts as 1, since a second thread would be throttled
 * half of the time.
 */
export function usableCores(): number {
  return coresWithin(availableParallelism(), cgroupPath(readText("/proc/self/cgroup")), (path) =>
    readText(join(CGROUP_ROOT, path, "cpu.max")),
  );
}

/**
 * Returns the minimum of `cores` and the limits of a control group and its ancestors. `cpuMax`
 * reads a group's `cpu.max`.
 */
export function coresWithin(cores: number, group: string, cpuMax: (path: string) => string): number {
  let least = cores;
  for (let path = group; ; path = path.slice(0, path.lastIndexOf("/"))) {
    const [quota, period] = cpuMax(path).trim().split(" ").map(Number);
    if (quota !== undefined && period !== undefined && quota > 0 && period > 0)
      least = Math.min(least, quota / period);
    if (path === "") break;
  }
  return Math.max(1, Math.floor(least));
}

/**
 * Returns the process's path in the unified hierarchy, "" for its root, from the line of
 * /proc/self/cgroup that begins with 0.
 */
export function cgroupPath(text: string): string {
  const path = /^0::(.*)$/m.exec(text)?.[1] ?? "";
  return path === "/" ? "" : path;
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // Control groups are missing or of another version, so only Node's number counts.
    return "";
  }
}
