// Settings for the threads: how many there are, which roles share one, and the transport.

import { release } from "node:os";
import type { TransportKind } from "../../acceptor/acceptor.ts";
import { type Setting, SettingError } from "../../config/setting.ts";
import type { Placement } from "../../message/topology.ts";
import { ACCEPTORS_MAX, defaultThreads, defaultTransport, SHARDS_MAX } from "./machine-defaults.ts";
import { usableCores } from "./usable-cores.ts";

export interface ThreadSettings {
  shards: number;
  acceptors: number;
  transport: TransportKind | "auto";
  /** Whether shards run in the threads of acceptors; see placement.ts. */
  placement: Placement | "auto";
  /** Whether the log runs in the serving thread; see placement.ts. */
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
