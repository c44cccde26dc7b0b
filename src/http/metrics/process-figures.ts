// Process data from /proc: CPU time by thread name, and open descriptors.

import { readdirSync, readFileSync } from "node:fs";
import { Counter, type Topology } from "../../message/topology.ts";
import { monotonicMs } from "../../ring/monotonic-clock.ts";

/** Clock ticks per second in /proc, 100 on all Linux systems. */
const TICKS_PER_SECOND = 100;

interface ThreadCpu {
  readonly thread: string;
  readonly userSeconds: number;
  readonly systemSeconds: number;
}

/** Returns CPU times by thread name. Sums up threads of the same name, such as libuv's. */
export function threadCpu(): ThreadCpu[] {
  const byName = new Map<string, ThreadCpu>();
  for (const { name, user, system } of threads()) {
    const before = byName.get(name) ?? { thread: name, userSeconds: 0, systemSeconds: 0 };
    byName.set(name, {
      thread: name,
      userSeconds: before.userSeconds + user / TICKS_PER_SECOND,
      systemSeconds: before.systemSeconds + system / TICKS_PER_SECOND,
    });
  }
  return [...byName.values()];
}

function* threads(): Iterable<{ name: string; user: number; system: number }> {
  for (const task of listed("/proc/self/task")) {
    const stat = contents(`/proc/self/task/${task}/stat`);
    // The name is in parentheses, and may contain parentheses.
    const nameEnd = stat.lastIndexOf(")");
    if (nameEnd < 0) continue;
    const fields = stat.slice(nameEnd + 2).split(" ");
    // The kernel keeps 15 characters, so "acceptor 0 with shard 0" is truncated; cut at " with".
    const name = stat.slice(stat.indexOf("(") + 1, nameEnd).replace(/ wi?t?h?.*$/, "");
    yield { name, user: Number(fields[11]), system: Number(fields[12]) };
  }
}

export function openDescriptors(): number {
  // This listing itself has opened one of them.
  return Math.max(0, listed("/proc/self/fd").length - 1);
}

function listed(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function contents(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

// Memory of the rings between threads.

export function ringBytesOf({ requests, responses }: Topology): number {
  return [...requests, ...responses].flat().reduce((sum, { byteLength }) => sum + byteLength, 0);
}

// Time for which the oldest record has been waiting for the log's disk.

/** Reads the binlog thread's counters, which work even while a sync blocks that thread. */
export function unsyncedSeconds(counters: Float64Array): number {
  const sinceMs = counters[Counter.BinlogUnsyncedSinceMs]!;
  return sinceMs === 0 ? 0 : Math.max(0, monotonicMs() - sinceMs) / 1000;
}
