// Limit of file descriptors of the process, for a warning when connections use them up.

import { readFileSync } from "node:fs";

/**
 * Returns the soft limit of open files, which Node raises to the hard limit; Infinity if unknown.
 */
export function descriptorLimit(): number {
  try {
    const line = /^Max open files\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return line === undefined || line === "unlimited" ? Number.POSITIVE_INFINITY : Number(line);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
