// How many file descriptors the process may have, so that an operator is told when connections use them up.

import { readFileSync } from "node:fs";

/** The soft limit of open files, which Node has raised to the hard one; Infinity where it can't be known. */
export function descriptorLimit(): number {
  try {
    const line = /^Max open files\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return line === undefined || line === "unlimited" ? Number.POSITIVE_INFINITY : Number(line);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
