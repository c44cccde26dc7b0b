// Settings for the threads: how many there are, which roles share one, and the transport.

import { readFileSync } from "node:fs";
import { availableParallelism, release } from "node:os";
import { join } from "node:path";
import type { TransportKind } from "../../acceptor/acceptor.ts";
import { isSince } from "../../base/text.ts";
import { type Setting, SettingError } from "../../config/setting.ts";
import type { Placement } from "../../message/topology.ts";

// Number of cores that the process may use, by its CPU affinity and the limits of its control
// group.

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

// Defaults that depend on the machine: threads by its cores, the transport by its kernel.

export const SHARDS_MAX = 64;
export const ACCEPTORS_MAX = 16;

/**
 * Returns the thread counts for `cores`. At full load, an acceptor takes most of a core and a shard
 * a fifth of one.
 */
export function defaultThreads(cores: number): { acceptors: number; shards: number } {
  const shards = Math.max(1, Math.min(SHARDS_MAX, Math.floor(cores / 4)));
  return { shards, acceptors: Math.max(1, Math.min(ACCEPTORS_MAX, cores - shards - (cores > 3 ? 1 : 0))) };
}

/** First Linux release that uses io_uring by default: the one that it was tested on. */
const IO_URING_SINCE = [6, 18] as const;

/**
 * Returns the default transport for a kernel release such as "6.18.44": io_uring if it is permitted
 * and the kernel is no older than the tested one.
 */
export function defaultTransport(kernelRelease: string): TransportKind | "auto" {
  return isSince(kernelRelease, IO_URING_SINCE) ? "auto" : "libuv";
}

export interface ThreadSettings {
  shards: number;
  acceptors: number;
  transport: TransportKind | "auto";
  /** Whether shards run in the threads of acceptors; see server/server-plan.ts. */
  placement: Placement | "auto";
  /** Whether the log runs in the serving thread; see server/server-plan.ts. */
  logPlacement: Placement | "auto";
  /** Serving threads with `together`; undefined for as many as pay off. */
  threads: number | undefined;
  /** Whether connections move to the threads of their tubes. */
  migration: boolean;
}

const THREADS = defaultThreads(usableCores());

export const THREAD_DEFAULTS: Readonly<ThreadSettings> = {
  shards: THREADS.shards,
  acceptors: THREADS.acceptors,
  transport: defaultTransport(release()),
  placement: "auto",
  logPlacement: "auto",
  threads: undefined,
  migration: true,
};

/** Throws a SettingError unless the text is a number from 1 to `max`. */
export function count(name: string, text: string, max: number): number {
  const value = /^[0-9]+$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > max) throw new SettingError(`invalid number: ${name} ${text} (1 to ${max})`);
  return value;
}

function placement(how: string): ThreadSettings["placement"] {
  if (how !== "together" && how !== "apart" && how !== "auto")
    throw new SettingError(`invalid placement: ${how} (together, apart or auto)`);
  return how;
}

export const THREAD_SETTINGS: readonly Setting<ThreadSettings>[] = [
  {
    key: "shards",
    flags: "--shards <n>",
    kind: "number",
    plainFlag: true,
    text: `number of shards (queue engines), 1 to ${SHARDS_MAX} (default for this machine: ${THREADS.shards})`,
    apply(options, n) {
      options.shards = count("--shards", n, SHARDS_MAX);
    },
    show: ({ shards }) => shards,
  },
  {
    key: "acceptors",
    flags: "--acceptors <n>",
    kind: "number",
    plainFlag: true,
    text: `number of acceptors (they serve connections), 1 to ${ACCEPTORS_MAX} (default for this machine: ${THREADS.acceptors})`,
    apply(options, n) {
      options.acceptors = count("--acceptors", n, ACCEPTORS_MAX);
    },
    show: ({ acceptors }) => acceptors,
  },
  {
    key: "placement",
    flags: "--placement <how>",
    kind: "text",
    text: "together: shards run in the acceptors' threads; apart: each shard has its own thread; auto: chosen by the number of usable cores (default)",
    apply(options, how) {
      options.placement = placement(how);
    },
    show: ({ placement }) => placement,
  },
  {
    key: "log-placement",
    flags: "--log-placement <how>",
    kind: "text",
    text: "together: the log runs in the serving thread, if there is only one; apart: it has its own thread; auto: together if possible (default)",
    apply(options, how) {
      options.logPlacement = placement(how);
    },
    show: ({ logPlacement }) => logPlacement,
  },
  {
    key: "threads",
    flags: "--threads <n>",
    kind: "number",
    plainFlag: true,
    text: "with --placement together: number of serving threads, 1 to the number of acceptors (default: cores minus one)",
    example: 1,
    apply(options, n) {
      options.threads = count("--threads", n, ACCEPTORS_MAX);
    },
    show: ({ threads }) => threads,
  },
  {
    key: "no-migration",
    flags: "--no-migration",
    kind: "switch",
    text: "keep each connection in the thread that accepted it; by default, with --placement together and io_uring, connections follow their tubes",
    set(options, on) {
      options.migration = !on;
    },
    show: ({ migration }) => !migration,
  },
  {
    key: "transport",
    flags: "--transport <kind>",
    kind: "text",
    text: "io_uring (Linux 6.1 or later) or libuv (default: io_uring from Linux 6.18 on where it is permitted)",
    example: "libuv",
    apply(options, kind) {
      if (kind !== "libuv" && kind !== "io_uring")
        throw new SettingError(`invalid transport: ${kind} (libuv or io_uring)`);
      options.transport = kind;
    },
    show: ({ transport }) => (transport === "auto" ? undefined : transport),
  },
];
